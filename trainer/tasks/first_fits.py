"""What finds the first weights of a model in training windows.

The linear path of an autoencoder begins as PCA of training windows, that of a forecast as ridge regression, that of a
table as ridge or logistic regression; the bins of a tabular model hold training rows.
"""

from collections.abc import Sequence
from typing import Protocol

import keras
import numpy as np

from beamfeed.contract.config.model import Autoencoder, DLinear, Linear, ModelSection, Recurrent, Tabular
from beamfeed.trainer.models.autoencoder import linear_path
from beamfeed.trainer.models.bins import encoding
from beamfeed.trainer.models.components import VectorSums
from beamfeed.trainer.models.forecast import forecast_maps
from beamfeed.trainer.models.signature import Signature
from beamfeed.trainer.models.tabular import bin_weights, linear_weights
from beamfeed.trainer.tasks.base import Task
from beamfeed.trainer.tasks.classify import Classify
from beamfeed.trainer.tasks.forecast import Forecast
from beamfeed.trainer.tasks.history import HistorySums
from beamfeed.trainer.tasks.linear import TrainingRows, best_strength, fit_linear
from beamfeed.trainer.tasks.objective import Examples, Objective
from beamfeed.trainer.tasks.regress import Regress
from beamfeed.trainer.tasks.rows import MOST_WEIGHTS, WORK, Layout

MOST_VALIDATED = WORK // 10  # rows * columns * classes, and weights: up to these, cross-validation chooses the strength


class Fit(Protocol):
    """Weights that are found in training windows."""

    def add(self, examples: Examples) -> None:
        """Adds windows, at least one."""

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The weights, float32, in the place of random ones."""


def begins_trained(section: ModelSection, signature: Signature) -> bool:
    """Whether such a model, as it begins, may be better than training makes it."""
    if isinstance(section, (Linear, Tabular)):
        return is_linear(section)
    return (isinstance(section, Autoencoder) and section.linear) or bool(forecasts_of(section, signature))


def is_linear(section: ModelSection) -> bool:
    """Whether a weighted sum of a table's columns is in the outputs."""
    return isinstance(section, Linear) or (isinstance(section, Tabular) and section.wide)


def forecasts_of(section: ModelSection, signature: Signature) -> list[str]:
    """The outputs that begin as a linear forecast of the window."""
    continues = isinstance(section, (DLinear, Recurrent))
    return [name for name, output in signature.outputs.items() if continues and output.continues]


def make_fits(
    section: ModelSection, model: keras.Model, objective: Objective
) -> list[tuple[Fit, list[keras.Variable]]]:
    """What finds first weights, each with the weights that it finds."""
    signature = objective.signature
    if isinstance(section, Autoencoder) and section.linear:
        return [(Components(next(iter(signature.inputs.values())).numbers), linear_path(model))]
    if isinstance(section, (Linear, Tabular)):
        fits: list[tuple[Fit, list[keras.Variable]]] = []
        if isinstance(section, Tabular):
            by_input = bin_weights(model, signature.inputs)
            fits += [(ColumnBins(name, section.bins), weights) for name, weights in by_input.items()]
        layout = Layout(signature.inputs)
        for name, task in objective.tasks.items() if is_linear(section) and not layout.unfit else ():
            if isinstance(task, (Classify, Regress)) and layout.weights * (task.output.units or 1) <= MOST_WEIGHTS:
                fits.append((LinearSum(name, task, layout), linear_weights(model, name, signature)))
        return fits
    return [
        (LinearForecast(name, objective.tasks[name], not isinstance(section, DLinear) or section.last),
         forecast_maps(model, name))
        for name in forecasts_of(section, signature)
    ]  # fmt: skip


class Components:
    """The weights of an autoencoder's linear path: kernel and bias to the latent state and back.

    Together they project onto the principal components.

    Args:
      width: numbers in a window.
    """

    def __init__(self, width: int):
        self._sums, self._width = VectorSums(width), width

    def add(self, examples: Examples) -> None:
        self._sums.add(examples.x.numpy().reshape(-1, self._width))

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Where there are fewer components than latent numbers, those beyond keep their own way down.

        Args:
          first: random weights, as `linear_path` lists them: `[width, latent]`, `[latent]`, `[latent, width]` and
            `[width]`. They stay where a window is not finite.
        """
        mean = self._sums.mean
        if not np.isfinite(mean).all():
            return list(first)
        to_latent, to_latent_bias, back, back_bias = (np.array(value, np.float64) for value in first)
        count = min(self._sums.most, to_latent.shape[1])
        components = self._sums.components(count)
        to_latent[:, :count], to_latent_bias[:count] = components, -mean @ components
        back[:count], back[count:], back_bias[:] = components.T, 0.0, mean
        return [value.astype(np.float32) for value in (to_latent, to_latent_bias, back, back_bias)]


class ColumnBins:
    """The weights of an encoding by bins.

    Args:
      name: of the input.
      count: bins of each column, at most.
    """

    def __init__(self, name: str, count: int):
        self._name, self._count = name, count
        self._rows: list[np.ndarray] = []

    def add(self, examples: Examples) -> None:
        values = examples.x[self._name] if isinstance(examples.x, dict) else examples.x
        self._rows.append(values.numpy().reshape(len(values), -1))

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Kernel and bias; the first ones where a row is not finite."""
        rows = np.concatenate(self._rows)
        return list(encoding(rows, *first[0].shape[1:])) if np.isfinite(rows).all() else list(first)


class LinearSum:
    """The weights of a linear model of a table's columns, by logistic or ridge regression.

    Args:
      name: of the output.
      task: of the same.
      layout: of the inputs.
    """

    def __init__(self, name: str, task: Classify | Regress, layout: Layout):
        self._name, self._task, self._layout = name, task, layout
        self._width = layout.width * (task.output.units or 1)
        self._batches: list[list[np.ndarray]] = []

    def add(self, examples: Examples) -> None:
        truth = examples.truth[self._name].numpy()
        weights = examples.weights.get(self._name)
        arrays = [truth, np.ones(len(truth)) if weights is None else weights.numpy()]
        self._batches.append([*arrays, *(tensor.numpy() for tensor in self._layout.tensors(examples.x))])

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Kernels and biases; the first ones where nothing can be fitted to the rows.

        Of many rows those all over the sample are taken, as many as can be fitted in some seconds.
        """
        count = sum(len(truth) for truth, *_ in self._batches)
        chosen = np.unique(np.linspace(0, count - 1, min(count, max(1, WORK // self._width))).astype(int))
        truth, weights, *arrays = (np.concatenate(parts)[chosen] for parts in zip(*self._batches, strict=True))
        output, classes = self._task.output, None
        if isinstance(self._task, Classify):
            classes = len(self._task.classes)
        else:
            truth = (truth - np.asarray(output.offset)) / np.asarray(output.scale)
        training = TrainingRows(self._layout.rows(*arrays), truth, weights)
        if not (training.can_fit(classes) and self._layout.holds(training.rows)):
            return list(first)
        is_small = max(len(truth) * self._width, self._layout.weights * (output.units or 1)) <= MOST_VALIDATED
        strength = best_strength(self._layout, training, classes) if is_small else 1.0
        kernel, bias = fit_linear(self._layout, training, classes, strength)
        kernels = np.split(kernel, np.cumsum([len(value) for value in first if value.ndim == 2])[:-1])
        biases = [np.zeros_like(value) for value in first[len(kernels) :]]
        if biases:
            biases[0] = bias
        else:
            kernels[0] = kernels[0] + bias  # of each row one category of the first column counts
        return [value.astype(np.float32) for value in (*kernels, *biases)]


class LinearForecast:
    """The weights of linear maps of a window, by ridge regression.

    Args:
      name: of the output.
      task: of the same.
      last: whether the maps are of what is apart from the last row.
    """

    def __init__(self, name: str, task: Task, last: bool):
        assert isinstance(task, Forecast)
        self._name, self._last, self._sums = name, last, HistorySums(task.history)

    def add(self, examples: Examples) -> None:
        """Adds windows, and the rows behind them."""
        self._sums.add(examples.x.numpy(), examples.truth[self._name].numpy())

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Kernel `[length, rows]` and bias of each map: all have the same kernel, as what they map adds up."""
        kernel = np.zeros_like(first[0])
        weights, bias = self._sums.linear()
        kernel[-len(weights) :] = weights
        if not self._last:  # the forecast of what is apart from the last row, and that row
            kernel[-1] += 1 - weights.sum(axis=0)
        return [kernel, bias, *[value for _ in first[2::2] for value in (kernel, np.zeros_like(bias))]]
