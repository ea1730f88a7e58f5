"""A sample of a dataset's rows, as the signatures of a SavedModel get them, and what they must return."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.trainer.export.fresh import Call
from beamfeed.trainer.export.saved_model import TIME, WindowServing
from beamfeed.trainer.export.serving import Outputs, Serving, serve
from beamfeed.trainer.export.stored import StoredServing
from beamfeed.trainer.models.latent import with_latent
from beamfeed.trainer.review.reading import Fields, Keys, read_windows, without_padding
from beamfeed.trainer.tasks.objective import Objective

PREPARED_OFF = 1e-3  # of prepared values, beside what float32 rounds in raw ones
ROWS = 16  # or windows, of the first split that has some

Predict = Callable[[Any], Outputs]  # a model's input -> what a SavedModel returns


def sample_calls(
    job: TrainingJob, manifest: Manifest, objective: Objective, model: keras.Model, module: Serving,
    raw: RawRows | None,
) -> list[Call]:  # fmt: skip
    """Rows of the dataset, prepared and, where it stores them as they came or has some of the files, as those are.

    Args:
      job: the job.
      manifest: of its dataset.
      objective: what was learned, as it was settled.
      model: that was trained, with the weights that are exported.
      module: that was exported.
      raw: rows of the files, if the dataset has some.
    """
    split: SplitName = next(name for name in ("eval", "test", "train") if windows_in(manifest, name))
    keys = Keys.of(manifest)
    names = [*objective.signature.inputs, *keys.names]
    fields = _first(read_windows(job, manifest, split, names, ROWS, ROWS, objective.once))
    x = objective.inputs(fields)

    def predict(inputs: Any) -> Outputs:
        return serve(objective, with_latent(model), inputs)

    expected = predict(x)
    rows = len(next(iter(expected.values())))
    places = [f"{keys.describe(fields, row) or f'row {row}'} ({split})" for row in range(rows)]
    calls = [Call("preprocessed", _arguments(module, x), expected, places)]
    if isinstance(module, WindowServing) and module.transform is not None:
        calls.append(_raw_windows(predict, module, x, keys.assets(fields), places))
        if module.ahead and x.shape[1] > 1:
            calls.append(_forecasts(calls[-1], module))
    if isinstance(module, StoredServing) and module.transform is None:
        stored = _first(read_windows(job, manifest, split, names, ROWS, ROWS))
        calls.append(Call("serving_default", _arguments(module, objective.inputs(stored)), expected, places))
    if raw is not None:
        calls += _raw_rows(predict, objective, module, raw)
    return calls


def _forecasts(raw: Call, module: WindowServing) -> Call:
    """The same windows with times, in steps of a minute from a time of each window's own."""
    rows, length, _ = raw.inputs["windows"].shape
    first = np.arange(rows)[:, None] * 1_000_000
    expected = {
        f"{prefix}{TIME}": tf.constant(first + 60 * (length + np.arange(ahead)), tf.int64)
        for prefix, ahead in module.ahead.items()
    }
    inputs = {**raw.inputs, TIME: tf.constant(first + 60 * np.arange(length), tf.int64)}
    return Call("forecast", inputs, {**raw.expected, **expected}, raw.places)


def _raw_rows(predict: Predict, objective: Objective, module: Serving, raw: RawRows) -> list[Call]:
    """Rows as the files have them, of a table as texts; no call where one of the inputs is of any length.

    Raises:
      UserError: if they are not those of the dataset's columns or arrays.
    """
    stored, preparation, rows = module.stored(), objective.preparation, len(raw.places)
    of_rows = module.raw_arguments()
    if of_rows is None or not stored.keys() <= raw.fields.keys():
        return []
    signature, arguments = of_rows
    try:
        fields = {name: _tensor(raw.fields[name], spec, rows) for name, spec in stored.items()}
        columns = {spec.name: _tensor(raw.raw[name], spec, rows) for name, spec in arguments.items()}
    except (KeyError, TypeError, ValueError):
        raise UserError("the dataset's raw_rows.parquet does not fit its manifest; preprocess again") from None
    x = objective.inputs(fields if preparation is None else preparation.prepare(fields))
    return [Call(signature, columns, predict(x), raw.places)]


def _tensor(values: pa.Array, spec: tf.TensorSpec, rows: int) -> tf.Tensor:
    """The values of all rows as a tensor of the spec, `[rows, ...]`."""
    flat = np.array(values.to_pylist(), object) if spec.dtype == tf.string else np.asarray(values)
    shape = [rows, *(-1 if size is None else size for size in spec.shape[1:])]
    return tf.constant(flat.reshape(shape).astype(spec.dtype.as_numpy_dtype, copy=False), spec.dtype)


def _raw_windows(
    predict: Predict, module: WindowServing, windows: tf.Tensor, names: np.ndarray, places: list[str]
) -> Call:
    """The windows in the files' units, as `serving_default` gets them.

    Raises:
      JobFailed: if the graph does not make the dataset's windows of them again.
    """
    asset = tf.constant(names.tolist(), tf.string) if module.per_asset else None
    raw, most = module.restore(windows, asset), PREPARED_OFF + module.rounding(asset)
    prepared = module.prepare_windows(raw, asset)
    off = np.abs(prepared - windows).max(axis=(1, 2)) / most
    row = int(np.argmax(off))
    if not off[row] <= 1:
        raise JobFailed(
            f"the SavedModel does not prepare values as the dataset was prepared: {places[row]} differs by "
            f"{off[row] * most:.3g} deviations; do not serve it"
        )
    inputs = {"windows": raw} if asset is None else {"windows": raw, "asset": asset}
    return Call("serving_default", inputs, predict(prepared), places)


def _first(batches: Any) -> Fields:
    fields, present = next(iter(batches))
    return without_padding(fields, present)


def _arguments(module: Serving, x: Any) -> dict[str, tf.Tensor]:
    """The model's inputs by the names of the arguments."""
    inputs = x if isinstance(x, dict) else dict.fromkeys(module.arguments, x)
    return {argument: inputs[name] for name, argument in module.arguments.items()}
