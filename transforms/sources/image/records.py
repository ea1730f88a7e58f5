"""Images that were checked as records."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.sources.columns.labels import LabelColumn, label_field, label_values
from beamfeed.transforms.sources.image.run_file import label_column, read_staged, starts_by_size
from beamfeed.transforms.sources.image.schema import image_source
from beamfeed.transforms.sources.image.validate import ImageAsset
from beamfeed.transforms.sources.record_block import RECORD_BYTES, RecordBlock, Values, cut_in_records


def image_fields(job: Job, labels: Sequence[LabelColumn]) -> list[Field]:
    """What a record holds; classes of labels are given as far as they are known."""
    store = image_source(job).store
    if store.format == "raw":
        assert isinstance(store.size, tuple)
        shape = (*store.size, store.channels or 3)
        image = Field(name="image", dtype="uint8", shape=shape, role="input")
    else:
        image = Field(name="image", dtype="bytes", role="input", content="image")
    fields = [image, Field(name="path", dtype="bytes", role="key")]
    return fields + [label_field(section, label.classes) for section, label in zip(job.label, labels, strict=True)]


def cut_records(sizes: np.ndarray, rows: int | None) -> tuple[np.ndarray, np.ndarray]:
    """The first image of each record, and how many it has, int64.

    Args:
      sizes: int64 [n], bytes of each image.
      rows: of a record; None: as many as make about 64 KB.
    """
    if rows is not None:
        return cut_in_records(len(sizes), rows)
    first = starts_by_size(sizes, RECORD_BYTES)
    return first, np.diff(first, append=len(sizes))


def read_records(run: ImageAsset, job: Job, labels: Sequence[LabelColumn]) -> Iterator[RecordBlock]:
    """The records of a run of images that were checked; the classes of labels are known."""
    image, *_ = image_fields(job, labels)
    for batch in read_staged(run.piece.staged):
        sizes = pc.binary_length(batch.column("image")).to_numpy()
        first, rows = cut_records(sizes, job.output.rows_per_record)
        values: dict[str, Values] = {"path": batch.column("name")}
        values["image"] = _raw(batch.column("image"), image) if image.is_raw else batch.column("image")
        columns = [batch.column(label_column(number)) for number in range(len(labels))]
        values |= label_values(columns, job.label, labels, batch.num_rows)
        yield RecordBlock(run.name, first, rows, values)


def _raw(column: pa.LargeBinaryArray, field: Field) -> np.ndarray:
    """uint8 [n, height, width, channels] of as many bytes, without a copy."""
    _, offsets, data = column.buffers()
    start = int(np.frombuffer(offsets, np.int64)[column.offset])
    count = len(column) * field.width
    return np.frombuffer(data, np.uint8)[start : start + count].reshape(len(column), *field.shape)
