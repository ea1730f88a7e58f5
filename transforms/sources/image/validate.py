"""Reads every image of a run once: sets broken ones aside, and keeps of the others what a record holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pyarrow as pa

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.notes import Note
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.descriptors import Asset, Piece, Report, Unit, Verdict
from beamfeed.transforms.sources.image.look import Listed, look_at_all
from beamfeed.transforms.sources.image.picture import Picture
from beamfeed.transforms.sources.image.run_file import open_staged, read_facts, read_run
from beamfeed.transforms.sources.image.schema import ImageSchema, image_source
from beamfeed.transforms.sources.image.statistics import ImageStatistics, count_labels

BATCH_BYTES = 8 << 20  # of images that are kept at a time
REENCODED = "images re-encoded as PNG, as TensorFlow would not decode the file upright and in 8 bits"


@dataclass(frozen=True)
class ImageRun(Piece):
    """A run of images.

    Attributes:
      split: that all are in.
      size: bytes of the files.
    """

    split: str
    size: int


class ImageAsset(Asset[ImageRun]):
    """A run of images, as what is planned, read and written at a time."""

    @property
    def piece(self) -> ImageRun:
        """The run."""
        return self.pieces[0]


@dataclass(frozen=True)
class ImageReport(Report):
    """What was found in a run.

    Attributes:
      staged: the file of what is kept.
      images: how many.
      size: bytes of them.
      reencoded: how many are not the bytes of their files, though the job asks for these.
      wrong: the images that were set aside.
    """

    staged: str = field(kw_only=True)
    images: int = field(kw_only=True)
    size: int = field(kw_only=True)
    reencoded: int = field(kw_only=True)
    wrong: tuple[Reject, ...] = field(kw_only=True)


@dataclass(frozen=True)
class ImageVerdict(Verdict[ImageAsset]):
    """What becomes of a run.

    Attributes:
      staged: the file of what is kept.
      size: bytes of it.
    """

    staged: str = field(default="", kw_only=True)
    size: int = field(default=0, kw_only=True)

    @property
    def split_rows(self) -> Mapping[SplitName, int]:
        return {cast(SplitName, self.asset.piece.split): self.asset.rows - self.rejected_rows}


def staged_schema(table: pa.Schema) -> pa.Schema:
    """What is kept of images: name, image, and the labels as the run has them."""
    labels = [table.field(name) for name in table.names if name.startswith("label ")]
    return pa.schema([pa.field("name", pa.binary()), pa.field("image", pa.large_binary()), *labels])


def validate_run(unit: Unit[ImageAsset], schema: ImageSchema, job: Job) -> ImageReport:
    """Checks the images of a run, and keeps what records hold; never raises for bad data.

    Raises:
      JobFailed: if the machine fails, or an image changed since it was listed.
    """
    source, piece = image_source(job), unit.asset.piece
    table = read_run(piece.path).combine_chunks()
    columns = {name: table[name].to_pylist() for name in ("path", "name", "size", "mtime", "wrong")}
    wrong, pictures, size = list[Reject](), dict[int, Picture](), 0
    target = f"{piece.path}.checked"
    fields = staged_schema(table.schema)

    with open_staged(target, fields) as writer:
        waiting: list[tuple[int, bytes]] = []
        pending = 0  # bytes that wait
        files = [Listed(*values) for values in zip(*(columns[name] for name in Listed._fields), strict=True)]
        for row, picture in enumerate(look_at_all(source, files)):
            if isinstance(picture, BadInput):
                name = columns["name"][row]
                wrong.append(Reject(name, picture.file, picture.place, picture.reason, of_row=True))
                continue
            waiting.append((row, picture.data))
            pictures[row] = replace(picture, data=b"")
            pending += len(picture.data)
            if pending >= BATCH_BYTES:
                writer.write_batch(_batch(table, waiting, fields))
                waiting, pending, size = [], 0, size + pending
        if waiting:
            writer.write_batch(_batch(table, waiting, fields))
    size += pending
    labels = count_labels(table.take(pa.array(list(pictures), pa.int64())), schema)
    no_counts = ImageStatistics.zero(schema).labels
    of_split = (labels, no_counts) if piece.split == "train" else (no_counts, labels)
    statistics = ImageStatistics.of(list(pictures.values()), *of_split)
    reencoded = statistics.images - statistics.kept if source.store.format == "original" else 0
    return ImageReport(
        unit.index, statistics, staged=target, images=len(pictures), size=size, reencoded=reencoded, wrong=tuple(wrong)
    )


def _batch(table: pa.Table, images: Sequence[tuple[int, bytes]], fields: pa.Schema) -> pa.RecordBatch:
    rows = table.take(pa.array([row for row, _ in images], pa.int64())).combine_chunks()
    by_name = {
        "name": rows["name"].cast(pa.binary()),
        "image": pa.array([data for _, data in images], pa.large_binary()),
    }
    columns = [by_name[name] if name in by_name else rows[name] for name in fields.names]
    flat = [column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.RecordBatch.from_arrays(flat, schema=fields)


def judge_run(asset: ImageAsset, report: ImageReport) -> ImageVerdict:
    """Decides from the report on a run; one without an image that can be used takes no part, and its images count."""
    facts = read_facts(asset.piece.path)
    notes = [Note(text, asset.name, count) for text, count in sorted(facts.left_out.items())]
    values = frozenset(facts.values)
    if report.reencoded:
        notes.append(Note(REENCODED, asset.name, report.reencoded))
    return ImageVerdict(
        asset, report.statistics, left_out=not report.images, notes=tuple(notes), split_values=values,
        row_rejects=report.wrong, rejected_rows=len(report.wrong), staged=report.staged, size=report.size,
    )  # fmt: skip
