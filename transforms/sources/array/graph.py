"""The tensorflow-transform graph of arrays: it scales those inputs that are to be scaled.

It takes `row`, int64 `[rows]`, which it gives back (an input that is not scaled needs no graph, and a graph needs an
input), and each scaled input as float32 `[rows, *shape]`.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from beamfeed.contract.config.sources.array import ROW
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.sources.array.statistics import ArrayStatistics, scaling_of

Columns = dict[str, tf.Tensor]


class _Scaling(tft_beam.experimental.PTransformAnalyzer):
    """An analyzer whose result follows from the statistics; the rows that it is shown are not looked at."""

    def __init__(self, statistics: beam.PCollection, learn: Callable[[ArrayStatistics], np.ndarray], name: str):
        super().__init__()
        self._statistics, self._learn, self._name = statistics, learn, name

    def expand(self, _: beam.PCollection) -> tuple[beam.PCollection]:
        return (self._statistics | f"Learn {self._name}" >> beam.Map(self._learn),)


class BuildTransform(beam.PTransform):
    """PCollection of one ArrayStatistics -> tensorflow-transform's (saved model folder, metadata)."""

    def __init__(self, schema: ArraySchema):
        super().__init__()
        self._schema = schema

    def expand(self, statistics: beam.PCollection) -> tuple:
        sample, config = _sample(self._schema)
        one_row = statistics.pipeline | "OneRow" >> beam.Create([sample])
        return (one_row, config) | tft_beam.AnalyzeDataset(preprocessing_fn(self._schema, statistics))


def _sample(schema: ArraySchema) -> tuple[pa.RecordBatch, tensor_adapter.TensorAdapterConfig]:
    """One row of zeros, in the shape that the graph takes, and its description."""
    spec = {ROW: tf.io.FixedLenFeature([], tf.int64)}
    columns = {ROW: pa.array([[0]], pa.list_(pa.int64()))}
    for column in schema.scaled:
        spec[column.name] = tf.io.FixedLenFeature(column.array.shape, tf.float32)
        zeros = np.zeros(column.array.shape, np.float32).reshape(-1)
        columns[column.name] = pa.array([zeros], pa.list_(pa.float32()))
    batch = pa.RecordBatch.from_pydict(columns)
    representations = tensor_representation_util.InferTensorRepresentationsFromSchema(
        schema_utils.schema_from_feature_spec(spec)
    )
    return batch, tensor_adapter.TensorAdapterConfig(batch.schema, representations)


def preprocessing_fn(schema: ArraySchema, statistics: beam.PCollection) -> Callable[[Columns], Columns]:
    """The function that tensorflow-transform traces into the graph."""

    def learned(place: int) -> Callable[[ArrayStatistics], np.ndarray]:
        return lambda found: scaling_of(found.moments[place], schema.scaled[place])

    def transform(inputs: Columns) -> Columns:
        outputs = {ROW: tf.identity(inputs[ROW])}
        for place, column in enumerate(schema.scaled):
            analyzer = _Scaling(statistics, learned(place), column.name)
            (rows,) = tft.experimental.ptransform_analyzer(
                [inputs[column.name]], analyzer, [tf.float32], [[2, column.scales]]
            )
            offset, divisor = (rows[0], rows[1]) if column.scales > 1 else (rows[0, 0], rows[1, 0])
            values = inputs[column.name]
            known = tf.where(tf.math.is_finite(values), values, math.nan)  # infinity counts as missing
            outputs[column.name] = (known - offset) / divisor
        return outputs

    return transform


class Transformer:
    """Applies a saved transform graph to the scaled inputs."""

    def __init__(self, folder: str):
        self._model = tf.saved_model.load(folder)  # kept: the function holds no reference to it

    def __call__(self, rows: np.ndarray, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The scaled inputs of some rows, float32 `[n, *shape]` each, by name."""
        given: dict[str, Any] = {ROW: tf.constant(rows, tf.int64)}
        given |= {name: tf.constant(values) for name, values in inputs.items()}
        return {name: one.numpy() for name, one in self._model.transform_fn(given).items() if name != ROW}


@lru_cache(maxsize=2)
def load_transformer(folder: str) -> Transformer:
    """Loads a graph once a process."""
    return Transformer(folder)
