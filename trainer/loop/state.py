"""How far a training run is, and what decides when it ends. Pure; no TensorFlow."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from beamfeed.contract.config.train import Train


class TrainingState(NamedTuple):
    """The state of a training run at a step, but for its variables: what a checkpoint keeps of it, as JSON.

    Scores are values of what is watched, turned so that lower ones are better.
    """

    epoch: int = 0  # whole epochs run; the last one counts once another begins, or it is evaluated
    step: int = 0  # steps run
    done: int = 0  # of those, in the epoch that is under way
    since: int = 0  # and since the last evaluation
    # Over these, numbers and lists of them: see beamfeed.trainer.loop.steps.zero_train.
    sums: dict[str, Any] = {}  # noqa: RUF012 - nothing is ever put into it
    seconds: float = 0.0  # that they took
    best: float | None = None  # the lowest score
    best_step: int | None = None  # where that was; 0: before the first step; None: no weights are kept
    measured: dict[str, Any] = {}  # noqa: RUF012 - there: the loss and metrics by name
    reference: float | None = None  # the score that early stopping compares with
    stale: int = 0  # evaluations since that score
    lanes: int = 0  # of the feed, as the order of the data depends on it

    def train(self, steps: int, sums: dict[str, Any], seconds: float) -> "TrainingState":
        """After so many more steps of the epoch; `sums` are of all since the last evaluation."""
        return self._replace(
            step=self.step + steps,
            done=self.done + steps,
            since=self.since + steps,
            sums=sums,
            seconds=self.seconds + seconds,
        )

    def next_epoch(self, steps: int) -> "TrainingState":
        """With the next epoch under way, if all steps of this one are run."""
        return self._replace(epoch=self.epoch + 1, done=0) if self.done == steps else self

    def evaluate(
        self, score: float | None, measured: Mapping[str, float | None], min_delta: float = 0.0
    ) -> "TrainingState":
        """After an evaluation; None is a score that is no number, and is never better."""
        best = score is not None and (self.best is None or score < self.best)
        better = score is not None and (self.reference is None or score < self.reference - min_delta)
        keeps = best or self.best_step is None  # the first in any case: a run must end with some weights
        return TrainingState(
            epoch=self.epoch,
            step=self.step,
            done=self.done,
            best=score if best else self.best,
            best_step=self.step if keeps else self.best_step,
            measured=dict(measured) if keeps else self.measured,
            reference=score if better else self.reference,
            stale=0 if better else self.stale + 1,
            lanes=self.lanes,
        )


def is_over(epochs: int, steps: int, stale: int, train: Train) -> bool:
    """Whether a training run ends after so many whole epochs, or steps, or evaluations without a better score."""
    by_steps = train.max_steps is not None and steps >= train.max_steps
    is_early = train.early_stopping is not None and stale >= train.early_stopping.patience
    return epochs >= train.epochs or by_steps or is_early


def until_evaluation(state: TrainingState, steps: int, train: Train) -> int:
    """How many steps there are to the next evaluation, with so many in an epoch: 0 where it is now.

    That is the end of the epoch, unless `evaluate_every` says another; and the end of the run.
    """
    remaining = (train.epochs - state.epoch) * steps - state.done
    if train.max_steps is not None:
        remaining = min(remaining, train.max_steps - state.step)
    every = train.evaluate_every
    due = steps - state.done if every is None else every - state.step % every
    if due == every and state.since:
        due = 0
    return max(0, min(remaining, due))
