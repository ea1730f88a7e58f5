"""tensorflow-transform graphs whose numbers are known: our own pass counted them, in any order to the same bits.

tensorflow-transform traces the graph and writes it; its analyzers are handed results, and look at no row.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

Columns = dict[str, tf.Tensor]
Preprocess = Callable[[Columns], Columns]
_ARROW = {tf.float32: pa.float32(), tf.int64: pa.int64(), tf.string: pa.binary()}


class _Known(tft_beam.experimental.PTransformAnalyzer):
    """An analyzer whose result follows from the statistics; the rows that it is shown are not looked at."""

    def __init__(self, statistics: beam.PCollection, learn: Callable[[Any, str], Any], label: str):
        super().__init__()
        self._statistics, self._learn, self._label = statistics, learn, label

    def expand(self, _: beam.PCollection) -> tuple[beam.PCollection]:
        return (self._statistics | self._label >> beam.Map(self._learn, self.base_temp_dir),)


def known(
    like: tf.Tensor, statistics: beam.PCollection, learn: Callable[[Any, str], Any], label: str,
    shape: Sequence[int | None],
) -> tf.Tensor:  # fmt: skip
    """Numbers of the graph that follow from the statistics.

    Args:
      like: an input of the graph.
      statistics: PCollection of one.
      learn: of the statistics, and a folder for files -> an array, float32 of this shape.
      label: of the step.
      shape: of the numbers.
    """
    (numbers,) = tft.experimental.ptransform_analyzer(
        [like], _Known(statistics, learn, label), [tf.float32], [list(shape)]
    )
    return numbers


def known_file(
    like: tf.Tensor, statistics: beam.PCollection, learn: Callable[[Any, str], str], label: str, first_line: bytes
) -> tf.Tensor:
    """The path of a file of the graph, an asset of its SavedModel.

    Args:
      like: an input of the graph.
      statistics: PCollection of one.
      learn: of the statistics, and a folder -> the path of the file that it wrote there.
      label: of the step.
      first_line: of the file that tensorflow-transform puts in its place while it traces.
    """
    return file_of(like, _Known(statistics, learn, label), first_line)


def file_of(like: tf.Tensor, analyzer: beam.PTransform, first_line: bytes) -> tf.Tensor:
    """The path of a file that an analyzer of any kind writes."""
    (path,) = tft.experimental.ptransform_analyzer([like], analyzer, [tf.string], [[]], [first_line])
    return path


class BuildTransform(beam.PTransform):
    """PCollection of one object of statistics -> tensorflow-transform's (saved model folder, metadata).

    Args:
      inputs: what the graph takes, by name: the type, and the shape of a row.
      trace: of the statistics -> the function that is traced into the graph.
      rows: PCollection of RecordBatch for analyzers that do look at them; one of zeros is enough for those that do not.
    """

    def __init__(
        self, inputs: Mapping[str, tuple[tf.DType, Sequence[int]]], trace: Callable[[beam.PCollection], Preprocess],
        rows: beam.PCollection | None = None,
    ):  # fmt: skip
        super().__init__()
        self._inputs, self._trace, self._rows = inputs, trace, rows

    def expand(self, statistics: beam.PCollection) -> tuple:
        sample, config = _sample(self._inputs)
        rows = self._rows
        if rows is None:
            rows = statistics.pipeline | "OneRow" >> beam.Create([sample])
        return (rows, config) | tft_beam.AnalyzeDataset(self._trace(statistics))


def _sample(
    inputs: Mapping[str, tuple[tf.DType, Sequence[int]]],
) -> tuple[pa.RecordBatch, tensor_adapter.TensorAdapterConfig]:
    """A row of zeros, or empty strings, and the description of what the graph takes."""
    spec = {name: tf.io.FixedLenFeature(list(shape), type_) for name, (type_, shape) in inputs.items()}
    columns = {}
    for name, (type_, shape) in inputs.items():
        zeros = [b""] if type_ == tf.string else np.zeros(shape, type_.as_numpy_dtype).reshape(-1)
        columns[name] = pa.array([zeros], pa.list_(_ARROW[type_]))
    batch = pa.RecordBatch.from_pydict(columns)
    representations = tensor_representation_util.InferTensorRepresentationsFromSchema(
        schema_utils.schema_from_feature_spec(spec)
    )
    return batch, tensor_adapter.TensorAdapterConfig(batch.schema, representations)
