"""`beamfeed profile DATASET [--job JOB]`: how fast a dataset feeds a training run, and what limits.

Exit codes: 0, 2 when there is no dataset, or too small a one.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from beamfeed.contract import storage, streams
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.batches import check_split
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import tell_event
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import BATCH, PROFILE, SHUFFLE
from beamfeed.contract.verbosity import note
from beamfeed.trainer import figures
from beamfeed.trainer.feed.remote import set_reads
from beamfeed.trainer.tools.steady import STEADY
from beamfeed.trainer.tools.table import table

if TYPE_CHECKING:  # they load TensorFlow
    from beamfeed.trainer.tools.measurements import OptionRate, StageRate
    from beamfeed.trainer.tools.step_times import StepTimes

LITTLE = 0.02  # of a step: less waiting than this is none to speak of
START_SECONDS = 1.0  # until a measurement begins, about
PNG, JSON = "profile.png", "profile.json"


def check(arguments: argparse.Namespace) -> tuple[TrainingJob | None, Manifest, int, int]:
    """The job, the manifest, and the windows in a batch and in shuffling.

    Raises:
      UserError: for the first mistake that can be seen before TensorFlow is loaded.
    """
    if arguments.set and not arguments.job:
        raise UserError(f"--set {arguments.set[0]}: replaces a key of a job file, it goes with --job")
    job = load_as(TrainingJob, arguments.job, arguments.set) if arguments.job else None
    manifest = read_manifest(arguments.dataset)
    feed = job.train.feed if job else None
    batch = _first(arguments.batch, feed.batch_size if feed else None, BATCH)
    shuffle = _first(arguments.shuffle, feed.shuffle if feed else None, SHUFFLE)
    check_split(manifest, "train", batch, whole=True)
    if job:
        train = job.train.model_copy(
            update={"feed": job.train.feed.model_copy(update={"batch_size": batch, "shuffle": shuffle})}
        )
        output = job.output.model_copy(update={"path": arguments.dataset})
        job = job.model_copy(update={"train": train, "output": output})
    return job, manifest, batch, shuffle


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def profile(
    arguments: argparse.Namespace, job: TrainingJob | None, manifest: Manifest, batch: int, shuffle: int
) -> None:
    """Measures, prints the tables, and writes the files that were asked for."""
    with heavy_imports():
        import tensorflow as tf

        if job is None:
            tf.config.set_visible_devices([], "GPU")
        tf.config.list_physical_devices()  # where there is no GPU, the search for one is reported
    from beamfeed.trainer.decode import preparation_of
    from beamfeed.trainer.feed.read_errors import explained
    from beamfeed.trainer.tools.measurements import (
        OPTIONS,
        Feeding,
        first_read,
        measure_options,
        measure_stages,
    )
    from beamfeed.trainer.tools.step_times import measure_steps

    preparation = preparation_of(job.train, manifest) if job else None
    feeding = Feeding(manifest, arguments.dataset, batch, shuffle, arguments.seconds, preparation)
    say = Countdown(2 * len(OPTIONS) + len(feeding.stages) + 2 + (2 if job else 0), arguments.seconds)
    with explained(manifest, arguments.dataset):
        say("first read")
        first = first_read(feeding)
        stages = measure_stages(feeding, say)
        plain, options = measure_options(feeding, stages[-1].windows_per_second, say)
        if job:
            say("training steps")
        steps = measure_steps(job, manifest, arguments.seconds) if job else None
    found = Profile(arguments.dataset, batch, shuffle, feeding.bytes_per_window, first, stages, plain, options, steps)
    if arguments.json:
        tell_event("profile", **found.to_json())
    else:
        print("\n".join(describe(found)))
    if arguments.out:
        storage.write_text(storage.join(arguments.out, JSON), json.dumps(found.to_json(), indent=1) + "\n")
        with tf.io.gfile.GFile(storage.join(arguments.out, PNG), "wb") as file:
            file.write(draw(found))


class Countdown:
    """Says what is being measured, and how long the rest takes by what was seen so far.

    Args:
      measurements: in all.
      seconds: that one takes at least.
    """

    def __init__(self, measurements: int, seconds: float):
        self._left, self._began, self._done = measurements, time.monotonic(), 0
        least = measurements * (1.25 * seconds + START_SECONDS)
        most = measurements * (3.25 * seconds + START_SECONDS)
        _say(f"{measurements} measurements: about {least:.0f} s, up to {most:.0f} s where figures are not steady")

    def __call__(self, what: str) -> None:
        """The next ones begin: two of an option or of steps, else one."""
        spent = time.monotonic() - self._began
        left = f", about {spent / self._done * self._left:.0f} s left" if self._done else ""
        _say(what + left)
        count = 2 if what.startswith(("option", "training")) else 1
        self._done, self._left = self._done + count, max(0, self._left - count)


def _say(what: str) -> None:
    note(f"profile: {what}")


@dataclass(frozen=True)
class Profile:
    """What was measured.

    Attributes:
      first_read: windows per second of reading the shards' bytes when the page cache does not have them.
      plain: windows per second without any option.
    """

    dataset: str
    batch_size: int
    shuffle: int
    bytes_per_window: float
    first_read: float
    stages: "Sequence[StageRate]"
    plain: float
    options: "Sequence[OptionRate]"
    steps: "StepTimes | None"

    @property
    def feed(self) -> float:
        """Windows per second of the whole feed."""
        return self.stages[-1].windows_per_second

    @property
    def spread(self) -> float:
        """Of the stages' rates: how far the least steady one's rounds are apart."""
        return max(stage.spread for stage in self.stages)

    def to_json(self) -> dict:
        steps = self.steps and {**asdict(self.steps), "share_waiting": self.steps.share_waiting}
        return {**asdict(self), "steps": steps, "limit": limit(self)}


def describe(profile: Profile) -> list[str]:
    """The profile as lines of text; the last one says what limits."""
    megabytes = profile.bytes_per_window / 1e6
    head = ("up to the stage", "windows/s", "MB/s", "+ us/window", "")
    first = ("first read", round(profile.first_read), f"{profile.first_read * megabytes:,.0f}", "", "")
    stages = [
        (stage.name, round(stage.windows_per_second), f"{stage.megabytes_per_second:,.0f}",
         f"{stage.extra_microseconds:.3f}", _unsteady(stage.spread))
        for stage in profile.stages
    ]  # fmt: skip
    options = [
        (option.name, _times(option.alone, profile.plain), _times(option.flipped, profile.feed),
         "off" if option.name in ("interleave", "parallel map", "prefetch") else "on",
         option.note or _unsteady(option.spread))
        for option in profile.options
    ]  # fmt: skip
    lines = [
        f"{profile.dataset}: batches of {profile.batch_size}, shuffle {profile.shuffle:,}; MB of shards",
        "",
        *table([head, first, *stages]),
        "",
        *(line.rstrip() for line in table([("option", "alone", "flipped", "", ""), *options])),
        f"alone: times the {profile.plain:,.0f} windows/s without any; flipped: times those of the whole feed",
        "",
    ]
    if profile.steps:
        steps = profile.steps
        lines += [
            *table(
                [
                    ("step", "ms", "windows/s"),
                    ("model alone", f"{1e3 * steps.resident:.2f}", round(profile.batch_size / steps.resident)),
                    ("fed", f"{1e3 * steps.fed:.2f}", round(profile.batch_size / steps.fed)),
                    ("of it waiting", f"{1e3 * steps.waiting:.2f}", ""),
                    ("of that asking alone", f"{1e3 * steps.asking:.2f}", ""),
                ]
            ),
            "",
        ]
    return [*lines, limit(profile)]


def _unsteady(spread: float) -> str:
    return f"not steady: {spread:.0%} apart" if spread > STEADY else ""


def _times(rate: float | None, base: float) -> str:
    return "-" if rate is None else f"{rate / base:.2f}x"


def limit(profile: Profile) -> str:
    """One sentence: what limits, and by how much; or that the figures do not say it."""
    if told := noise(profile):
        return told
    slowest = max(profile.stages, key=lambda stage: stage.extra_microseconds)
    spent = 1e6 / profile.feed
    costs = f"{slowest.extra_microseconds:.2f} of {spent:.2f} us a window go to {_doing(slowest.name)}"
    if profile.first_read < 0.5 * profile.feed:
        rate = profile.first_read * profile.bytes_per_window / 1e6
        costs += f", in the first epoch storage gives {rate:,.0f} MB/s, {profile.first_read / profile.feed:.0%} of that"
    if profile.steps is None:
        return f"The feed gives {profile.feed:,.0f} windows/s; {costs}."
    steps, waiting = profile.steps, f"{profile.steps.share_waiting:.2%} of a training step is spent waiting for input"
    if steps.waiting - steps.asking < LITTLE * steps.fed:
        times = profile.feed * steps.resident / profile.batch_size
        return (
            f"The model limits: its step takes {1e3 * steps.resident:.1f} ms, the feed could give {times:,.0f} times "
            f"what that takes; {waiting}."
        )
    if profile.spread > STEADY:
        costs = f"which stage costs most is not known, as their rates did not get steady ({profile.spread:.0%} apart)"
    return f"The input limits: {costs}; {waiting}."


def noise(profile: Profile) -> str | None:
    """Why nothing can be concluded from the figures, and what to do; None where something can."""
    again = "measure again when the machine has nothing else to do, or longer (--seconds 10)"
    steps = profile.steps
    if steps and steps.fed < (1 - STEADY) * steps.resident:
        return (
            f"No conclusion: a step that waits for its batch took {1e3 * steps.fed:.2f} ms, less than the model alone "
            f"({1e3 * steps.resident:.2f} ms), which cannot be; {again}."
        )
    spread = steps.spread if steps else profile.spread
    if spread > STEADY:
        return f"No conclusion: the figures did not get steady, the same one differs by {spread:.0%}; {again}."
    return None


def _doing(stage: str) -> str:
    """The stage as a thing to do."""
    doing = {
        "read": "reading", "CRC": "records and their checksums", "parse": "parsing", "frame": "framing",
        "shuffle": "shuffling", "batch": "gathering batches", "decode": "decoding", "augment": "augmenting",
    }  # fmt: skip
    return doing.get(stage, "prefetching")


def draw(profile: Profile) -> bytes:
    """The figure as a PNG: the rate up to each stage, and what each option is worth."""
    figure = figures.figure(11, 4)
    stages, options = figure.subplots(1, 2)
    names = ["first read", *(stage.name for stage in profile.stages)]
    rates = [profile.first_read, *(stage.windows_per_second for stage in profile.stages)]
    stages.barh(names, rates, color=["0.7", *["C0"] * len(profile.stages)])
    if profile.steps:
        stages.axvline(profile.batch_size / profile.steps.resident, color="C3", label="what the model takes")
        stages.legend()
    stages.invert_yaxis()
    stages.set(title="the feed up to each stage", xlabel="windows/s", xscale="log")

    measured = [option for option in profile.options if option.alone is not None and option.flipped is not None]
    names = ["none", *(option.name for option in measured), "all, as in training"]
    alone = [profile.plain, *(option.alone or 0 for option in measured), profile.feed]
    options.barh(names, alone, color=["0.7", *["C0"] * len(measured), "C2"])
    options.invert_yaxis()
    options.set(title="one option by itself", xlabel="windows/s")
    return figures.png(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Profiles a dataset and returns the exit code."""
    set_reads(os.environ)
    return PROFILE.run(lambda arguments: profile(arguments, *check(arguments)), argv)


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
