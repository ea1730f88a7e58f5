"""How far a training run is, and what decides when it ends. Pure; no TensorFlow."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from beamfeed.contract.config.train import EarlyStopping, Train


class TrainingState(NamedTuple):
    """The state of a training run at a step, but for its variables: what a checkpoint keeps of it, as JSON.

    Scores are values of what is watched, turned so that lower ones are better.
    """

    epoch: int = 0  # whole epochs run, their evaluation included
    step: int = 0  # steps run
    done: int = 0  # of those, in the epoch that is under way
    # Over these, numbers and lists of them: see beamfeed.trainer.loop.steps.zero_train.
    sums: dict[str, Any] = {}  # noqa: RUF012 - nothing is ever put into it
    seconds: float = 0.0  # that they took
    best: float | None = None  # the lowest score
    best_step: int = 0  # where that was
    measured: dict[str, Any] = {}  # noqa: RUF012 - there: the loss and metrics by name
    reference: float | None = None  # the score that early stopping compares with
    stale: int = 0  # epochs since that score

    def train(self, steps: int, sums: dict[str, Any], seconds: float) -> "TrainingState":
        """After so many more steps of the epoch; `sums` are of all its steps."""
        return self._replace(step=self.step + steps, done=self.done + steps, sums=sums, seconds=self.seconds + seconds)

    def end_epoch(
        self, score: float | None, measured: Mapping[str, float | None], min_delta: float = 0.0
    ) -> "TrainingState":
        """After an epoch; None is a score that is no number, and is never better."""
        best = score is not None and (self.best is None or score < self.best)
        better = score is not None and (self.reference is None or score < self.reference - min_delta)
        kept = best or not self.best_step  # the first epoch's in any case: a run must end with some weights
        return TrainingState(
            epoch=self.epoch + 1,
            step=self.step,
            best=score if best else self.best,
            best_step=self.step if kept else self.best_step,
            measured=dict(measured) if kept else self.measured,
            reference=score if better else self.reference,
            stale=0 if better else self.stale + 1,
        )


def is_over(epochs: int, stale: int, train: Train) -> bool:
    """Whether a training run ends after so many epochs, by their number or early."""
    return epochs >= train.epochs or stops_early(stale, train.early_stopping)


def stops_early(stale: int, early_stopping: EarlyStopping | None) -> bool:
    """Whether so many epochs without a better score end the run."""
    return early_stopping is not None and stale >= early_stopping.patience
