"""What a dataset's transform graph tells of how values were scaled. Loads TensorFlow; workers do not."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from beamfeed.contract import storage
from beamfeed.contract.dataset.transform_graph import check_graph
from beamfeed.transforms.sources.loaded import load_saved
from beamfeed.transforms.statistics.marks import SAVED_MODEL


class Graph:
    """A transform graph, which somebody else may have written.

    Args:
      folder: of its SavedModel, local or gs://.

    Raises:
      UserError: if it would do more than compute.
    """

    def __init__(self, folder: str):
        self._folder = folder
        self._model = saved_model_pb2.SavedModel.FromString(storage.read_bytes(folder + SAVED_MODEL))
        check_graph(folder + SAVED_MODEL, self._model, op_def_registry.get)

    @cached_property
    def constants(self) -> list[np.ndarray]:
        """Its constants of one and of two axes, of numbers and truth values."""
        arrays = []
        for part in self._model.meta_graphs:
            nodes = [
                *part.graph_def.node,
                *(node for function in part.graph_def.library.function for node in function.node_def),
            ]
            for node in nodes:
                tensor = node.attr["value"].tensor
                is_row = len(tensor.tensor_shape.dim) in (1, 2) and tensor.dtype in (tf.float32, tf.bool)
                if node.op == "Const" and is_row:
                    arrays.append(tf.make_ndarray(tensor))
        return arrays

    @cached_property
    def _loaded(self) -> Any:
        return load_saved(self._folder)

    def probe(self, name: str, shape: Sequence[int | None]) -> tuple[np.ndarray, np.ndarray]:
        """What it makes of zeros and of ones of a field that it takes and gives by its name, float32 `[width]` each.

        As they are, where it does not take it.
        """
        steps = tf.stack([tf.zeros(shape), tf.ones(shape)])
        loaded = self._loaded
        (specs,), _ = loaded.transform_fn.structured_input_signature
        if name in specs:
            zeros = {other: tf.zeros([2, *spec.shape[1:]], spec.dtype) for other, spec in specs.items()}
            steps = loaded.transform_fn({**zeros, name: steps})[name]
        zero, one = steps.numpy().reshape(2, -1)
        return zero, one
