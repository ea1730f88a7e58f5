"""The transform graph that scales features.

It takes `values` float32 [rows, features] and gives `values` scaled:
(values - offset) / divisor; NaN stays NaN. With scale.per: asset it also takes
`asset` string [rows], or [1] where all rows are of one asset, and looks the
offsets and divisors of each up in a file of the SavedModel; an asset that is not
there gets the fleet's. With scale.clip it gives `values` from -clip to clip, and
`unclipped` as they were, by which who serves finds the way back.

Workers scale by `scaling.scale_rows`, to the same bits.
"""

import tensorflow as tf
import tensorflow_transform as tft

from beamfeed.transforms.statistics import graph
from beamfeed.transforms.statistics.graph import Columns, Marks
from beamfeed.transforms.statistics.scaling import ASSET, FIRST_LINE, FLEET, SCALE_FILE, UNCLIPPED, VALUES


def trace_scale(per: str, clip: float | None, features: int, folder: str) -> None:
    """Writes the graph with marks for the rows of the fleet's `Scaling`, and the file of each asset's.

    Args:
      per: `prepare.scale.per` of the job, as a plain value: so the process that traces loads no classes of jobs.
      clip: `prepare.scale.clip`.
      features: how many.
      folder: where to.
    """
    inputs: dict[str, tuple[tf.DType, tuple[int, ...]]] = {VALUES: (tf.float32, (features,))}
    if per == "asset":
        inputs[ASSET] = (tf.string, ())

    def scale_values(columns: Columns, marks: Marks) -> Columns:
        values = columns[VALUES]
        rows = marks.numbers(FLEET, [2, features])
        if per == "asset":
            rows = _rows_of_assets(columns[ASSET], marks.file(SCALE_FILE, FIRST_LINE), rows)
        scaled = (values - rows[..., 0, :]) / rows[..., 1, :]
        if clip is None:
            return {VALUES: scaled}
        # Both hand NaN on; a `where` for each limit takes three times as long.
        clipped = tf.minimum(tf.maximum(scaled, -clip), clip)
        return {VALUES: clipped, UNCLIPPED: scaled}

    graph.trace(scale_values, inputs, folder)


def _rows_of_assets(assets: tf.Tensor, file: str, fleet: tf.Tensor) -> tf.Tensor:
    """Float32 [assets, 2, features]; each name is looked up once, however many rows it has."""
    names, at = tf.unique(assets)
    features = int(fleet.shape[-1])
    table = tft.make_and_track_object(lambda: _table_of(file), name="scale_by_asset")
    encoded = table.lookup(tf.io.encode_base64(names))
    row = tf.io.decode_raw(tf.io.decode_base64(encoded), tf.float32, fixed_length=4 * 2 * features)
    is_known = tf.strings.length(encoded)[:, None, None] > 0
    return tf.gather(tf.where(is_known, tf.reshape(row, [-1, 2, features]), fleet), at)


def _table_of(file: str) -> tf.lookup.StaticHashTable:
    lines = tf.lookup.TextFileInitializer(file, tf.string, 0, tf.string, 1, delimiter="\t")
    return tf.lookup.StaticHashTable(lines, default_value="")
