"""How far a training is, and what decides when it ends. Pure; no TensorFlow."""

import math
from typing import NamedTuple

from contract.job import EarlyStopping, Train


class Progress(NamedTuple):
    """The state of a training after an epoch, all numbers, as it is kept in a checkpoint."""

    epoch: int = 0  # epochs run
    step: int = 0  # steps run
    best: float = math.inf  # the lowest loss that was watched
    reference: float = math.inf  # the loss that early stopping compares with
    stale: int = 0  # epochs since that loss

    def advance(self, steps: int, loss: float, min_delta: float = 0.0) -> "Progress":
        """After one more epoch, whose watched loss (eval, or train where there is no eval) is `loss`."""
        better = loss < self.reference - min_delta
        return Progress(
            epoch=self.epoch + 1,
            step=self.step + steps,
            best=min(self.best, loss),
            reference=loss if better else self.reference,
            stale=0 if better else self.stale + 1,
        )


def is_over(epochs: int, stale: int, train: Train) -> bool:
    """Whether a training that has run so many epochs ends, by their number or early."""
    return epochs >= train.epochs or stops_early(stale, train.early_stopping)


def stops_early(stale: int, early_stopping: EarlyStopping | None) -> bool:
    return early_stopping is not None and stale >= early_stopping.patience
