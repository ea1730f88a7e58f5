"""What a training run tells of itself: metrics.jsonl, the terminal, writers and callbacks. Told by the chief alone.

What is told of an epoch and of a whole run is made of the state and of what was measured.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.progress import Progress
from beamfeed.contract.verbosity import note
from beamfeed.trainer.loop.callbacks import Callbacks
from beamfeed.trainer.loop.mlflow_writer import MLflow
from beamfeed.trainer.loop.optimizer import learning_rate
from beamfeed.trainer.loop.state import TrainingState, is_over
from beamfeed.trainer.loop.steps import NORM, NORMS, WAITED
from beamfeed.trainer.loop.writers import Csv, TensorBoard, Writer
from beamfeed.trainer.tasks.objective import LOSS

# The one look-up of writers: a name of `train.writers` -> what writes.
WRITERS: dict[str, Callable[[RunLayout, TrainingJob, int], Writer]] = {
    "tensorboard": TensorBoard,
    "csv": Csv,
    "mlflow": MLflow,
}
PICTURE_SECONDS = 60.0  # between pictures of a sample: drawing takes longer than a small epoch

# One line of metrics.jsonl, of an evaluation and the steps since the one before. Values that are no number are null.
#
#   epoch               from 1, that of its last step
#   step                steps run since the beginning
#   loss, eval_loss     eval_loss is null where there is no eval split
#   <metric>, eval_<metric>, and with several outputs <output>_loss, <output>_<metric>: as the task measures
#   learning_rate       of the next step
#   gradient_norm       mean of the steps', before clipping
#   skipped_steps       with mixed_float16: those that changed nothing, as their gradients overflowed
#   seconds
#   windows_per_second  in training, over all workers
#   waiting             for input, share of the time of training, on the chief
Epoch = dict[str, Any]
Measured = Mapping[str, float | None]  # the loss and metrics, by name


class MetricsLog:
    """The epochs of a training run so far; later lines of an earlier run than the restored state are dropped.

    `measured` are the names of what the task measures, with `loss`, and `steps` those of an epoch.
    """

    def __init__(
        self,
        job: TrainingJob,
        state: TrainingState,
        measured: list[str],
        steps: int,
        callbacks: Callbacks,
        is_chief: bool,
        progress: Progress,
    ):
        train = job.train
        self._names, self._measured, self._is_chief = RunLayout(train.workdir), measured, is_chief
        # One of this very step is to be measured again, if the state is not that after it.
        last = state.step - (state.since > 0)
        self.epochs: list[Epoch] = [line for line in _read(self._names.metrics) if line["step"] <= last]
        self._total = train.epochs
        self._writers = [WRITERS[name](self._names, job, state.step) for name in train.writers] if is_chief else []
        self._callbacks = callbacks
        self._drawn = -PICTURE_SECONDS
        # Of the whole run, so that it says how long that takes.
        self._steps = train.epochs * steps if train.max_steps is None else min(train.epochs * steps, train.max_steps)
        self._progress = progress
        self._reached(state)

    def step(
        self, before: TrainingState, after: TrainingState, batch: int, optimizer: keras.optimizers.Optimizer
    ) -> None:
        """Tells of some steps."""
        if not self._is_chief:
            return
        steps, seconds = after.done - before.done, after.seconds - before.seconds
        loss, norm, norms, waited = (
            after.sums[name] - before.sums.get(name, 0.0) for name in (LOSS, NORM, NORMS, WAITED)
        )
        rate = steps * batch / seconds
        values = {"loss": loss / steps, "learning_rate": learning_rate(optimizer)}
        if norms:
            values["gradient_norm"] = norm / norms
        values |= {"windows_per_second": rate, "waiting": waited / seconds}
        for writer in self._writers:
            writer.steps(after.step, values)
        self._callbacks.tell("on_steps", after.step, dict(values))
        self._reached(after, f", loss {loss / steps:.5g}")

    def add(self, line: Epoch) -> None:
        """Adds an epoch."""
        self.epochs.append(line)

    def write(self, model: keras.Model) -> None:
        """Writes and prints the last epoch, whose weights the model has. For the chief."""
        # Written whole: small, visible at once or not at all, and good for gs://
        text = "".join(json.dumps(epoch, allow_nan=False) + "\n" for epoch in self.epochs)
        storage.write_text(self._names.metrics, text)
        for writer in self._writers:
            writer.evaluation(self.epochs)
        note(describe(self.epochs[-1], self._measured, self._total))
        self._progress.evaluation(self.epochs[-1])
        self._callbacks.tell("on_evaluation", dict(self.epochs[-1]), model)

    def picture_is_due(self) -> bool:
        return bool(self._writers) and time.monotonic() - self._drawn > PICTURE_SECONDS

    def pictures(self, step: int, pngs: Mapping[str, bytes]) -> None:
        """Shows pictures of what the model makes of a sample, by their names."""
        self._drawn = time.monotonic()
        for writer in self._writers:
            writer.pictures(step, pngs)

    def _reached(self, state: TrainingState, more: str = "") -> None:
        epoch = min(state.epoch + 1, self._total)
        self._progress.reached("train", state.step, self._steps, "steps", f"epoch {epoch}/{self._total}{more}")

    def close(self, finished: bool) -> None:
        """The last call; `finished` if the run came to its end."""
        for writer in self._writers:
            writer.close(finished)


def describe(line: Epoch, measured: list[str], epochs: int) -> str:
    """An epoch as a line of text: the losses, and the metrics of the eval split (of the train split without one)."""
    losses = f"loss {line[LOSS]:.6g}"
    prefix = "" if line["eval_loss"] is None else "eval_"
    if prefix:
        losses += f"  eval loss {line['eval_loss']:.6g}"
    metrics = [prefix + name for name in measured if name != LOSS and line[prefix + name] is not None]
    values = "".join(f"  {name.replace('_', ' ')} {line[name]:.4g}" for name in metrics)
    if skipped := line.get("skipped_steps"):
        values += f"  {skipped} steps skipped"
    return (
        f"epoch {line['epoch']}/{epochs}  step {line['step']:,}  {losses}{values}  "
        f"{line['windows_per_second']:,.0f} windows/s  {line['seconds']:.1f} s"
    )


def _read(path: str) -> list[Epoch]:
    try:
        text = storage.read_text(path)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]


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
        "stopped_early": not is_over(state.epoch, state.step, 0, train),  # but for what went no better
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
    best = [0] if state.best_step == 0 else [line["epoch"] for line in epochs if line["step"] == state.best_step]
    split = "train" if epochs and epochs[-1][f"eval_{LOSS}"] is None else "eval"
    return {"best_epoch": best[-1] if best else None, "best_split": split}


def _without_loss(measured: Measured) -> dict[str, float | None]:
    return {name: value for name, value in measured.items() if name != LOSS}
