"""Linear models of windows for forecasts."""

import keras

from beamfeed.contract.config.model import DLinear
from beamfeed.contract.errors import UserError
from beamfeed.trainer.models.parts import continued, in_units
from beamfeed.trainer.models.signature import Output, Signature, one_or_all


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
    outputs = {name: _forecast(windows, name, output, section) for name, output in signature.outputs.items()}
    return keras.Model(windows, one_or_all(outputs), name=section.name)


def _forecast(windows: keras.KerasTensor, name: str, output: Output, section: DLinear) -> keras.KerasTensor:
    values = continued(windows, output)
    last = values[:, -1:]
    if section.last:
        values = keras.layers.Subtract(name=f"{name}_from_last")([values, last])
    parts = [values]
    if section.trend > 1:
        ends = [keras.layers.Flatten()(row) for row in (values[:, :1], values[:, -1:])]
        first, final = (keras.layers.RepeatVector(section.trend // 2)(row) for row in ends)
        padded = keras.layers.Concatenate(axis=1)([first, values, final])
        trend = keras.layers.AveragePooling1D(section.trend, strides=1, name=f"{name}_trend")(padded)
        parts = [trend, keras.layers.Subtract(name=f"{name}_rest")([values, trend])]
    rows, _ = output.shapes[0]
    maps = [
        keras.layers.Dense(rows, name=f"{name}_{part}_map", dtype="float32")(keras.layers.Permute((2, 1))(values))
        for part, values in zip(("trend", "rest"), parts, strict=False)
    ]
    summed = keras.layers.Add(name=f"{name}_sum", dtype="float32")(maps) if len(maps) > 1 else maps[0]
    forecast = keras.layers.Permute((2, 1), name=f"{name}_rows", dtype="float32")(summed)
    if section.last:
        forecast = keras.layers.Add(name=f"{name}_from", dtype="float32")([forecast, last])
    return in_units(forecast, name, output)
