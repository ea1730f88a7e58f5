"""What a dataset's transform graph tells of how values were scaled. Loads TensorFlow; workers do not."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from beamfeed.contract import storage
from beamfeed.transforms.statistics.marks import SAVED_MODEL


class Graph:
    """A transform graph.

    Args:
      folder: that `tf.saved_model.load` reads.
    """

    def __init__(self, folder: str):
        self._folder = folder

    @cached_property
    def constants(self) -> list[np.ndarray]:
        """Its constants of one and of two axes, of numbers and truth values."""
        model = saved_model_pb2.SavedModel.FromString(storage.read_bytes(self._folder + SAVED_MODEL))
        found = []
        for part in model.meta_graphs:
            nodes = [*part.graph_def.node, *(node for one in part.graph_def.library.function for node in one.node_def)]
            for node in nodes:
                tensor = node.attr["value"].tensor
                is_row = len(tensor.tensor_shape.dim) in (1, 2) and tensor.dtype in (tf.float32, tf.bool)
                if node.op == "Const" and is_row:
                    found.append(tf.make_ndarray(tensor))
        return found

    def probe(self, name: str, shape: Sequence[int | None]) -> tuple[np.ndarray, np.ndarray]:
        """What it makes of zeros and of ones of a field that it takes and gives by its name, float32 `[width]` each.

        As they are, where it does not take it.
        """
        steps = tf.stack([tf.zeros(shape), tf.ones(shape)])
        loaded = tf.saved_model.load(self._folder)
        (specs,), _ = loaded.transform_fn.structured_input_signature
        if name in specs:
            zeros = {other: tf.zeros([2, *spec.shape[1:]], spec.dtype) for other, spec in specs.items()}
            steps = loaded.transform_fn({**zeros, name: steps})[name]
        zero, one = steps.numpy().reshape(2, -1)
        return zero, one
