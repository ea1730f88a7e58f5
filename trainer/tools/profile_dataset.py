"""`beamfeed profile DATASET [--job JOB]`: how fast a dataset feeds a training run, and what limits.

Exit codes: 0, 2 when there is no dataset, or too small a one.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence

from beamfeed.contract import storage, streams
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.batches import check_split
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import BATCH, PROFILE, SHUFFLE
from beamfeed.contract.verbosity import note
from beamfeed.trainer.feed.remote import set_reads
from beamfeed.trainer.tools.profile_report import Profile, describe, draw

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
    batch, shuffle = (job.train.feed.batch_size, job.train.feed.shuffle) if job else (BATCH, SHUFFLE)
    batch = batch if arguments.batch is None else arguments.batch
    shuffle = shuffle if arguments.shuffle is None else arguments.shuffle
    check_split(manifest, "train", batch, full_batch=True)
    if job:
        train = job.train.model_copy(
            update={"feed": job.train.feed.model_copy(update={"batch_size": batch, "shuffle": shuffle})}
        )
        output = job.output.model_copy(update={"path": arguments.dataset})
        job = job.model_copy(update={"train": train, "output": output})
    return job, manifest, batch, shuffle


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
        measure_steps,
    )

    preparation = preparation_of(job.train, manifest) if job else None
    feeding = Feeding(manifest, arguments.dataset, batch, shuffle, arguments.seconds, preparation)
    countdown = Countdown(2 * len(OPTIONS) + len(feeding.stages) + 2 + (2 if job else 0), arguments.seconds)
    with explained(manifest, arguments.dataset):
        countdown("first read")
        first = first_read(feeding)
        stages = measure_stages(feeding, countdown)
        plain, options = measure_options(feeding, stages[-1].windows_per_second, countdown)
        if job:
            countdown("training steps")
        steps = measure_steps(job, manifest, arguments.seconds) if job else None
    result = Profile(arguments.dataset, batch, shuffle, feeding.bytes_per_window, first, stages, plain, options, steps)
    if arguments.json:
        emit_event("profile", **result.to_json())
    else:
        print("\n".join(describe(result)))
    if arguments.out:
        storage.write_text(storage.join(arguments.out, JSON), json.dumps(result.to_json(), indent=1) + "\n")
        storage.write_bytes(storage.join(arguments.out, PNG), draw(result))


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
        _announce(f"{measurements} measurements: about {least:.0f} s, up to {most:.0f} s where figures are not steady")

    def __call__(self, step: str) -> None:
        """The next ones begin: two of an option or of steps, else one."""
        spent = time.monotonic() - self._began
        remaining = f", about {spent / self._done * self._left:.0f} s left" if self._done else ""
        _announce(step + remaining)
        count = 2 if step.startswith(("option", "training")) else 1
        self._done, self._left = self._done + count, max(0, self._left - count)


def _announce(text: str) -> None:
    note(f"profile: {text}")


def main(argv: Sequence[str] | None = None) -> int:
    """Profiles a dataset and returns the exit code."""
    set_reads(os.environ)
    return PROFILE.run(lambda arguments: profile(arguments, *check(arguments)), argv)


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
