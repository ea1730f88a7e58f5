"""Entry point of `beamfeed adopt`: describes a folder of TFRecords that others wrote, so that it can be trained on.

    python -m beamfeed.pipelines.adopt FOLDER [--target NAME ...] [--job job.yaml] [Beam options]

Exit codes: 0 done, 1 no shard can be used, 2 a mistake of the user's.
"""

import argparse
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import lock_path
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import ADOPT
from beamfeed.contract.storage import FileStat, lock
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.adopt_options import request_of
from beamfeed.pipelines.preprocess import open_pipeline, run_program

if TYPE_CHECKING:  # they load Beam
    from beamfeed.transforms.adopt.files import Candidates
    from beamfeed.transforms.adopt.request import Request
    from beamfeed.transforms.tfds.read import Described

ADOPTING = lock.Use("--out", "adopting into")


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Reads the folder and publishes what it holds.

    Raises:
      UserError, JobFailed
    """
    if args.job is not None and not args.force and storage.exists(args.job):
        raise UserError(f"--job {args.job}: is there already; --force replaces it")
    with heavy_imports():
        from apache_beam.options.pipeline_options import PipelineOptions

        from beamfeed.pipelines.options import check_options, usage_as_mistake
        from beamfeed.pipelines.runner import name_runner
        from beamfeed.transforms.adopt.report import describe_adoption, rejected
        from beamfeed.transforms.adopt.request import Request
        from beamfeed.transforms.suggest.adopted import NO_TARGET
        from beamfeed.transforms.tfds.read import Described, describe

    with usage_as_mistake():
        options = PipelineOptions(args.beam_options)
    check_options(args.beam_options, passes_on=name_runner(options))
    described = describe(os.path.expanduser(args.folder)) or Described()
    request = Request(**request_of(args, described.name))
    if args.job is not None and not (request.targets or described.has_target):
        raise UserError(NO_TARGET)
    manifest, is_new = adopt(request, described, options, ending, log)
    if not is_new:
        note(f"{request.out} is complete: the same files, and the same was asked for. Nothing to do.")
    written = None
    if args.job is not None:
        written = write_job(args.job, manifest, request.out)
    if args.json:
        details = {"rejects": rejected(manifest, request.out), "job": written}
        emit_event("adopt", dataset=request.out, manifest=manifest.model_dump(mode="json"), **details)
    elif not args.quiet:
        print("\n".join(describe_adoption(manifest, request.out)))
        print(f"next: beamfeed {'train ' + args.job if args.job else 'inspect ' + request.out}")


def adopt(
    request: "Request", described: "Described", options: Any, ending: Ending, log: FailureLog
) -> tuple[Manifest, bool]:
    """The manifest of a folder, and whether it was written now."""
    from beamfeed.contract.dataset.published import read_complete
    from beamfeed.transforms.adopt.conclude import fingerprint_of
    from beamfeed.transforms.adopt.files import list_shards
    from beamfeed.transforms.adopt.publish import find_adopted

    find_adopted(request.out)
    candidates = list_shards(request.folder)
    check_first(request, candidates.shards)
    fingerprint = fingerprint_of(request, candidates.shards, described)
    complete = read_complete(request.out, fingerprint)
    if complete is not None:
        return complete, False
    with lock.hold(lock_path(request.out), ending.end, ADOPTING) as lease, ending.undoing(lease.give_back):
        scan_all(request, candidates, described, fingerprint, options, ending, log)
    manifest = read_manifest(request.out)
    if manifest.fingerprint != fingerprint:
        raise JobFailed(f"the job ended, but {request.out} holds no manifest of it; can the workers write there?")
    return manifest, True


def check_first(request: "Request", shards: Sequence[FileStat]) -> None:
    """Refuses a name that is spelled wrong before all records are read.

    Raises:
      UserError: if the first records have no such feature, but one that is called nearly so.
    """
    from beamfeed.contract.errors import near_miss
    from beamfeed.transforms.adopt.fields import plain
    from beamfeed.transforms.adopt.scan import first_names

    names_known = first_names([stat.path for stat in shards])
    accepted = sorted({*names_known, *map(plain, names_known)})
    for option, names in request.named().items():
        for name in names:
            hint = near_miss(name, accepted)
            if name not in accepted and hint:
                raise UserError(f"{option} {name}: no such feature{hint} (there are: {', '.join(names_known[:20])})")


def scan_all(
    request: "Request", candidates: "Candidates", described: "Described", fingerprint: str, options: Any,
    ending: Ending, log: FailureLog,
) -> None:  # fmt: skip
    """Reads all shards, a shard for each unit of work, and publishes."""
    import apache_beam as beam

    from beamfeed.pipelines.runner import choose_runner, is_dataflow, wait_for
    from beamfeed.transforms.adopt.publish import Publish
    from beamfeed.transforms.adopt.scan import ScanShard

    runner = choose_runner(options, "auto")
    if is_dataflow(options):
        raise UserError("--runner: DataflowRunner: adopt runs on this machine, or on Flink or Spark")
    with open_pipeline(runner, options, ending) as pipeline:
        scans = (
            pipeline
            | "Shards" >> beam.Create(candidates.shards, reshuffle=True)
            | "Scan" >> beam.ParDo(ScanShard(request.watched))
        )
        publish = Publish(request, candidates, described, fingerprint)
        _ = pipeline | "Once" >> beam.Create([None]) | "Publish" >> beam.ParDo(publish, beam.pvalue.AsList(scans))
        with log.listening(logging.WARNING):
            result = pipeline.run()
            with ending.undoing(result.cancel):
                wait_for(result, options)


def write_job(path: str, manifest: Manifest, out: str) -> str:
    """Writes a job file that trains on the dataset; returns its path.

    Raises:
      UserError: if there is nothing to train for, or the file cannot be written.
    """
    from beamfeed.contract.dataset.inputs import is_encoded
    from beamfeed.transforms.adopt.scan import image_sizes
    from beamfeed.transforms.suggest.adopted import job_text

    folder = storage.absolute(out)
    images = [field for field in manifest.fields if field.role == "input" and is_encoded(field)]
    shards = manifest.shard_paths(out, "train")
    sizes = {field.name: image_sizes(shards, field.in_records) for field in images}
    text = job_text(manifest, out, f"{folder.rstrip('/')}-model", path, sizes)
    try:
        storage.write_text(path, text)
    except OSError as error:
        raise UserError(f"--job {path}: cannot be written: {error.strerror or error}") from None
    return path


def main(argv: Sequence[str] | None = None, ending: Ending | None = None) -> int:
    """Adopts a folder and returns the exit code."""
    log = FailureLog()
    return ADOPT.run(lambda args: run(args, ending or Ending(), log), argv, log)


if __name__ == "__main__":
    run_program(lambda ending: main(ending=ending))
