"""A SavedModel that is loaded, and the transform graph in one. It loads TensorFlow."""

import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.transforms.sources.record_block import Ragged, Values


def load_saved(folder: str) -> Any:
    """Loads a SavedModel from a folder, local or gs://."""
    if not storage.is_remote(folder):
        return tf.saved_model.load(folder)
    with tempfile.TemporaryDirectory(prefix="beamfeed-model-") as local:
        storage.copy_tree(folder, local)
        return tf.saved_model.load(local)


class Graph:
    """A transform graph that is loaded: see `Transform`."""

    def __init__(self, model: Any):
        self._model = model  # its tables go with it
        (self._specs,), _ = model.transform_fn.structured_input_signature
        self.inputs = frozenset(self._specs)

    def __call__(self, columns: Mapping[str, np.ndarray | pa.Array] | pa.RecordBatch) -> dict[str, Values]:
        tensors = {}
        for name, spec in self._specs.items():
            column = columns[name]
            plain = numbers_of(column) if isinstance(column, pa.Array) else column
            tensors[name] = tf.constant(plain, spec.dtype)
        return {name: _values(output) for name, output in self._model.transform_fn(tensors).items()}


def numbers_of(column: pa.Array) -> np.ndarray:
    """A column as a model takes it: numbers as they are, strings as bytes, and "" for those that are null."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        filled = pc.fill_null(column.cast(pa.large_binary()), b"")
        return np.asarray(filled.to_numpy(zero_copy_only=False), object)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _values(output: Any) -> Values:
    if isinstance(output, tf.RaggedTensor):
        entries = _values(output.flat_values)
        assert not isinstance(entries, Ragged)
        return Ragged(entries, output.row_lengths().numpy())
    plain = output.numpy()
    return pa.array(plain.reshape(-1), pa.binary()) if plain.dtype.kind in "SO" else plain
