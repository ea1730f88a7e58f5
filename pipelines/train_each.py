"""Entry point of `beamfeed train-each`: one model for each group of a dataset, many of them at a time.

    python -m beamfeed.pipelines.train_each --job job.yaml [--by NAME] [--out DIR] [options] [-- options of Beam]

Exit codes: 0 done, 1 the job failed, 2 a mistake of the user's.
"""

import argparse
import sys
from contextlib import suppress
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.fingerprint import model_fingerprint
from beamfeed.contract.dataset.goals import check_task
from beamfeed.contract.dataset.initial import check_init, initial_model
from beamfeed.contract.dataset.inputs import check_inputs
from beamfeed.contract.dataset.layout import MODELS, REJECTS, RunLayout
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import Unanswered
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import TRAIN_EACH
from beamfeed.contract.text import counted
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.export_folder import write_once
from beamfeed.pipelines.preprocess import main_of, opened, run_program


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Trains.

    Raises:
      UserError, JobFailed
    """
    job = load_as(TrainingJob, args.job, args.set)
    manifest = read_manifest(job.output.path).select(job.train.feed.where)
    check_task(job.train.task, manifest)
    check_inputs(job.train.inputs, manifest)
    out = (args.out or RunLayout(job.train.workdir).each).rstrip("/") or "/"
    check_init(job.train.model_copy(update={"workdir": out}), anew=True)  # that of the whole dataset may be in workdir
    with heavy_imports():
        from beamfeed.transforms.groups.each import TrainEach
        from beamfeed.transforms.groups.places import key_field, partitions
        from beamfeed.transforms.groups.steps import train_groups
    if partitions(manifest, args.by) is None:
        key_field(manifest, args.by)
    content: dict[str, Any] = {
        "to": "models", "name": manifest.name, "by": args.by, "kept": not args.no_models,
        "dataset": manifest.fingerprint, "model": model_fingerprint(job.train, manifest.fingerprint),
    }  # fmt: skip
    if job.train.init is not None:  # its weights count, too
        content["init"] = storage.stat(initial_model(job.train.init)).mtime
    each = TrainEach(job, manifest, args.by, out, not args.no_models, content)

    def write() -> None:
        try:
            with opened(args.beam_options, ending, log) as pipeline:
                train_groups(pipeline, each)
        finally:
            with suppress(Unanswered):
                storage.remove_tree(each.layout.unpacked)

    description = write_once(out, content, write, "training", ending, "models", force=args.force, resumed=MODELS)
    if args.json:
        emit_event("train-each", path=out, **description)
        return
    trained = counted(description["items"]["groups"], "model")
    note(f"{trained} trained, a row for each in {each.layout.results}", sys.stdout)
    if rejected := description["counts"]["rejected_groups"]:
        note(f"set aside: {counted(rejected, 'group')}, see {storage.join(out, REJECTS)}", sys.stdout)


main = main_of(TRAIN_EACH, run)

if __name__ == "__main__":
    run_program(main)
