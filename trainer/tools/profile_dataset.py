"""`beamfeed profile DATASET [--job JOB]`: how fast a data set feeds a training, and what limits.

Exit codes: 0, 2 when there is no data set, or too small a one.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.imports import heavy_imports
from beamfeed.trainer.cluster.environment import set_reads
from beamfeed.trainer.feed.sharding import check_split

BATCH, SHUFFLE, SECONDS = 256, 10_000, 2.0
PNG, JSON = "profile.png", "profile.json"


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="beamfeed profile",
        description="Measures how fast a prepared data set feeds a training.",
    )
    parser.add_argument("dataset", help="folder of the data set, local or gs://")
    parser.add_argument("--job", help="job file; its model's training step is measured too")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replaces a key of the job")
    parser.add_argument("--batch", type=_number, metavar="N", help=f"windows in a batch (the job's, or {BATCH})")
    parser.add_argument("--shuffle", type=_number, metavar="N", help=f"windows mixed (the job's, or {SHUFFLE})")
    parser.add_argument(
        "--seconds", type=_seconds, default=SECONDS, metavar="S", help=f"of each of about 22 measurements ({SECONDS:g})"
    )
    parser.add_argument("--out", metavar="DIR", help=f"folder to write {PNG} and {JSON} to")
    return parser.parse_args(argv)


def _number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is below zero")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < 3600:
        raise argparse.ArgumentTypeError(f"{text} is not above zero and below an hour")
    return number


def check(arguments: argparse.Namespace) -> tuple[Job | None, Manifest, int, int]:
    """The job, the manifest, and the windows in a batch and in shuffling.

    Raises:
      UserError: for the first mistake that can be seen before TensorFlow is loaded.
    """
    if arguments.set and not arguments.job:
        raise UserError("--set replaces keys of a job file, it goes with --job")
    job = load_job(arguments.job, arguments.set) if arguments.job else None
    manifest = read_manifest(arguments.dataset)
    if manifest is None:
        raise UserError(f"{arguments.dataset}: there is no prepared data set (no manifest.json)")
    feed = job.train.feed if job else None
    batch = _first(arguments.batch, feed.batch if feed else None, BATCH)
    shuffle = _first(arguments.shuffle, feed.shuffle if feed else None, SHUFFLE)
    if batch < 1:
        raise UserError(f"--batch {batch}: a batch holds at least one window")
    check_split(manifest, "train", batch, whole=True)
    if job:
        train = job.train.model_copy(
            update={"feed": job.train.feed.model_copy(update={"batch": batch, "shuffle": shuffle})}
        )
        output = job.output.model_copy(update={"path": arguments.dataset})
        job = job.model_copy(update={"train": train, "output": output})
    return job, manifest, batch, shuffle


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def profile(arguments: argparse.Namespace, job: Job | None, manifest: Manifest, batch: int, shuffle: int) -> None:
    """Measures, prints the tables, and writes the files that were asked for."""
    with heavy_imports():
        import tensorflow as tf

        if job is None:
            tf.config.set_visible_devices([], "GPU")
        tf.config.list_physical_devices()  # where there is no GPU, the search for one is reported
    from beamfeed.trainer.feed.read_errors import explained
    from beamfeed.trainer.tools.profile_report import Profile, describe, draw
    from beamfeed.trainer.tools.profile_stages import Feeding, first_read, measure_options, measure_stages
    from beamfeed.trainer.tools.profile_steps import measure_steps

    feeding = Feeding(manifest, arguments.dataset, batch, shuffle, arguments.seconds)
    with explained(manifest, arguments.dataset):
        _say("first read")
        first = first_read(feeding)
        stages = measure_stages(feeding, _say)
        plain, options = measure_options(feeding, stages[-1].windows_per_second, _say)
        if job:
            _say("training steps")
        steps = measure_steps(job, manifest, arguments.seconds) if job else None
    found = Profile(arguments.dataset, batch, shuffle, feeding.bytes_per_window, first, stages, plain, options, steps)
    print("\n".join(describe(found)))
    if arguments.out:
        storage.write_text(storage.join(arguments.out, JSON), json.dumps(found.to_json(), indent=1) + "\n")
        with tf.io.gfile.GFile(storage.join(arguments.out, PNG), "wb") as file:
            file.write(draw(found))


def _say(what: str) -> None:
    print(f"profile: {what}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    set_reads(os.environ)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    arguments = parse(argv)
    try:
        profile(arguments, *check(arguments))
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
