"""What a training tells of itself: metrics.jsonl, TensorBoard and the terminal. Written by the chief alone."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import tensorflow as tf
from tqdm import tqdm

from contract import storage
from contract.layout import RunLayout


class Epoch(TypedDict):
    """One line of metrics.jsonl."""

    epoch: int  # from 1
    step: int  # steps run since the beginning
    loss: float
    eval_loss: float | None
    seconds: float
    windows_per_second: float  # in training, over all workers


class History:
    """The epochs of a training so far.

    Args:
      names: the files of the run.
      epoch: epochs that the restored state has run; later lines of an earlier run are dropped.
      is_chief: whether to write and to print.
    """

    def __init__(self, names: RunLayout, epoch: int, is_chief: bool):
        self._names = names
        self._is_chief = is_chief
        self.epochs: list[Epoch] = [line for line in _read(names.metrics) if line["epoch"] <= epoch]
        self._writer = tf.summary.create_file_writer(names.tensorboard) if is_chief else tf.summary.create_noop_writer()

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

    @contextmanager
    def bar(self, epoch: int, epochs: int, steps: int) -> Iterator[Any]:
        """A progress bar of one epoch's steps on a terminal; nothing elsewhere."""
        hidden = not (self._is_chief and sys.stderr.isatty())
        with tqdm(
            total=steps, desc=f"epoch {epoch}/{epochs}", unit="step", leave=False, file=sys.stderr, disable=hidden
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
