"""The SavedModel of a training run.

It takes values as the user's files have them. It holds a copy of the
dataset's transform graph, the very one that scaled the training windows, so
what is served cannot be scaled otherwise than what was trained on.
"""

from collections.abc import Callable, Sequence, Set
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from beamfeed.contract.config.prepare import Missing, Windows
from beamfeed.contract.config.sources.array import ROW
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.dataset.windows import count_windows, first_row
from beamfeed.trainer.export.columns import ColumnServing
from beamfeed.trainer.export.serving import Outputs, Serving, inputs_of, load_transform, serve, signature
from beamfeed.trainer.export.stored import StoredServing
from beamfeed.trainer.models.recurrence import portable
from beamfeed.trainer.tasks.objective import Objective

ASSET, VALUES = "asset", "values"  # what the transform graph calls its inputs, and its output
TIME = "time"
UNCLIPPED = "unclipped"  # and, with scale.clip, the values before they were clipped


class WindowServing(Serving):
    """The exported module of windows of rows.

    Attributes:
      per_asset: whether each asset has a scale of its own.
      ahead: rows that are forecast, by the prefix of the output; empty where none are.

    Without a transform graph there is no signature for raw values. `ranges` are of features, by their place: the lowest
    and the highest value that are possible.
    """

    def __init__(
        self,
        model: keras.Model,
        objective: Objective,
        manifest: Manifest,
        transform: Any,
        missing: Missing,
        ranges: Sequence[tuple[int, float, float]],
    ):
        is_series, frame = objective.signature.series is not None, manifest.windows
        if objective.signature.series is not None:  # without the rows that are forecast
            frame = Windows(length=objective.signature.series[0], stride=frame.stride)
        arguments = {name: "windows" if is_series else name for name in objective.signature.inputs}
        # Saved with the module: whoever loads it can ask for the order of the columns, for windows and for classes.
        constants = {
            "features": tf.constant(manifest.features, tf.string),
            "length": tf.constant(frame.length, tf.int64),
            "stride": tf.constant(frame.stride, tf.int64),
        }
        super().__init__(model, objective, arguments, transform, constants)
        self._is_series, self._frame, self._features = is_series, frame, len(manifest.features)
        # What the job puts for values that no other rule fills, in preprocessed units; None if it drops their rows.
        is_constant = missing.fill == "constant" or (missing.fill != "drop" and missing.then == "constant")
        self._constant = missing.value if is_constant else None
        self._limits: np.ndarray | None = None
        if ranges:
            self._limits = np.repeat(np.array([[-np.inf], [np.inf]], np.float32), self._features, axis=1)
            for place, *limits in ranges:
                self._limits[:, place] = limits
        self.per_asset = transform is not None and ASSET in inputs_of(transform)
        self.ahead = {
            objective.prefix(name): output.shapes[0][0] or 0
            for name, output in objective.signature.outputs.items()
            if output.continues
        }

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        functions = {**super().signatures(), "features": self.constants.get_concrete_function()}
        if self.transform is not None and self._is_series:
            (windows,) = self.stored().values()
            rows = tf.TensorSpec([None, self._features], tf.float32, "rows")
            asset = {ASSET: tf.TensorSpec([], tf.string, ASSET)} if self.per_asset else {}
            assets = {ASSET: tf.TensorSpec([None], tf.string, ASSET)} if self.per_asset else {}
            functions["serving_default"] = signature(
                lambda inputs: self.run_windows(**inputs), {windows.name: windows, **assets}
            )
            functions["rows"] = signature(lambda inputs: self.run_rows(**inputs), {"rows": rows, **asset})
            if self.ahead and self._frame.length > 1:
                times = tf.TensorSpec([None, self._frame.length], tf.int64, TIME)
                functions["forecast"] = signature(
                    lambda inputs: self.run_forecast(**inputs), {windows.name: windows, TIME: times}
                )
        return functions

    def run_windows(self, windows: tf.Tensor, asset: tf.Tensor | None = None) -> Outputs:
        """Raw windows, float32 `[batch, length, features]`, and strings `[batch]` where each asset has its scale."""
        x = self.prepare_windows(windows, asset)
        return serve(self._objective, self._predict, x, lambda output: self.restore(output, asset))

    def run_forecast(self, windows: tf.Tensor, time: tf.Tensor) -> Outputs:
        """Raw windows and the times of their rows, int64 `[batch, length]`: forecasts and times of `[batch, ahead]`.

        Times go on in the middle one of the steps of each window, in whatever unit they come.
        """
        steps = tf.sort(time[:, 1:] - time[:, :-1], axis=1)
        step = steps[:, (self._frame.length - 1) // 2, None]
        times = {
            f"{prefix}{TIME}": time[:, -1:] + step * tf.range(1, rows + 1, dtype=tf.int64)
            for prefix, rows in self.ahead.items()
        }
        return {**self.run_windows(windows), **times}

    def prepare_windows(self, windows: tf.Tensor, asset: tf.Tensor | None) -> tf.Tensor:
        """Raw windows, float32 `[batch, length, features]`, as the dataset has them."""
        batch, length = tf.shape(windows)[0], self._frame.length
        names = None if asset is None else tf.repeat(asset, length)
        preprocessed = self._preprocess(tf.reshape(windows, [-1, self._features]), names)
        return tf.reshape(preprocessed, [batch, length, self._features])

    def rounding(self, asset: tf.Tensor | None) -> float:
        """By how much, at most, float32 changes a preprocessed value that is restored and preprocessed again."""
        at_zero = self._scale(tf.zeros([1 if asset is None else tf.size(asset), self._features]), asset, clip=False)
        return 4 * float(np.finfo(np.float32).eps) * float(tf.reduce_max(tf.abs(at_zero)))

    def run_rows(self, rows: tf.Tensor, asset: tf.Tensor | None = None) -> Outputs:
        """One series of raw rows, float32 `[rows, features]`, framed into windows as the dataset's were.

        `asset` is one string. `start`, int64 `[windows]`, says at which row each window begins.
        """
        length, stride = self._frame.length, self._frame.stride
        names = None if asset is None else asset[None]  # one for all rows
        preprocessed = self._preprocess(rows, names)
        count = count_windows(tf.shape(rows, tf.int64)[0], length, stride)
        start = first_row(tf.range(count), stride)
        windows = tf.gather(preprocessed, start[:, None] + tf.range(length, dtype=tf.int64))
        outputs = serve(self._objective, self._predict, windows, lambda output: self.restore(output, names))
        return {**outputs, "start": start}

    def _preprocess(self, rows: tf.Tensor, asset: tf.Tensor | None) -> tf.Tensor:
        """Rows `[rows, features]`, scaled; infinity and what is out of its range are missing, as in files."""
        is_known = tf.math.is_finite(rows)
        if self._limits is not None:
            is_known &= (rows >= self._limits[0]) & (rows <= self._limits[1])
        scaled = self._scale(tf.where(is_known, rows, tf.constant(np.nan, tf.float32)), asset)
        if self._constant is None:
            return scaled
        return tf.where(tf.math.is_nan(scaled), self._constant, scaled)

    def restore(self, preprocessed: tf.Tensor, asset: tf.Tensor | None) -> tf.Tensor:
        """Windows `[batch, length, features]` in raw units.

        Before it clips, the graph is a straight line for each feature: it is turned round
        by its value at 0 and its slope, asked once for each asset that is named.
        """
        zeros = tf.zeros([1 if asset is None else tf.size(asset), self._features])
        with tf.GradientTape() as tape:
            tape.watch(zeros)
            at_zero = self._scale(zeros, asset, clip=False)
        slope = tape.gradient(at_zero, zeros)
        return (preprocessed - at_zero[:, None]) / slope[:, None]

    def _scale(self, rows: tf.Tensor, asset: tf.Tensor | None, *, clip: bool = True) -> tf.Tensor:
        inputs = {VALUES: rows} if asset is None else {VALUES: rows, ASSET: asset}
        scaled = self.transform.transform_fn(inputs)
        return scaled[VALUES] if clip else scaled.get(UNCLIPPED, scaled[VALUES])


def save_serving(
    model: keras.Model, objective: Objective, manifest: Manifest, transform: str, missing: Missing, folder: str,
    ranges: Sequence[tuple[int, float, float]] = (), unused: Set[str] = frozenset(), raw: RawValues | None = None,
) -> Serving:  # fmt: skip
    """Writes a SavedModel, for which loading takes TensorFlow alone, and returns the module that it holds.

    Its signatures are those of `StoredServing` where the dataset is of arrays, where fields are decoded, or single rows
    have no transform graph, as in datasets of others; of `ColumnServing` where it is of columns, one value of each a
    row; of `WindowServing` else.

    `transform` is the folder of the dataset's transform graph; of `ranges` see `WindowServing`, of `unused` and `raw`
    `ColumnServing`.

    Raises:
      UserError: if the transform graph would do more than compute.
    """
    graph = load_transform(transform)
    rows = [field.name for field in manifest.fields if (field.role, field.dtype, field.per) == ("key", "int64", "row")]
    module: Serving
    if graph is not None and ROW in rows:  # of arrays, whose rows are known by their number alone
        module = StoredServing(model, objective, graph)
    elif objective.preparation is not None or (graph is None and manifest.windows.length == 1):
        module = StoredServing(model, objective)
    elif graph is not None and all(spec.shape.rank == 1 for spec in inputs_of(graph).values()):
        module = ColumnServing(model, objective, graph, unused, raw)
    else:
        module = WindowServing(model, objective, manifest, graph, missing, ranges)
    with portable(model):
        tf.saved_model.save(module, folder, signatures=module.signatures())
    return module
