"""The tensorflow-transform graph that scales features: builds it, and applies it.

The graph takes `values` float32 [rows, features] and gives `values` scaled:
(values - offset) / divisor; NaN stays NaN. With scale.per: asset it also takes
`asset` string [rows], or [1] where all rows are of one asset, and looks the
offsets and divisors of each up in a file of the SavedModel; an asset that is not
there gets the fleet's. With scale.clip it gives `values` from -clip to clip, and
`unclipped` as they were, by which who serves finds the way back.
"""

from collections.abc import Callable
from functools import lru_cache

import apache_beam as beam
import numpy as np
import pyarrow as pa
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform import tf_utils
from tensorflow_transform.tf_metadata import schema_utils
from tfx_bsl.tfxio import tensor_adapter, tensor_representation_util

from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.statistics.scale_file import FIRST_LINE, WriteScaleFile

ASSET, VALUES, UNCLIPPED = "asset", "values", "unclipped"


class _FleetRows(beam.PTransform):
    """An analyzer whose result is already known: the rows of the fleet's Scaling.

    The rows that tensorflow-transform streams past are not looked at. The
    statistics were taken while the files were checked, where the rows of an asset
    that turns out to be broken can still be left out.
    """

    def __init__(self, fleet: beam.PCollection):
        super().__init__()
        self._fleet = fleet

    def expand(self, _: beam.PCollection) -> tuple[beam.PCollection]:
        return (self._fleet | "FleetRows" >> beam.Map(lambda scaling: scaling.rows),)


class _AssetFile(tft_beam.experimental.PTransformAnalyzer):
    """Likewise, the path of the file with each asset's Scaling."""

    def __init__(self, fleet: beam.PCollection, assets: beam.PCollection, floor: float):
        super().__init__()
        self._fleet, self._assets, self._floor = fleet, assets, floor

    def expand(self, _: beam.PCollection) -> tuple[beam.PCollection]:
        return (self._assets | "ScaleFile" >> WriteScaleFile(self.base_temp_dir, self._fleet, self._floor),)


def preprocessing_fn(
    scale: Scale, features: int, fleet: beam.PCollection, assets: beam.PCollection | None
) -> Callable[[dict[str, tf.Tensor]], dict[str, tf.Tensor]]:
    """The function that tensorflow-transform traces into the graph, see `BuildTransform`."""

    def scale_values(inputs: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        values = inputs[VALUES]
        (rows,) = tft.experimental.ptransform_analyzer([values], _FleetRows(fleet), [tf.float32], [[2, features]])
        if assets is not None:
            analyzer = _AssetFile(fleet, assets, scale.floor)
            (file,) = tft.experimental.ptransform_analyzer([values], analyzer, [tf.string], [[]], [FIRST_LINE])
            rows = _rows_of_assets(inputs[ASSET], file, rows)
        scaled = (values - rows[..., 0, :]) / rows[..., 1, :]
        if scale.clip is None:
            return {VALUES: scaled}
        # Both hand NaN on; a `where` for each limit takes three times as long.
        clipped = tf.minimum(tf.maximum(scaled, -scale.clip), scale.clip)
        return {VALUES: clipped, UNCLIPPED: scaled}

    return scale_values


def _rows_of_assets(assets: tf.Tensor, file: tf.Tensor, fleet: tf.Tensor) -> tf.Tensor:
    """Float32 [assets, 2, features]; each name is looked up once, however many rows it has."""
    names, at = tf.unique(assets)
    features = int(fleet.shape[-1])
    found, _ = tf_utils.construct_and_lookup_table(_table_of, file, tf.io.encode_base64(names))
    row = tf.io.decode_raw(tf.io.decode_base64(found), tf.float32, fixed_length=4 * 2 * features)
    known = tf.strings.length(found)[:, None, None] > 0
    return tf.gather(tf.where(known, tf.reshape(row, [-1, 2, features]), fleet), at)


def _table_of(file: tf.Tensor) -> tf.lookup.StaticHashTable:
    lines = tf.lookup.TextFileInitializer(file, tf.string, 0, tf.string, 1, delimiter="\t")
    return tf.lookup.StaticHashTable(lines, default_value="")


class BuildTransform(beam.PTransform):
    """PCollection of one Scaling, the fleet's -> tensorflow-transform's (saved model folder, metadata).

    Args:
      scale: the section of the job.
      features: how many.
      assets: with scale.per: asset, PCollection of (asset's name, Scaling).
    """

    def __init__(self, scale: Scale, features: int, assets: beam.PCollection | None = None):
        super().__init__()
        if (scale.per == "asset") != (assets is not None):
            raise ValueError(f"per: {scale.per} {'needs' if assets is None else 'takes no'} scalings of assets")
        self._scale, self._features, self._assets = scale, features, assets

    def expand(self, fleet: beam.PCollection) -> tuple:
        sample, config = _sample(self._scale, self._features)
        one_row = fleet.pipeline | "OneRow" >> beam.Create([sample])
        traced = preprocessing_fn(self._scale, self._features, fleet, self._assets)
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
            inputs[ASSET] = tf.constant([asset])
        return self._model.transform_fn(inputs)[VALUES].numpy()


@lru_cache(maxsize=2)
def load_scaler(folder: str, per_asset: bool) -> Scaler:
    """Loads a graph once a process."""
    return Scaler(folder, per_asset)
