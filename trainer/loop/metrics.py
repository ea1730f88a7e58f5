"""What a training run tells of itself: metrics.jsonl, TensorBoard and the terminal. Written by the chief alone."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import keras
import tensorflow as tf
from tqdm import tqdm

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.loop.optimizer import learning_rate
from beamfeed.trainer.loop.state import TrainingState

PICTURE_SECONDS = 60.0  # between pictures of a window: drawing takes longer than a small epoch


class Epoch(TypedDict):
    """One line of metrics.jsonl."""

    epoch: int  # from 1
    step: int  # steps run since the beginning
    loss: float
    eval_loss: float | None
    learning_rate: float  # of the next step
    gradient_norm: float  # mean of the steps', before clipping
    seconds: float
    windows_per_second: float  # in training, over all workers
    waiting: float  # for input, share of the time of training, on the chief


class MetricsLog:
    """The epochs of a training run so far.

    Args:
      names: the files of the run.
      state: the restored state; later lines of an earlier run are dropped.
      is_chief: whether to write and to print.
    """

    def __init__(self, names: RunLayout, state: TrainingState, is_chief: bool):
        self._names = names
        self._is_chief = is_chief
        self.epochs: list[Epoch] = [line for line in _read(names.metrics) if line["epoch"] <= state.epoch]
        self._writer = tf.summary.create_file_writer(names.tensorboard) if is_chief else tf.summary.create_noop_writer()
        self._drawn = -PICTURE_SECONDS

    def step(
        self, before: TrainingState, after: TrainingState, batch: int, optimizer: keras.optimizers.Optimizer, bar: Any
    ) -> None:
        """Shows some steps of an epoch: on the terminal, and in TensorBoard under `steps/`."""
        if not self._is_chief:
            return
        steps, seconds = after.done - before.done, after.seconds - before.seconds
        loss, rate = (after.loss - before.loss) / steps, steps * batch / seconds
        with self._writer.as_default(step=after.step):
            tf.summary.scalar("steps/loss", loss)
            tf.summary.scalar("steps/learning_rate", learning_rate(optimizer))
            tf.summary.scalar("steps/gradient_norm", (after.norm - before.norm) / steps)
            tf.summary.scalar("steps/windows_per_second", rate)
            tf.summary.scalar("steps/waiting", (after.waited - before.waited) / seconds)
        bar.set_postfix_str(f"loss {loss:.5f}, {rate:,.0f} windows/s", refresh=False)
        bar.update(steps)

    def add(self, line: Epoch, epochs: int) -> None:
        """Adds an epoch to metrics.jsonl and TensorBoard, and prints it."""
        self.epochs.append(line)
        if not self._is_chief:
            return
        # Written whole: small, visible at once or not at all, and good for gs://
        storage.write_text(self._names.metrics, "".join(json.dumps(epoch) + "\n" for epoch in self.epochs))
        scalars = {name: value for name, value in line.items() if name not in ("epoch", "step") and value is not None}
        with self._writer.as_default(step=line["step"]):
            for name, value in scalars.items():
                tf.summary.scalar(name, value)
        self._writer.flush()
        tqdm.write(describe(line, epochs), file=sys.stderr)

    def picture_is_due(self) -> bool:
        return self._is_chief and time.monotonic() - self._drawn > PICTURE_SECONDS

    def picture(self, step: int, png: bytes) -> None:
        """Shows a picture of a window and its reconstruction in TensorBoard."""
        self._drawn = time.monotonic()
        with self._writer.as_default(step=step):
            tf.summary.image("reconstruction", tf.image.decode_png(png, channels=3)[None])
        self._writer.flush()

    @contextmanager
    def bar(self, state: TrainingState, epochs: int, steps: int) -> Iterator[Any]:
        """A progress bar of one epoch's steps on a terminal; nothing elsewhere."""
        hidden = not (self._is_chief and sys.stderr.isatty())
        title = f"epoch {state.epoch + 1}/{epochs}"
        with tqdm(
            total=steps, initial=state.done, desc=title, unit="step", leave=False, file=sys.stderr, disable=hidden
        ) as bar:
            yield bar

    def close(self) -> None:
        self._writer.close()


def describe(line: Epoch, epochs: int) -> str:
    """An epoch as a line of text."""
    evaluated = "" if line["eval_loss"] is None else f"  eval loss {line['eval_loss']:.6f}"
    return (
        f"epoch {line['epoch']}/{epochs}  step {line['step']:,}  loss {line['loss']:.6f}{evaluated}  "
        f"{line['windows_per_second']:,.0f} windows/s  {line['seconds']:.1f} s"
    )


def _read(path: str) -> list[Epoch]:
    try:
        text = storage.read_text(path)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]
