"""First weights that come of the data, where a model has such: found in a sample of training windows."""

import keras
import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Together
from beamfeed.trainer.review.reading import training_windows
from beamfeed.trainer.tasks.first_fits import make_fits
from beamfeed.trainer.tasks.objective import Objective

FITTED = 16_384  # training windows, from all over the split
MOST_BYTES = 256 << 20  # of them


def fit_first_weights(
    job: TrainingJob, manifest: Manifest, objective: Objective, model: keras.Model, together: Together
) -> None:
    """Sets the weights that come of the data; every worker calls this, the chief reads, and all get the same."""
    fits = make_fits(job.train.model, model, objective)
    if not fits:
        return
    weights = [weight for _, of_fit in fits for weight in of_fit]
    values = [[weight.numpy() for weight in of_fit] for _, of_fit in fits]

    def fit() -> None:
        numbers = sum(window.numbers for window in objective.signature.inputs.values())
        most = max(1, min(FITTED, MOST_BYTES // (4 * numbers)))
        for fields in training_windows(job, manifest, objective, most):
            examples = objective.examples(fields)
            for layers, _ in fits:
                layers.add(examples)
        for place, (layers, _) in enumerate(fits):
            fitted = layers.values(values[place])
            if all(np.isfinite(value).all() for value in fitted):  # else the first step says what is wrong
                values[place] = fitted

    together("finding the first weights in the data", fit)
    chosen = together.cluster.from_chief([value for of_fit in values for value in of_fit])
    for weight, value in zip(weights, chosen, strict=True):
        weight.assign(value)
