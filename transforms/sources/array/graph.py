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
import tensorflow as tf

from beamfeed.contract.config.sources.array import ROW
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.sources.array.statistics import ArrayStatistics, scaling_of
from beamfeed.transforms.statistics.graph import BuildTransform, Columns, Preprocess, known


def build_transform(schema: ArraySchema) -> BuildTransform:
    """A step that makes the graph of one ArrayStatistics."""
    inputs = {ROW: (tf.int64, ()), **{column.name: (tf.float32, column.array.shape) for column in schema.scaled}}
    return BuildTransform(inputs, lambda statistics: preprocessing_fn(schema, statistics))


def preprocessing_fn(schema: ArraySchema, statistics: beam.PCollection) -> Preprocess:
    """The function that tensorflow-transform traces into the graph."""

    def learned(place: int) -> Callable[[ArrayStatistics, str], np.ndarray]:
        return lambda counted, _: scaling_of(counted.moments[place], schema.scaled[place])

    def transform(inputs: Columns) -> Columns:
        outputs = {ROW: tf.identity(inputs[ROW])}
        for place, column in enumerate(schema.scaled):
            values = inputs[column.name]
            rows = known(values, statistics, learned(place), f"Learn {column.name}", [2, column.scales])
            offset, divisor = (rows[0], rows[1]) if column.scales > 1 else (rows[0, 0], rows[1, 0])
            finite = tf.where(tf.math.is_finite(values), values, math.nan)  # infinity counts as missing
            outputs[column.name] = (finite - offset) / divisor
        return outputs

    return transform


class Transformer:
    """Applies a saved transform graph to the scaled inputs."""

    def __init__(self, folder: str):
        self._model = tf.saved_model.load(folder)  # kept: the function holds no reference to it

    def __call__(self, rows: np.ndarray, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The scaled inputs of some rows, float32 `[n, *shape]` each, by name."""
        columns: dict[str, Any] = {ROW: tf.constant(rows, tf.int64)}
        columns |= {name: tf.constant(values) for name, values in inputs.items()}
        return {name: values.numpy() for name, values in self._model.transform_fn(columns).items() if name != ROW}


@lru_cache(maxsize=2)
def load_transformer(folder: str) -> Transformer:
    """Loads a graph once a process."""
    return Transformer(folder)
