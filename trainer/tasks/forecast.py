"""The task forecast: the model gives the rows behind a window, in the units of the files."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.task import Forecast as Section
from beamfeed.contract.dataset.fields import Field
from beamfeed.trainer.models.signature import Output
from beamfeed.trainer.tasks.base import Fields, Guess, Guesses, Restore, Sample, Sampling, Task, TrainingWindows
from beamfeed.trainer.tasks.history import History, HistorySums
from beamfeed.trainer.tasks.named import Measure, Trial

SCALED = "scaled_"  # begins the names of metrics of columns that are divided by their deviations
SHOWN = 3  # columns of the picture: those that vary most
BEFORE = 2  # times the rows of a forecast that are drawn of the window before it


class Forecast(Task):
    """Loss: the mean squared error, where each column counts in deviations of its training rows.

    So columns of any size count alike. Losses get `[batch, rows * columns]` of these, those of the user's own
    `[batch, rows, columns]`; metrics the same in the units of the files, unless their names begin with `scaled_`.
    """

    picture = "forecast"
    sampling = Sampling(256, mixed=True)
    shows_windows = True
    default_loss = "mean_squared_error"
    loss_text = "scaled mean squared error"
    default_metrics = ("mean_absolute_error", "root_mean_squared_error", f"{SCALED}mean_absolute_error")
    goal: Section

    @cached_property
    def _field(self) -> Field:
        return self.manifest.field(self.goal.target)

    @cached_property
    def history(self) -> History:
        """Where the columns are in the windows, and what they count in."""
        ((_, window),) = self.inputs.items()
        units = self._field.units
        return History(
            tuple(window.columns.index(column) for column in self._field.columns),
            np.array([unit.divisor for unit in units], np.float32),
            np.array([unit.offset for unit in units], np.float32),
            self._rows,
        )

    @property
    def _rows(self) -> int:
        first, end = self._field.rows_of(self.manifest.windows.length)
        return end - first

    @property
    def output(self) -> Output:
        """`[batch, rows, columns]`; a head's numbers are scaled as the input's columns are."""
        history, columns = self.history, len(self._field.columns)
        return Output(
            ((self._rows, columns),),
            f"{self._rows} rows of {columns} columns",
            units=self._rows * columns,
            scale=tuple(history.divisor.tolist()),
            offset=tuple(history.offset.tolist()),
            continues=history.places,
        )

    def named_measures(self, names: Sequence[str]) -> list[Measure]:
        """Those of the units, and those of scaled columns."""
        measures = super().named_measures([name for name in names if not name.startswith(SCALED)])
        scaled = super().named_measures([name.removeprefix(SCALED) for name in names if name.startswith(SCALED)])
        for measure in scaled:
            measure.name = SCALED + measure.name
        return [*measures, *scaled]

    def truth(self, fields: Fields) -> tf.Tensor:
        """Float32 `[batch, rows, columns]`."""
        return tf.cast(fields[self.goal.target], tf.float32)

    def losses(self, truth: tf.Tensor, output: tf.Tensor) -> tf.Tensor:
        truth, output = self._scaled(truth), self._scaled(self.scored(output))
        return self.loss(truth, output) if self.loss.is_own else self.loss(_flat(truth), _flat(output))

    def compared(self, measure: Measure, truth: tf.Tensor, scored: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # r2_score is the same of scaled columns; far from 0, squares in float32 have little left of differences.
        if measure.name.startswith(SCALED) or measure.keras_name == "r2_score":
            truth, scored = self._scaled(truth), self._scaled(scored)
        return (truth, scored) if measure.is_own else (_flat(truth), _flat(scored))

    def _scaled(self, values: tf.Tensor) -> tf.Tensor:
        std = np.array([unit.std for unit in self._field.units], np.float32)
        return (values - self.history.offset) / std

    def trial(self, rng: np.random.Generator, windows: int) -> Trial:
        """Numbers above the offsets of the columns, about as far as they vary."""
        shape = [windows, self._rows, len(self._field.columns)]
        truth, wrong = (
            tf.constant(rng.uniform(0.5, 1.5, shape) * self.history.divisor + self.history.offset, tf.float32)
            for _ in range(2)
        )
        return Trial(truth, truth, wrong)

    def serve(self, truth: tf.Tensor, output: tf.Tensor, restore: Restore | None) -> dict[str, tf.Tensor]:
        """The forecast, float32 `[batch, rows, columns]`."""
        return {"forecast": self.scored(output)}

    def constants(self) -> dict[str, tf.Tensor]:
        """The names of the columns that are forecast, and how many rows."""
        return {"forecast_columns": tf.constant(self._field.columns), "ahead": tf.constant(self._rows, tf.int64)}

    def guesses(self, windows: TrainingWindows, latent: int | None) -> Guesses:
        """The last value, the value a period before, and a linear model of the window."""
        history = self.history
        sums = HistorySums(history)
        for x, truth in windows():
            sums.add(np.asarray(x), truth)
        by_name: dict[str, Guess] = {"the last value": lambda x, _: history.repeat_last(x)}
        skipped = []
        if (period := sums.period()) is None:
            skipped.append("a period before: nothing was found to repeat within half a window")
        else:
            by_name[f"the value {period} rows before"] = lambda x, _: history.repeat_period(x, period)
        linear = sums.linear()
        by_name["a linear model of the window"] = lambda x, _: history.predict(x, *linear)
        return Guesses(by_name, skipped)

    def draw(self, figure: Any, sample: Sample) -> None:
        """The window with the median error."""
        errors = self.losses(tf.constant(sample.truth), tf.constant(sample.output)).numpy()
        self.draw_windows([figure], sample.median(errors), ["the window with the median error"])

    def draw_windows(self, figures: Sequence[Any], sample: Sample, titles: Sequence[str]) -> None:
        """Each column by itself: the end of the window, what came, and the forecast dashed."""
        columns, rows = self._field.columns, self._rows
        before = np.asarray(self.history.in_units(tf.constant(sample.x)))[:, -BEFORE * rows :]
        vary = (np.asarray(self._scaled(tf.constant(sample.truth))).var(axis=1)).sum(axis=0)
        shown = np.sort(np.argsort(-vary, kind="stable")[:SHOWN])
        at, ahead = np.arange(-before.shape[1] + 1, 1), np.arange(1, rows + 1)
        for figure, past, truth, output, title in zip(
            figures, before, sample.truth, sample.output, titles, strict=True
        ):
            all_axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
            for axes, column in zip(all_axes, shown, strict=True):
                axes.plot(at, past[:, column], color="0.5", linewidth=1, label="window")
                for values, style, label in ((truth, {"color": "black"}, "is"),
                                             (output, {"color": "C1", "linestyle": "--"}, "forecast")):  # fmt: skip
                    joined = np.append(past[-1:, column], values[:, column])
                    axes.plot(np.append(0, ahead), joined, linewidth=1.2, label=label, **style)
                axes.axvline(0, color="0.8", linewidth=0.8, zorder=0)
                axes.set_ylabel(columns[column], fontsize="small")
            all_axes[0].set_title(title, fontsize="medium")
            if figure is figures[0]:
                all_axes[0].legend(fontsize="x-small")
            all_axes[-1].set_xlabel("rows ahead")


def _flat(values: tf.Tensor) -> tf.Tensor:
    """`[batch, rows, columns]` -> `[batch, rows * columns]`."""
    return tf.reshape(values, [-1, values.shape[1] * values.shape[2]])
