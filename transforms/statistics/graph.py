"""Traces transform graphs, by tensorflow-transform; see `marks` for what is not known then."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
from tensorflow_transform import impl_helper

from beamfeed.contract import storage
from beamfeed.transforms.statistics.marks import SAVED_MODEL, mark

Columns = dict[str, tf.Tensor]


class Marks:
    """What a graph gets in the place of what will be learned.

    Args:
      folder: for files, one that is there wherever the graph is traced.
    """

    def __init__(self, folder: str):
        self._folder = folder
        self.shapes: dict[str, Sequence[int]] = {}

    def numbers(self, name: str, shape: Sequence[int]) -> tf.Tensor:
        """Float32 of this shape."""
        self.shapes[name] = shape
        with tf.init_scope():  # in the graph itself, TensorFlow would make a multiplication of a division by it
            return tf.constant(mark(name, shape))

    def file(self, name: str, first_line: bytes) -> str:
        """The path of a file, an asset of the graph; it has this one line while the graph is traced."""
        path = storage.join(self._folder, name)
        if not storage.exists(path):
            storage.write_bytes(path, first_line)
        return path


Preprocess = Callable[[Columns, Marks], Columns]


def trace(preprocess: Preprocess, inputs: Mapping[str, tuple[tf.DType, Sequence[int]]], folder: str) -> None:
    """Writes a graph with marks as `tft.TFTransformOutput` reads it.

    Args:
      preprocess: of tensors `[batch, ...]` by name.
      inputs: what it takes: the type, and the shape of a row.
      folder: where to, local or gs://
    """
    specs = {name: tf.TensorSpec([None, *shape], type_) for name, (type_, shape) in inputs.items()}
    with tempfile.TemporaryDirectory() as scratch:
        marks, traced = Marks(os.path.join(scratch, "files")), os.path.join(scratch, "graph")
        impl_helper.analyze_in_place(lambda columns: preprocess(columns, marks), False, None, specs, traced)
        graph = storage.read_bytes(os.path.join(traced, "transform_fn") + SAVED_MODEL)
        for name, shape in marks.shapes.items():
            if mark(name, shape).tobytes() not in graph:  # as they are
                raise ValueError(f"{name}: its mark is not in the graph")
        storage.copy_tree(traced, folder)
