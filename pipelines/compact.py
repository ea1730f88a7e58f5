"""Entry point of `beamfeed compact`: merges the small shards of a dataset that has grown.

    python -m beamfeed.pipelines.compact --job job.yaml [--set key=value] [-- options of Beam]

Exit codes: 0 done, 1 the job failed, 2 a mistake of the user's.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.growth import find_grown
from beamfeed.contract.dataset.layout import DataLayout, lock_path
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import COMPACT
from beamfeed.contract.storage import lock
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.preprocess import main_of, opened, run_program

COMPACTING = lock.Use("output.path", "compacting")


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Compacts the dataset of a job.

    Raises:
      UserError, JobFailed
    """
    job = load_job(args.job, args.set)
    output = job.output.path
    check_grown(job)
    with lock.hold(lock_path(output), ending, COMPACTING):
        before = check_grown(job)
        lines = compact(job, before, args.beam_options, ending, log)
    after = read_manifest(output)
    if args.json:
        counts = {name: len(info.shards) for name, info in after.splits.items()}
        gone = sum(info.windows - after.splits[name].windows for name, info in before.splits.items())
        emit_event("compact", path=output, shards=counts, windows_removed=gone)
        return
    for line in lines or [f"{output}: no shards to merge, and none too old. Nothing to do."]:
        note(line, sys.stdout)


def check_grown(job: Job) -> Manifest:
    """The dataset of a job, if it grows.

    Raises:
      UserError: if it does not, or is not there.
    """
    manifest = read_manifest(job.output.path)
    if not job.output.grow:
        raise UserError("output.grow: compact merges the shards of a dataset that grows, and it is not set")
    if find_grown(job) is None:
        path = job.output.path
        raise UserError(f"output.path: {path} is not a dataset of this job as it is now; preprocess it first")
    return manifest


def compact(job: Job, manifest: Manifest, beam_options: Sequence[str], ending: Ending, log: FailureLog) -> list[str]:
    """Compacts the dataset; gives what was done, a line each.

    Raises:
      UserError, JobFailed
    """
    with heavy_imports():
        from beamfeed.transforms.compact import Compaction, compact_shards, describe
        from beamfeed.transforms.sources.descriptors import CannotGoOn

    try:
        compaction = Compaction.of(job, manifest)
    except (CannotGoOn, FileNotFoundError) as error:
        raise UserError(f"output.path: {error}; prepare all again with beamfeed preprocess --refit") from None
    if copies := compaction.copies(manifest):
        with _tidied(compaction.layout), opened(beam_options, ending, log) as pipeline:
            compact_shards(pipeline, compaction, copies)
    return describe(manifest, read_manifest(job.output.path), compaction)


@contextmanager
def _tidied(layout: DataLayout) -> Iterator[None]:
    """Leaves no files that no manifest names, also where it fails."""
    storage.remove_tree(layout.root)
    try:
        yield
    finally:
        with suppress(Exception):  # it is the job's failure that is told
            storage.remove_tree(layout.temporary)
            if read_manifest(layout.output).data != layout.folder:
                storage.remove_tree(layout.root)


main = main_of(COMPACT, run)

if __name__ == "__main__":
    run_program(main)
