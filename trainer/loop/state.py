"""How far a training run is, and what decides when it ends. Pure; no TensorFlow."""

import math
from typing import NamedTuple

from beamfeed.contract.config.train import EarlyStopping, Train


class TrainingState(NamedTuple):
    """The state of a training run at a step, but for its variables: what a checkpoint keeps of it."""

    epoch: int = 0  # whole epochs run, their evaluation included
    step: int = 0  # steps run
    done: int = 0  # of those, in the epoch that is under way
    loss: float = 0.0  # sums over these, see beamfeed.trainer.loop.steps.Totals
    norm: float = 0.0
    waited: float = 0.0
    seconds: float = 0.0  # that they took
    best: float = math.inf  # the lowest loss that was watched
    best_step: int = 0  # where that was
    reference: float = math.inf  # the loss that early stopping compares with
    stale: int = 0  # epochs since that loss

    def train(self, steps: int, totals: tuple[float, float, float], seconds: float) -> "TrainingState":
        """After so many more steps of the epoch; `totals` are of all its steps."""
        loss, norm, waited = totals
        return self._replace(
            step=self.step + steps,
            done=self.done + steps,
            loss=loss,
            norm=norm,
            waited=waited,
            seconds=self.seconds + seconds,
        )

    def end_epoch(self, watched: float, min_delta: float = 0.0) -> "TrainingState":
        """After an epoch, whose watched loss (eval, or train where there is no eval) is `watched`."""
        better = watched < self.reference - min_delta
        return TrainingState(
            epoch=self.epoch + 1,
            step=self.step,
            best=min(self.best, watched),
            best_step=self.step if watched < self.best else self.best_step,
            reference=watched if better else self.reference,
            stale=0 if better else self.stale + 1,
        )


def is_over(epochs: int, stale: int, train: Train) -> bool:
    """Whether a training run ends after so many epochs, by their number or early."""
    return epochs >= train.epochs or stops_early(stale, train.early_stopping)


def stops_early(stale: int, early_stopping: EarlyStopping | None) -> bool:
    """Whether so many epochs without a better loss end the run."""
    return early_stopping is not None and stale >= early_stopping.patience
