"""Reads every image of a run once: sets broken ones aside, and keeps of the others what a record holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.notes import counts_of
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.descriptors import Asset, Piece, Unit, Verdict
from beamfeed.transforms.sources.image.look import Listed, look_at_all
from beamfeed.transforms.sources.image.picture import Picture
from beamfeed.transforms.sources.image.run_file import read_facts, read_run
from beamfeed.transforms.sources.image.schema import ImageSchema, image_source
from beamfeed.transforms.sources.image.statistics import ImageStatistics, count_classes

BATCH_BYTES = 8 << 20  # of images that are kept at a time
REENCODED = "images re-encoded as PNG, as TensorFlow would not decode the file upright and in 8 bits"


@dataclass(frozen=True)
class ImageRun(Piece):
    """A run of images.

    Attributes:
      split: that all are in.
      size: bytes of the files.
    """

    split: SplitName
    size: int

    @property
    def staged(self) -> str:
        """The file of what is kept of it."""
        return f"{self.path}.checked"


ImageAsset: TypeAlias = Asset[ImageRun]  # a run, as what is planned, read and written at a time


@dataclass(frozen=True)
class ImageVerdict(Verdict[ImageAsset]):
    """What becomes of a run.

    Attributes:
      size: bytes of what is kept of it.
    """

    size: int = field(default=0, kw_only=True)

    @property
    def split_rows(self) -> Mapping[SplitName, int]:
        return {self.asset.piece.split: self.asset.rows - self.rejected_rows}


def validate_run(unit: Unit[ImageAsset], schema: ImageSchema, job: Job) -> ImageVerdict:
    """What becomes of a run, whose images are all checked, and what records hold is kept; never raises for bad data.

    One without an image that can be used takes no part, and its images count.

    Raises:
      JobFailed: if the machine fails, or an image changed since it was listed.
    """
    source, asset = image_source(job), unit.asset
    facts, table = read_facts(asset.piece.path), read_run(asset.piece.path).combine_chunks()
    names = table["name"].to_pylist()
    files = [Listed(**row) for row in table.select(Listed._fields).to_pylist()]
    wrong, pictures, size = list[Reject](), dict[int, Picture](), 0
    labels = [field for field in table.schema if field.name.startswith("label ")]
    fields = pa.schema([pa.field("name", pa.binary()), pa.field("image", pa.large_binary()), *labels])

    with storage.open_output(asset.piece.staged) as target, pa.ipc.new_stream(target, fields) as writer:
        waiting: list[tuple[int, bytes]] = []
        pending = 0  # bytes that wait
        for row, picture in enumerate(look_at_all(source, files)):
            if isinstance(picture, BadInput):
                wrong.append(Reject(names[row], picture.file, picture.place, picture.reason, of_row=True))
                continue
            waiting.append((row, picture.data))
            pictures[row] = replace(picture, data=b"")
            pending += len(picture.data)
            if pending >= BATCH_BYTES:
                writer.write_table(_kept(table, waiting, fields))
                waiting, pending, size = [], 0, size + pending
        if waiting:
            writer.write_table(_kept(table, waiting, fields))
    classes = count_classes(table.take(pa.array(list(pictures), pa.int64())), schema, facts.split)
    statistics = ImageStatistics.of(list(pictures.values()), classes)
    notes = counts_of(asset.name, facts.left_out)
    if source.store.format == "original":
        notes += counts_of(asset.name, {REENCODED: statistics.images - statistics.kept})
    return ImageVerdict(
        asset, statistics, left_out=not pictures, notes=notes, split_values=frozenset(facts.values),
        row_rejects=tuple(wrong), rejected_rows=len(wrong), size=size + pending,
    )  # fmt: skip


def _kept(table: pa.Table, images: Sequence[tuple[int, bytes]], fields: pa.Schema) -> pa.Table:
    """What is kept of some images of a run: name, image, and the labels as the run has them."""
    rows = table.take(pa.array([row for row, _ in images], pa.int64()))
    images_column = pa.array([data for _, data in images], pa.large_binary())
    columns = {name: images_column if name == "image" else rows[name] for name in fields.names}
    return pa.table(columns, schema=fields)
