"""The tensorflow-transform graph that scales features: builds it, and applies it.

The graph takes `values` float32 [rows, features] and gives `values` scaled:
(values - offset) / divisor; NaN stays NaN. With scale.per: asset it also takes
`asset` string [rows], or [1] where all rows are of one asset, and looks the
offsets and divisors of each up in a file of the SavedModel; an asset that is not
there gets the fleet's. With scale.clip it gives `values` from -clip to clip, and
`unclipped` as they were, by which who serves finds the way back.
"""

from functools import lru_cache

import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform.beam as tft_beam
from tensorflow_transform import tf_utils

from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.statistics.graph import BuildTransform, Columns, Preprocess, file_of, known
from beamfeed.transforms.statistics.scale_file import FIRST_LINE, WriteScaleFile

ASSET, VALUES, UNCLIPPED = "asset", "values", "unclipped"


class _AssetFile(tft_beam.experimental.PTransformAnalyzer):
    """An analyzer that looks at no row: the path of the file with each asset's Scaling."""

    def __init__(self, fleet: beam.PCollection, assets: beam.PCollection, min_divisor: float):
        super().__init__()
        self._fleet, self._assets, self._min_divisor = fleet, assets, min_divisor

    def expand(self, _: beam.PCollection) -> tuple[beam.PCollection]:
        return (self._assets | "ScaleFile" >> WriteScaleFile(self.base_temp_dir, self._fleet, self._min_divisor),)


def preprocessing_fn(
    scale: Scale, features: int, fleet: beam.PCollection, assets: beam.PCollection | None
) -> Preprocess:
    """The function that tensorflow-transform traces into the graph, see `build_transform`."""

    def scale_values(inputs: Columns) -> Columns:
        values = inputs[VALUES]
        rows = known(values, fleet, lambda scaling, _: scaling.rows, "FleetRows", [2, features])
        if assets is not None:
            file = file_of(values, _AssetFile(fleet, assets, scale.min_divisor), FIRST_LINE)
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
    encoded, _ = tf_utils.construct_and_lookup_table(_table_of, file, tf.io.encode_base64(names))
    row = tf.io.decode_raw(tf.io.decode_base64(encoded), tf.float32, fixed_length=4 * 2 * features)
    is_known = tf.strings.length(encoded)[:, None, None] > 0
    return tf.gather(tf.where(is_known, tf.reshape(row, [-1, 2, features]), fleet), at)


def _table_of(file: tf.Tensor) -> tf.lookup.StaticHashTable:
    lines = tf.lookup.TextFileInitializer(file, tf.string, 0, tf.string, 1, delimiter="\t")
    return tf.lookup.StaticHashTable(lines, default_value="")


def build_transform(scale: Scale, features: int, assets: beam.PCollection | None = None) -> BuildTransform:
    """A step that makes the graph of one Scaling, the fleet's.

    Args:
      scale: the section of the job.
      features: how many.
      assets: with scale.per: asset, PCollection of (asset's name, Scaling).
    """
    if (scale.per == "asset") != (assets is not None):
        raise ValueError(f"per: {scale.per} {'needs' if assets is None else 'takes no'} scalings of assets")
    inputs: dict[str, tuple[tf.DType, tuple[int, ...]]] = {VALUES: (tf.float32, (features,))}
    if scale.per == "asset":
        inputs[ASSET] = (tf.string, ())
    return BuildTransform(inputs, lambda fleet: preprocessing_fn(scale, features, fleet, assets))


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
