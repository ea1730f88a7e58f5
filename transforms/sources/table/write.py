"""The rows of a split as records: the transform graph is applied to them, a batch at a time."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa
import tensorflow as tf

from beamfeed.contract.config.label import Label
from beamfeed.contract.dataset.fields import Field
from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values
from beamfeed.transforms.sources.table.staged import Run
from beamfeed.transforms.sources.table.targets import label_values, parts_of


class Transformer:
    """Applies a saved transform graph to columns."""

    def __init__(self, folder: str):
        self._model = tf.saved_model.load(folder)  # kept: the function holds no reference to it
        (specs,), _ = self._model.transform_fn.structured_input_signature
        self._inputs = sorted(specs)

    def __call__(self, rows: pa.RecordBatch) -> dict[str, Values]:
        """The fields of some rows, by name."""
        found = self._model.transform_fn({name: _tensor(rows.column(name)) for name in self._inputs})
        return {name: _values(one) for name, one in found.items()}


@lru_cache(maxsize=2)
def load_transformer(folder: str) -> Transformer:
    """Loads a graph once a process."""
    return Transformer(folder)


def _tensor(column: pa.Array) -> tf.Tensor:
    if pa.types.is_string(column.type):
        return tf.constant(column.fill_null("").to_numpy(zero_copy_only=False), tf.string)
    return tf.constant(column.to_numpy(zero_copy_only=False))


def _values(found: tf.Tensor | tf.RaggedTensor) -> Values:
    if isinstance(found, tf.RaggedTensor):
        return Ragged(found.flat_values.numpy(), found.row_lengths().numpy())
    if found.dtype == tf.string:
        return pa.array(found.numpy().ravel().tolist(), pa.binary())
    return found.numpy()


def write_runs(
    name: str, path: str, runs: Sequence[Run], transformer: Transformer, labels: Sequence[Label],
    specs: Sequence[LabelColumn], fields: Sequence[Field], rows_per_record: int,
) -> Iterator[RecordBlock]:  # fmt: skip
    """The records of some staged rows of a file.

    Args:
      name: of the file, as an asset.
      path: of the staged rows.
      runs: which of them.
      transformer: the graph.
      labels: of the job, and
      specs: their columns, with classes known.
      fields: of a record.
      rows_per_record: at most.
    """
    for rows, first, counts in parts_of(path, runs, fields, rows_per_record):
        values = transformer(rows) | label_values(rows, labels, specs)
        yield RecordBlock(name, first, counts, values)
