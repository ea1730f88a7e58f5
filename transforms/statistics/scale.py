"""Turns statistics into a tensorflow-transform graph that scales features, and applies it.

The graph takes `values` float32 [rows, features] and gives `values` scaled:
(values - offset) / divisor; NaN stays NaN. With scale.per: asset it also takes
`asset` string [rows] and holds a row of offsets and divisors for each asset; an
asset that it does not know gets the fleet's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.statistics.moments import Moments

ASSET, VALUES = "asset", "values"
_HASH_BUCKETS = 2**62  # so many that names do not collide


def offset_and_divisor(moments: Moments, how: str) -> tuple[np.ndarray, np.ndarray]:
    """float32 [features] each. A constant feature is moved to zero and divided by one.

    standard: (x - mean) / standard deviation of the population.
    minmax: (x - min) / (max - min).
    """
    features = len(moments.count)
    if how == "none":
        return np.zeros(features, np.float32), np.ones(features, np.float32)
    low = np.where(np.isfinite(moments.low), moments.low, 0)
    high = np.where(np.isfinite(moments.high), moments.high, 0)
    if how == "standard":
        # The mean of equal values may be off in its last bit; their minimum is not.
        offset, divisor = np.where(high > low, moments.mean(), low), moments.std()
    else:
        offset, divisor = low, high - low
    divisor = divisor.astype(np.float32)
    return offset.astype(np.float32), np.where(divisor > 0, divisor, np.float32(1))


@dataclass(frozen=True)
class Table:
    """What the graph holds.

    Attributes:
      keys: int64 [assets], hashes of the assets' names, increasing; none with per: fleet.
      offset, divisor: float32 [assets + 1, features]; the last row is the fleet's.
    """

    keys: np.ndarray
    offset: np.ndarray
    divisor: np.ndarray

    @classmethod
    def of(cls, fleet: Moments, assets: dict[str, Moments], how: str) -> "Table":
        """The table of what was learned of the fleet and of each asset."""
        names = sorted(assets)
        keys = hash_names(names)
        order = np.argsort(keys)
        both = [offset_and_divisor(m, how) for m in [*(assets[names[i]] for i in order), fleet]]
        return cls(keys[order], np.stack([b[0] for b in both]), np.stack([b[1] for b in both]))


def hash_names(names: list[str]) -> np.ndarray:
    """int64 [names] as the graph hashes them."""
    if not names:
        return np.empty(0, np.int64)
    return tf.strings.to_hash_bucket_fast(tf.constant(names), _HASH_BUCKETS).numpy()


class _Learned(beam.PTransform):
    """An analyzer whose result is already known: the columns of a Table.

    The rows that tensorflow-transform streams past are not looked at. The
    statistics were taken while the files were checked, where the rows of an asset
    that turns out to be broken can still be left out.
    """

    def __init__(self, table: beam.PCollection):
        super().__init__()
        self._table = table

    def expand(self, _: beam.PCollection) -> tuple[beam.PCollection, ...]:
        return tuple(
            self._table | name >> beam.Map(lambda table, name=name: getattr(table, name))
            for name in ("keys", "offset", "divisor")
        )


def preprocessing_fn(scale: Scale, features: int, table: beam.PCollection) -> Callable:
    """The function that tensorflow-transform traces into the graph."""

    def scale_values(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        values = inputs[VALUES]
        keys, offset, divisor = tft.experimental.ptransform_analyzer(
            [values],
            _Learned(table),
            [tf.int64, tf.float32, tf.float32],
            [[None], [None, features], [None, features]],
        )
        if scale.per == "fleet":
            return {VALUES: (values - offset[-1]) / divisor[-1]}
        wanted = tf.strings.to_hash_bucket_fast(inputs[ASSET], _HASH_BUCKETS)
        count = tf.shape(keys)[0]
        row = tf.searchsorted(keys, wanted)
        found = tf.gather(tf.concat([keys, [-1]], 0), row) == wanted
        row = tf.where(found, row, count)
        return {VALUES: (values - tf.gather(offset, row)) / tf.gather(divisor, row)}

    return scale_values


class BuildTransform(beam.PTransform):
    """PCollection of one Table -> tensorflow-transform's (saved model folder, metadata)."""

    def __init__(self, scale: Scale, features: int):
        super().__init__()
        self._scale, self._features = scale, features

    def expand(self, table: beam.PCollection) -> tuple:
        sample, config = _sample(self._scale, self._features)
        one_row = table.pipeline | "OneRow" >> beam.Create([sample])
        traced = preprocessing_fn(self._scale, self._features, table)
        return (one_row, config) | tft_beam.AnalyzeDataset(traced)


def _sample(scale: Scale, features: int) -> tuple[pa.RecordBatch, tensor_adapter.TensorAdapterConfig]:
    """One row of zeros in the shape that the graph takes, and its description."""
    spec = {VALUES: tf.io.FixedLenFeature([features], tf.float32)}
    columns = {VALUES: pa.array([np.zeros(features, np.float32)], pa.list_(pa.float32()))}
    if scale.per == "asset":
        spec[ASSET] = tf.io.FixedLenFeature([], tf.string)
        columns[ASSET] = pa.array([[b""]], pa.list_(pa.binary()))
    schema = schema_utils.schema_from_feature_spec(spec)
    batch = pa.RecordBatch.from_pydict(columns)
    representations = tensor_representation_util.InferTensorRepresentationsFromSchema(schema)
    return batch, tensor_adapter.TensorAdapterConfig(batch.schema, representations)


class Scaler:
    """Applies a saved transform graph to the rows of one asset."""

    def __init__(self, folder: str, per_asset: bool):
        self._model = tf.saved_model.load(folder)  # kept: the function holds no reference to it
        self._per_asset = per_asset

    def __call__(self, values: np.ndarray, asset: str) -> np.ndarray:
        """float32 [rows, features] scaled; NaN stays NaN."""
        inputs = {VALUES: tf.constant(values)}
        if self._per_asset:
            inputs[ASSET] = tf.fill([len(values)], asset)
        return self._model.transform_fn(inputs)[VALUES].numpy()


@lru_cache(maxsize=2)
def load_scaler(folder: str, per_asset: bool) -> Scaler:
    """Loads a graph once a process."""
    return Scaler(folder, per_asset)
