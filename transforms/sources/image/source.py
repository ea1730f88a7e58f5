"""Images as a kind of source: which of the folder's steps does what."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.base import Source, Transform
from beamfeed.transforms.sources.columns.label_counts import check_auto, settled
from beamfeed.transforms.sources.descriptors import Unit, Work
from beamfeed.transforms.sources.image.listing import list_runs
from beamfeed.transforms.sources.image.records import image_fields, read_records
from beamfeed.transforms.sources.image.run_file import read_facts
from beamfeed.transforms.sources.image.schema import ImageSchema, resolve_images
from beamfeed.transforms.sources.image.statistics import ImageStatistics
from beamfeed.transforms.sources.image.validate import ImageAsset, ImageRun, ImageVerdict, validate_run
from beamfeed.transforms.sources.overview import Overview
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.splits import seeded_hash


class Images(Source[ImageRun, ImageAsset, ImageVerdict, ImageVerdict, Work[ImageAsset]]):
    """A row is an image, and a file. What is planned and read at a time is a run of them: that is an asset here.

    Args:
      job: on images.
      schema: what it reads.
      count: how many images there are, without those that `source.max_assets` leaves out.
    """

    def __init__(self, job: Job, schema: ImageSchema, count: int, *, adds: bool = False):
        super().__init__(job)
        self._schema, self._count, self._adds = schema, count, adds

    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Images":
        return cls(job, resolve_images(job, files), len(files))

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str:
        return storage.below(path, job.source.patterns)

    @classmethod
    def first_files(cls, job: Job, files: Sequence[FileStat]) -> list[FileStat]:
        """The images; with `source.max_assets` so many, of each folder in turn one, by a hash."""
        beside = set(map(storage.absolute, job.source.beside.values()))
        files = [file for file in files if not beside or storage.absolute(file.path) not in beside]
        most = job.source.max_assets
        if most is None or len(files) <= most:
            return files
        by_folder = defaultdict(list)
        for file in files:
            by_folder[file.path.rpartition("/")[0]].append(file)
        order = []
        for folder, members in by_folder.items():
            members.sort(key=lambda file: (seeded_hash(job.split.seed, "first", file.path), file.path))
            order += [(place, folder, file) for place, file in enumerate(members)]
        chosen = {file for _, _, file in sorted(order, key=lambda entry: entry[:2])[:most]}
        return [file for file in files if file in chosen]

    @property
    def remarks(self) -> Sequence[str]:
        return self._schema.remarks

    def adding(self, new: Sequence[FileStat], rows: int) -> "Images":
        return Images(self.job, self._schema, self._count, adds=True)

    def listed(self, files: Sequence[FileStat], scratch: str) -> Sequence[FileStat]:
        entire = self.job.source.max_assets is None and len(files) == self._count
        if self._adds and not files:  # where the images of a run are gone
            return []
        return list_runs(self.job, self._schema, files, scratch, whole=entire, may_be_none=self._adds)

    def scan(self, file: FileStat, scratch: str) -> Iterable[ImageRun]:
        facts = read_facts(file.path)
        name = file.path.rpartition("/")[2].removesuffix(".arrow")
        yield ImageRun(name, file.path, facts.images, file=file, split=facts.split, size=facts.size)

    def size(self, unit: Unit[ImageAsset]) -> int:
        return unit.asset.piece.size

    @property
    def zero(self) -> ImageStatistics:
        return ImageStatistics.zero(self._schema)

    def validate(self, unit: Unit[ImageAsset]) -> ImageVerdict:
        return validate_run(unit, self._schema, self.job)

    def works(self, verdict: ImageVerdict) -> Iterator[tuple[Work[ImageAsset], int]]:
        (unit,) = self.units(verdict.asset)
        yield Work(unit, verdict.asset.piece.split), verdict.size

    def checked(self, statistics: ImageStatistics) -> ImageStatistics:
        check_auto(self._schema.labels, statistics.classes)
        return statistics

    def read(self, work: Work[ImageAsset], made: str | None, statistics: ImageStatistics) -> Iterator[RecordBlock]:
        return read_records(work.unit.asset, self.job, settled(self._schema.labels, statistics.classes))

    def read_with(self, work: Work[ImageAsset], transform: Transform) -> Iterator[RecordBlock]:
        return read_records(work.unit.asset, self.job, ())

    def overview(self, assets: Sequence[ImageAsset], statistics: ImageStatistics) -> Overview:
        return Overview(tuple(self._schema.columns), training_rows=statistics.images)

    def fields(self, statistics: ImageStatistics) -> list[Field]:
        return image_fields(self.job, settled(self._schema.labels, statistics.classes))

    def stats(self, statistics: ImageStatistics) -> dict[str, Any]:
        return statistics.to_json()

    def why_empty(self, asset: ImageAsset) -> str:
        return "has no image that can be used"


SOURCE = Images
