"""First weights that come of the data, where a model has such: found in a sample of training windows."""

from collections.abc import Iterator

import keras
import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Cluster, Together
from beamfeed.trainer.review.reading import numbers_of, read_windows, some_of
from beamfeed.trainer.tasks.first_fits import make_fits
from beamfeed.trainer.tasks.objective import Examples, Objective

FITTED = 16_384  # training windows, from all over the split
MOST_BYTES = 256 << 20  # of them
BATCH = 256  # windows at a time


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
    fits = make_fits(job.train.model, model, objective)
    if not fits:
        return
    weights = [weight for _, of_fit in fits for weight in of_fit]
    values = [[weight.numpy() for weight in of_fit] for _, of_fit in fits]

    def fit() -> None:
        for examples in read_sample(job, manifest, objective):
            for layers, _ in fits:
                layers.add(examples)
        for place, (layers, _) in enumerate(fits):
            fitted = layers.values(values[place])
            if all(np.isfinite(value).all() for value in fitted):  # else the first step says what is wrong
                values[place] = fitted

    together("finding the first weights in the data", fit)
    chosen = cluster.from_chief([value for of_fit in values for value in of_fit])
    for weight, value in zip(weights, chosen, strict=True):
        weight.assign(value)


def read_sample(job: TrainingJob, manifest: Manifest, objective: Objective) -> Iterator[Examples]:
    """A sample of the training windows, the same one each time."""
    numbers = sum(window.numbers for window in objective.signature.inputs.values())
    most = max(1, min(FITTED, MOST_BYTES // (4 * numbers)))
    preparation = objective.preparation and objective.preparation.once
    for fields, present in read_windows(job, manifest, "train", objective.fields(), BATCH, most, preparation):
        yield objective.examples(some_of(fields, numbers_of(present)))
