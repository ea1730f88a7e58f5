"""First weights that come of the data: the linear path of an autoencoder begins as PCA of training windows."""

import keras
import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.model import Autoencoder, ModelSection
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Cluster, Together
from beamfeed.trainer.models.autoencoder import linear_path
from beamfeed.trainer.models.components import VectorSums
from beamfeed.trainer.review.reading import numbers_of, read_windows, some_of
from beamfeed.trainer.tasks.objective import Objective

FITTED = 16_384  # training windows, from all over the split
MOST_BYTES = 256 << 20  # of them
BATCH = 256  # windows at a time


def has_first_weights(section: ModelSection) -> bool:
    """Whether such a model has weights that come of the data."""
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
    if not has_first_weights(job.train.model):
        return
    weights = linear_path(model)
    values = [weight.numpy() for weight in weights]

    def fit() -> None:
        sums = read_sums(job, manifest, objective)
        if np.isfinite(sums.mean).all():  # else the first step says what is wrong
            values[:] = as_components(sums, values)

    together("finding the principal components", fit)
    for weight, value in zip(weights, cluster.from_chief(values), strict=True):
        weight.assign(value)


def read_sums(job: TrainingJob, manifest: Manifest, objective: Objective) -> VectorSums:
    """The sums over a sample of the training windows, the same one each time."""
    ((name, window),) = objective.signature.inputs.items()
    sums = VectorSums(window.numbers)
    most = max(1, min(FITTED, MOST_BYTES // (4 * window.numbers)))
    preparation = objective.preparation and objective.preparation.once
    batches = read_windows(job, manifest, "train", objective.fields(), BATCH, most, preparation)
    for fields, present in batches:
        sums.add(some_of(fields, numbers_of(present))[name].numpy().reshape(-1, window.numbers))
    return sums


def as_components(sums: VectorSums, values: list[np.ndarray]) -> list[np.ndarray]:
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
