"""`beamfeed train JOB --find-lr`: the loss at learning rates from very low to too high, and one to begin with.

The range test of L. N. Smith, Cyclical Learning Rates for Training Neural Networks (2017): a step at each rate, from
the initial weights on, the rate growing by the same factor from step to step, until the loss leaves what it was. The
loss is smoothed as moving averages of Adam are: exponentially, and corrected for where it began.
"""

import argparse
import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from beamfeed.contract import storage, streams
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.ending import leave
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import FIND_RATE, LEAST_RATES
from beamfeed.contract.text import table
from beamfeed.trainer import figures
from beamfeed.trainer.feed.remote import set_reads
from beamfeed.trainer.loop.start import open_dataset

LOWEST, HIGHEST = 1e-6, 10.0
KEEPS = 0.9  # of the smoothed loss, from step to step
TOO_HIGH = 4.0  # times as far above the lowest loss as the first one
SHOWN = 16  # lines of the table


def rates_of(steps: int, lowest: float = LOWEST, highest: float = HIGHEST) -> list[float]:
    """So many rates, each larger than the one before by the same factor."""
    return [lowest * (highest / lowest) ** (number / (steps - 1)) for number in range(steps)]


def smooth(losses: Sequence[float]) -> list[float]:
    """The exponential moving average, divided by the sum of its shares."""
    smoothed, average = [], 0.0
    for number, loss in enumerate(losses, start=1):
        average = KEEPS * average + (1 - KEEPS) * loss
        smoothed.append(average / (1 - KEEPS**number))
    return smoothed


def steepest(rates: Sequence[float], losses: Sequence[float]) -> float | None:
    """The rate at which the smoothed loss falls fastest, over the logarithm of the rate; None where it never falls.

    By straight lines through five rates each, so that a step of one batch does not decide.
    """
    best, chosen = 0.0, None
    lowest = min(range(len(losses)), key=losses.__getitem__)
    for middle in range(2, min(lowest + 1, len(losses) - 2)):
        slope = sum((place - 2) * losses[middle - 2 + place] for place in range(5)) / 10
        if slope < best:
            best, chosen = slope, rates[middle]
    return chosen


def try_rates(
    job: TrainingJob, manifest: Manifest, steps: int, iterators: list[Any] | None = None
) -> tuple[list[float], list[float]]:
    """Trains the job's model for so many steps or fewer, each at a higher rate, and keeps nothing.

    Args:
      job: without a schedule of the rate.
      manifest: of its dataset.
      steps: at most.
      iterators: see `beamfeed.trainer.feed.distributed.Feed`.

    Returns:
      The rates, and the smoothed loss after the step before each.
    """
    import keras

    from beamfeed.trainer.tasks.objective import LOSS
    from beamfeed.trainer.tools.job_steps import make_job_steps

    trained = make_job_steps(job, manifest, iterators)
    inner = getattr(trained.optimizer, "inner_optimizer", trained.optimizer)
    assert isinstance(inner, keras.optimizers.Optimizer)
    rates, losses = [], []
    for rate in rates_of(steps):
        inner.learning_rate = rate
        loss = float(trained.run(trained.batches, 1)[LOSS])  # that of the weights before the step
        if not math.isfinite(loss):
            break
        rates.append(rate)
        losses.append(loss)
        # The first steps are of one batch each: their losses may be anywhere.
        if len(rates) > LEAST_RATES and is_too_high(smooth(losses)):
            break
    return rates, smooth(losses)


def is_too_high(losses: Sequence[float]) -> bool:
    """Whether the last loss is far above where it began, by what was gained in between."""
    lowest = min(losses)
    return losses[-1] - lowest > TOO_HIGH * max(losses[0] - lowest, 0.25 * abs(losses[0]))


def draw(job: TrainingJob, rates: Sequence[float], losses: Sequence[float], chosen: float | None) -> bytes:
    """A PNG of the loss over the rates."""
    figure = figures.figure(7, 4)
    axes = figure.subplots()
    axes.plot(rates, losses, marker=".")
    if chosen is not None:
        axes.axvline(chosen, color="C3", label=f"falls fastest: {chosen:.1e}")
    axes.axvline(job.train.optimizer.learning_rate, color="gray", linestyle="--", label="the job's")
    axes.set(title=job.name, xlabel="learning rate", ylabel="loss, smoothed", xscale="log")
    low, high = min(losses), max(losses)
    axes.set_ylim(top=min(high, losses[0] + (losses[0] - low) or high) + 0.05 * (high - low or 1))
    axes.legend()
    return figures.png(figure)


class Tried(NamedTuple):
    """What was tried: the rates, the smoothed loss before each, and where it falls fastest; None if nowhere."""

    rates: list[float]
    losses: list[float]
    chosen: float | None


def find_rate(job: TrainingJob, manifest: Manifest, steps: int, iterators: list[Any] | None = None) -> Tried:
    """Tries rates and draws `<workdir>/learning_rate.png`.

    Raises:
      UserError: if the loss is not finite at the lowest rate.
    """
    rates, losses = try_rates(job, manifest, steps, iterators)
    if not rates:
        raise UserError(f"the loss is not finite at a learning rate of {LOWEST:g}; look for extreme values in the data")
    chosen = steepest(rates, losses)
    storage.write_bytes(RunLayout(job.train.workdir).rates, draw(job, rates, losses, chosen))
    return Tried(rates, losses, chosen)


def describe(job: TrainingJob, tried: Tried) -> list[str]:
    """What to print of it."""
    rates, losses, chosen = tried
    every = max(1, len(rates) // SHOWN)
    shown = list(zip(rates, losses, strict=True))[::every]
    rows = [("learning rate", "loss"), *((f"{rate:.1e}", f"{loss:.5g}") for rate, loss in shown)]
    lines = [f"  {line}" for line in table(rows, left=0)]
    has = f"the job has {job.train.optimizer.learning_rate:g}"
    if chosen is None:
        lines.append(f"the loss falls at none of them ({has}); is there something to learn?")
    else:
        lines.append(f"the loss falls fastest at {chosen:.1e}: try train.optimizer.learning_rate={chosen:.0e} ({has})")
    return [*lines, RunLayout(job.train.workdir).rates]


def run(arguments: argparse.Namespace, iterators: list[Any] | None = None) -> None:
    """Tries the rates and prints them.

    Raises:
      UserError: if the job or its dataset is wrong, or the loss is not finite at the lowest rate.
    """
    set_reads(os.environ)
    job = load_as(TrainingJob, arguments.job, [*arguments.set, "train.optimizer.schedule=null"])
    job, manifest = open_dataset(job)
    with heavy_imports():
        import tensorflow as tf

        tf.config.list_physical_devices()  # where there is no GPU, the search for one is reported
    from beamfeed.trainer.feed.read_errors import explained

    with explained(manifest, job.output.path):
        tried = find_rate(job, manifest, arguments.steps, iterators)
    if arguments.json:
        emit_event("learning_rate", **tried._asdict(), picture=RunLayout(job.train.workdir).rates)
    else:
        print("\n".join(describe(job, tried)))


def main(argv: Sequence[str] | None = None, iterators: list[Any] | None = None) -> int:
    """Returns the exit code."""
    return FIND_RATE.run(lambda arguments: run(arguments, iterators), argv)


if __name__ == "__main__":
    streams.take_over()
    iterators: list[Any] = []  # lives as long as the process
    leave(streams.flushed(main(iterators=iterators)))
