"""What is told of an epoch and of a whole training run, from the state and what was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from beamfeed.contract.config.train import Train
from beamfeed.trainer.loop.metrics import Epoch
from beamfeed.trainer.loop.optimizer import learning_rate
from beamfeed.trainer.loop.state import TrainingState, stops_early
from beamfeed.trainer.loop.steps import NORM, NORMS, WAITED
from beamfeed.trainer.tasks.objective import LOSS

Measured = Mapping[str, float | None]  # the loss and metrics, by name


def describe_epoch(
    state: TrainingState,
    train: Train,
    optimizer: keras.optimizers.Optimizer,
    trained: Measured,
    evaluated: Measured | None,
    seconds: float,
) -> Epoch:
    """A line of metrics.jsonl: what was measured in the steps since the last, and by the evaluation in `seconds`."""
    sums = state.sums
    skipped = {"skipped_steps": state.since - int(sums[NORMS])} if train.devices.precision == "mixed_float16" else {}
    eval_values = {f"eval_{name}": value for name, value in (evaluated or {LOSS: None}).items()}
    return {
        "epoch": state.epoch + 1,
        "step": state.step,
        **trained,
        **eval_values,
        "learning_rate": learning_rate(optimizer),
        "gradient_norm": sums[NORM] / sums[NORMS] if sums[NORMS] else None,
        **skipped,
        "seconds": state.seconds + seconds,
        "windows_per_second": state.since * train.feed.batch_size / state.seconds,
        "waiting": sums[WAITED] / state.seconds,
    }


def describe_run(
    state: TrainingState, train: Train, epochs: Sequence[Epoch], watched: str, tested: Measured | None
) -> dict[str, Any]:
    """What a `TrainResult` tells of a run whose epochs are all run; `tested` is of the test split, if there is one."""
    return {
        "epochs": state.epoch,
        "steps": state.step,
        "stale": state.stale,
        "stopped_early": stops_early(state.stale, train.early_stopping),
        "first_loss": epochs[0][LOSS] if epochs else None,
        "last_loss": epochs[-1][LOSS] if epochs else None,
        "best": state.measured[watched],
        "best_loss": state.measured[LOSS],
        **_where_best(state, epochs),
        "metrics": _without_loss(state.measured),
        "test_loss": tested[LOSS] if tested else None,
        "test_metrics": _without_loss(tested or {}),
        "seconds": sum(epoch["seconds"] for epoch in epochs),
    }


def _where_best(state: TrainingState, epochs: Sequence[Epoch]) -> dict[str, Any]:
    """The epoch and the split in which the best weights were found."""
    found = [line for line in epochs if line["step"] == state.best_step]
    split = "train" if epochs and epochs[-1][f"eval_{LOSS}"] is None else "eval"
    return {"best_epoch": found[-1]["epoch"] if found else None, "best_split": split}


def _without_loss(measured: Measured) -> dict[str, float | None]:
    return {name: value for name, value in measured.items() if name != LOSS}
