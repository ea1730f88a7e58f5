"""Linear maps of windows to the rows behind them, by themselves and as a part of other models."""

import keras

from beamfeed.contract.config.model import DLinear
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import broadcast_add, continued, in_units
from beamfeed.trainer.models.signature import Output, Signature, one_or_all

PARTS = ("trend", "rest")


def build_dlinear(section: DLinear, signature: Signature) -> keras.Model:
    """DLinear of Zeng et al., "Are Transformers Effective for Time Series Forecasting?" (2022).

    The trend is the moving mean of a column, with the first and last row repeated at the ends; what is left is the
    rest. With `last`, the last row is taken off before and added after, as their NLinear does. One map for all columns.

    Returns:
      A functional model of plain Keras layers, `[batch, length, features]` -> `[batch, rows, columns]` in the units of
      the target; a dict by the names of the outputs where there are several.

    Raises:
      UserError: if anything else than forecasts of a series is asked for.
    """
    if signature.series is None or not all(output.continues for output in signature.outputs.values()):
        raise UserError("train.model.name: 'dlinear' is for the task forecast alone")
    windows = keras.Input(signature.series, name="windows")
    outputs = {
        name: in_units(linear_forecast(windows, name, output, section.trend, last=section.last), name, output)
        for name, output in signature.outputs.items()
    }
    return keras.Model(windows, one_or_all(outputs), name=section.name)


def forecast_maps(model: keras.Model, name: str) -> list[keras.Variable]:
    """Kernel `[length, rows]` and bias of each linear map over time of an output, where it has some."""
    layers = [layer for layer in model.layers if layer.name in (f"{name}_{part}_map" for part in PARTS)]
    return [weight for layer in layers for weight in (layer.kernel, layer.bias)]


def linear_forecast(
    windows: keras.KerasTensor, name: str, output: Output, trend: int, *, last: bool
) -> keras.KerasTensor:
    """Windows `[batch, length, features]` -> `[batch, rows, columns]`, scaled as these are.

    Args:
      windows: of the model.
      name: of the output.
      output: that is forecast.
      trend: rows of the moving mean; 1 where nothing is taken apart.
      last: whether the last row is taken off before, and added after.
    """
    values = continued(windows, output)
    final = values[:, -1:]
    if last:
        values = keras.layers.Subtract(name=f"{name}_from_last", dtype="float32")([values, final])
    parts = [values]
    if trend > 1:
        rows_at_ends = [keras.layers.Flatten(dtype="float32")(row) for row in (values[:, :1], values[:, -1:])]
        before, behind = (keras.layers.RepeatVector(trend // 2, dtype="float32")(row) for row in rows_at_ends)
        padded = keras.layers.Concatenate(axis=1, dtype="float32")([before, values, behind])
        level = keras.layers.AveragePooling1D(trend, strides=1, name=f"{name}_trend", dtype="float32")(padded)
        parts = [level, keras.layers.Subtract(name=f"{name}_rest", dtype="float32")([values, level])]
    rows, _ = output.shapes[0]
    maps = []
    for part, values in zip(PARTS, parts, strict=False):
        over_time = keras.layers.Permute((2, 1), dtype="float32")(values)
        maps.append(keras.layers.Dense(rows, name=f"{name}_{part}_map", dtype="float32")(over_time))
    summed = keras.layers.Add(name=f"{name}_maps", dtype="float32")(maps) if len(maps) > 1 else maps[0]
    forecast = keras.layers.Permute((2, 1), name=f"{name}_linear", dtype="float32")(summed)
    return broadcast_add(final, forecast, f"{name}_from") if last else forecast
