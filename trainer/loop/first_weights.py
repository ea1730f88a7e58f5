"""First weights that come of the data.

The linear path of an autoencoder begins as PCA of training windows; the bins of a tabular model hold training rows.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import keras
import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.model import Autoencoder, ModelSection, Tabular
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Cluster, Together
from beamfeed.trainer.models.autoencoder import linear_path
from beamfeed.trainer.models.bins import Bins
from beamfeed.trainer.models.components import VectorSums
from beamfeed.trainer.models.tabular import bin_weights
from beamfeed.trainer.review.reading import numbers_of, read_windows, some_of
from beamfeed.trainer.tasks.objective import Objective

FITTED = 16_384  # training windows, from all over the split
MOST_BYTES = 256 << 20  # of them
BATCH = 256  # windows at a time


class Fit(Protocol):
    """Weights of an input's layers that are found in training windows."""

    def add(self, vectors: np.ndarray) -> None:
        """Adds windows of the input, float32 `[n, numbers]`, n above 0."""

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The weights, float32, in the place of random ones."""


def begins_trained(section: ModelSection) -> bool:
    """Whether such a model, as it begins, may be better than training makes it."""
    return isinstance(section, Autoencoder) and section.linear


def fit_first_weights(
    job: TrainingJob, manifest: Manifest, objective: Objective, model: keras.Model, cluster: Cluster, together: Together
) -> None:
    """Sets the weights that come of the data; every worker calls this, the chief reads, and all get the same.

    Args:
      job: `output.path` is where the dataset is.
      manifest: of the dataset.
      objective: of the job.
      model: with random weights.
      cluster: of the workers.
      together: what all workers do at once.
    """
    section, inputs = job.train.model, objective.signature.inputs
    fits: dict[str, Fit] = {}
    if begins_trained(section):
        ((name, window),) = inputs.items()
        fits, weights = {name: Components(window.numbers)}, {name: linear_path(model)}
    elif isinstance(section, Tabular):
        weights = bin_weights(model, inputs)
        fits = {name: Bins(section.bins) for name in weights}
    if not fits:
        return
    values = {name: [weight.numpy() for weight in of_input] for name, of_input in weights.items()}

    def fit() -> None:
        add_sample(job, manifest, objective, fits)
        for name, of_input in fits.items():
            fitted = of_input.values(values[name])
            if all(np.isfinite(value).all() for value in fitted):  # else the first step says what is wrong
                values[name] = fitted

    together("finding the first weights in the data", fit)
    chosen = cluster.from_chief([value for of_input in values.values() for value in of_input])
    for weight, value in zip((weight for of_input in weights.values() for weight in of_input), chosen, strict=True):
        weight.assign(value)


def add_sample(job: TrainingJob, manifest: Manifest, objective: Objective, fits: Mapping[str, Fit]) -> None:
    """Gives each input's fit a sample of the training windows, the same one each time, as vectors."""
    inputs = objective.signature.inputs
    numbers = sum(inputs[name].numbers for name in fits)
    most = max(1, min(FITTED, MOST_BYTES // (4 * numbers)))
    preparation = objective.preparation and objective.preparation.once
    for fields, present in read_windows(job, manifest, "train", objective.fields(), BATCH, most, preparation):
        windows = some_of({name: fields[name] for name in fits}, numbers_of(present))
        for name, of_input in fits.items():
            of_input.add(windows[name].numpy().reshape(-1, inputs[name].numbers))


class Components(VectorSums):
    """The weights of a linear path."""

    def values(self, first: Sequence[np.ndarray]) -> list[np.ndarray]:
        """See `as_components`."""
        return as_components(self, first) if np.isfinite(self.mean).all() else list(first)


def as_components(sums: VectorSums, values: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Kernel and bias to the latent state and back, such that together they project onto the principal components.

    Args:
      sums: over windows.
      values: of random weights, as `linear_path` lists them: `[width, latent]`, `[latent]`, `[latent, width]` and
        `[width]`. Where there are fewer components than latent numbers, those beyond keep their own way down.
    """
    to_latent, to_latent_bias, back, back_bias = (np.array(value, np.float64) for value in values)
    count = min(sums.most, to_latent.shape[1])
    components = sums.components(count)
    to_latent[:, :count], to_latent_bias[:count] = components, -sums.mean @ components
    back[:count], back[count:], back_bias[:] = components.T, 0.0, sums.mean
    return [value.astype(np.float32) for value in (to_latent, to_latent_bias, back, back_bias)]
