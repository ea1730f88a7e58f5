"""Applies the transform graph to rows."""

from functools import lru_cache

import pyarrow as pa
import tensorflow as tf

from beamfeed.transforms.sources.record_block import Ragged, Values


class Transformer:
    """Applies a saved transform graph to columns."""

    def __init__(self, folder: str):
        self._model = tf.saved_model.load(folder)  # kept: the function holds no reference to it
        (specs,), _ = self._model.transform_fn.structured_input_signature
        self._inputs = sorted(specs)

    def __call__(self, rows: pa.RecordBatch) -> dict[str, Values]:
        """The fields of some rows, by name."""
        outputs = self._model.transform_fn({name: _tensor(rows.column(name)) for name in self._inputs})
        return {name: _values(tensor) for name, tensor in outputs.items()}


@lru_cache(maxsize=2)
def load_transformer(folder: str) -> Transformer:
    """Loads a graph once a process."""
    return Transformer(folder)


def _tensor(column: pa.Array) -> tf.Tensor:
    if pa.types.is_string(column.type):
        return tf.constant(column.fill_null("").to_numpy(zero_copy_only=False), tf.string)
    return tf.constant(column.to_numpy(zero_copy_only=False))


def _values(tensor: tf.Tensor | tf.RaggedTensor) -> Values:
    if isinstance(tensor, tf.RaggedTensor):
        return Ragged(tensor.flat_values.numpy(), tensor.row_lengths().numpy())
    if tensor.dtype == tf.string:
        return pa.array(tensor.numpy().ravel().tolist(), pa.binary())
    return tensor.numpy()
