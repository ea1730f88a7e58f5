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

from beamfeed.contract.config.prepare import Missing
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.dataset.windows import count_windows, first_row
from beamfeed.trainer.export.arrays import ArrayServing, takes_arrays
from beamfeed.trainer.export.columns import ColumnServing, takes_columns
from beamfeed.trainer.export.stored import StoredServing
from beamfeed.trainer.export.transform import load_transform
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.tasks.base import Restore
from beamfeed.trainer.tasks.objective import Objective

ASSET, VALUES = "asset", "values"  # what the transform graph calls its inputs, and its output
UNCLIPPED = "unclipped"  # and, with scale.clip, the values before they were clipped

Outputs = dict[str, tf.Tensor]


class Serving(tf.Module):
    """The exported module. Its functions are the signatures; docs/serving.md describes them.

    Attributes:
      arguments: of the signature `preprocessed`, by the names of the model's inputs.
      per_asset: whether each asset has a scale of its own.

    Args:
      model: of the objective's signature.
      objective: what was learned, and so what the functions return.
      manifest: of the dataset.
      transform: the folder of the dataset's transform graph.
      missing: the job's rule for missing values.
      ranges: of features, by their place: the lowest and the highest value that are possible.
    """

    def __init__(
        self,
        model: keras.Model,
        objective: Objective,
        manifest: Manifest,
        transform: str,
        missing: Missing,
        ranges: Sequence[tuple[int, float, float]] = (),
    ):
        super().__init__()
        self.model = model
        self._objective = objective
        self._with_latent = with_latent(model)
        series = objective.signature.series is not None
        self.arguments = {name: "windows" if series else name for name in objective.signature.inputs}
        self._frame = manifest.windows
        self._features = len(manifest.features)
        # Saved with the module: whoever loads it can ask for the order of the columns, for windows and for classes.
        told = {
            "features": tf.constant(manifest.features, tf.string),
            "length": tf.constant(self._frame.length, tf.int64),
            "stride": tf.constant(self._frame.stride, tf.int64),
            **objective.constants(),
        }
        self.features = tf.function(
            lambda: {name: tf.identity(value) for name, value in told.items()}, input_signature=[]
        )
        self._constant = constant_of(missing)
        self._limits: np.ndarray | None = None
        if ranges:
            self._limits = np.repeat(np.array([[-np.inf], [np.inf]], np.float32), self._features, axis=1)
            for place, *limits in ranges:
                self._limits[:, place] = limits
        self.per_asset = False
        self.transform: Any = None
        if tf.saved_model.contains_saved_model(transform):  # a dataset of another tool may have none
            self.transform = load_transform(transform)
            (inputs,), _ = self.transform.transform_fn.structured_input_signature
            self.per_asset = ASSET in inputs

    def signatures(self) -> dict[str, Callable[..., Outputs]]:
        """The functions to save, by the names of their signatures."""
        inputs = self._objective.signature.inputs
        series = self._objective.signature.series is not None
        specs = [
            tf.TensorSpec([None, *one.shape], one.dtype, name=self.arguments[name]) for name, one in inputs.items()
        ]
        found = {
            "preprocessed": _function(self.run_preprocessed, *specs),
            "features": self.features.get_concrete_function(),
        }
        if self.transform is not None and series:
            (windows,) = specs
            rows = tf.TensorSpec([None, self._features], tf.float32, name="rows")
            assets = [tf.TensorSpec([None], tf.string, name=ASSET)] if self.per_asset else []
            asset = [tf.TensorSpec([], tf.string, name=ASSET)] if self.per_asset else []
            found["serving_default"] = _function(self.run_windows, windows, *assets)
            found["rows"] = _function(self.run_rows, rows, *asset)
        return found

    def run_preprocessed(self, *inputs: tf.Tensor) -> Outputs:
        """Preprocessed inputs, in the order of the fields -> what the task serves and, with an encoder, latent."""
        return self._run(inputs, None)

    def run_windows(self, windows: tf.Tensor, asset: tf.Tensor | None = None) -> Outputs:
        """Raw windows, float32 `[batch, length, features]`, and strings `[batch]` where each asset has its scale."""
        return self._run([self.prepare_windows(windows, asset)], lambda found: self._restore(found, asset))

    def prepare_windows(self, windows: tf.Tensor, asset: tf.Tensor | None) -> tf.Tensor:
        """Raw windows, float32 `[batch, length, features]`, as the dataset has them."""
        batch, length = tf.shape(windows)[0], self._frame.length
        names = None if asset is None else tf.repeat(asset, length)
        preprocessed = self._preprocess(tf.reshape(windows, [-1, self._features]), names)
        return tf.reshape(preprocessed, [batch, length, self._features])

    def raw_windows(self, windows: tf.Tensor, asset: tf.Tensor | None) -> tuple[tf.Tensor, float]:
        """Windows of the dataset in raw units, and by how much, at most, rounding changes them on the way and back."""
        at_zero = self._scale(tf.zeros([1 if asset is None else tf.size(asset), self._features]), asset, clip=False)
        return self._restore(windows, asset), 4 * float(np.finfo(np.float32).eps) * float(
            tf.reduce_max(tf.abs(at_zero))
        )

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
        return {**self._run([windows], lambda found: self._restore(found, names)), "start": start}

    def _run(self, inputs: Sequence[tf.Tensor], restore: Restore | None) -> Outputs:
        """`restore` is given where windows came in raw units."""
        fields = dict(zip(self._objective.signature.inputs, inputs, strict=True))
        x = self._objective.inputs(fields)
        latent, given = self._with_latent(x)
        encoded = {} if latent is None else {"latent": latent}
        return {**encoded, **self._objective.serve(x, self._objective.outputs(given), restore)}

    def _preprocess(self, rows: tf.Tensor, asset: tf.Tensor | None) -> tf.Tensor:
        """Rows `[rows, features]`, scaled; infinity and what is out of its range are missing, as in files."""
        there = tf.math.is_finite(rows)
        if self._limits is not None:
            there &= (rows >= self._limits[0]) & (rows <= self._limits[1])
        scaled = self._scale(tf.where(there, rows, tf.constant(np.nan, tf.float32)), asset)
        if self._constant is None:
            return scaled
        return tf.where(tf.math.is_nan(scaled), self._constant, scaled)

    def _restore(self, preprocessed: tf.Tensor, asset: tf.Tensor | None) -> tf.Tensor:
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


def _function(function: Callable[..., Outputs], *inputs: tf.TensorSpec) -> Callable[..., Outputs]:
    return tf.function(function, input_signature=inputs).get_concrete_function()


def constant_of(missing: Missing) -> float | None:
    """What the job puts for values that no other rule fills, in preprocessed units; None if it drops their rows."""
    constant = missing.fill == "constant" or (missing.fill != "drop" and missing.then == "constant")
    return missing.value if constant else None


def save_serving(
    model: keras.Model, objective: Objective, manifest: Manifest, transform: str, missing: Missing, folder: str,
    ranges: Sequence[tuple[int, float, float]] = (), unused: Set[str] = frozenset(), raw: RawValues | None = None,
) -> "Exported":  # fmt: skip
    """Writes a SavedModel, for which loading takes TensorFlow alone, and returns the module that it holds.

    Its signatures are those of `Serving`; of `ArrayServing` where the dataset is of arrays, of which fields may be
    decoded, too; of `StoredServing` where fields of another one are decoded, or single rows have no transform graph, as
    in datasets of others; of `ColumnServing` where it is of columns.
    """
    module: Exported
    if takes_arrays(manifest, transform):
        module = ArrayServing(model, objective, transform)
    elif objective.preparation is not None or _takes_what_is_stored(manifest, transform):
        module = StoredServing(model, objective)
    elif takes_columns(transform):
        module = ColumnServing(model, objective, transform, unused, raw)
    else:
        module = Serving(model, objective, manifest, transform, missing, ranges)
    tf.saved_model.save(module, folder, signatures=module.signatures())
    return module


Exported = Serving | ColumnServing | StoredServing


def _takes_what_is_stored(manifest: Manifest, transform: str) -> bool:
    return manifest.windows.length == 1 and not tf.saved_model.contains_saved_model(transform)
