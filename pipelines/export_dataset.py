"""Entry point of `beamfeed export`: a dataset in the format of another program.

    python -m beamfeed.pipelines.export_dataset DATASET --to parquet --out DIR [options] [-- options of Beam]

Exit codes: 0 done, 1 the job failed, 2 a mistake of the user's.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import EXPORT
from beamfeed.contract.storage import lock
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.preprocess import open_pipeline, run_program

if TYPE_CHECKING:  # it loads Beam and TensorFlow
    from beamfeed.transforms.export.base import Export

EXPORTING = lock.Use("--out", "exporting to")
LOCK = "_lock.json"  # in the folder, only during an export


def choose_names(manifest: Manifest, listed: str | None) -> tuple[str, ...]:
    """The fields that are wanted.

    Raises:
      UserError: if the dataset has no such field.
    """
    if listed is None:
        return tuple(field.name for field in manifest.fields)
    names = [name.strip() for name in listed.split(",")]
    return tuple(manifest.field(name).name for name in names)


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Exports a dataset.

    Raises:
      UserError, JobFailed
    """
    manifest = read_manifest(args.dataset)
    names = choose_names(manifest, args.fields)
    splits = tuple(split for split in SPLITS if split in (args.split or SPLITS) and split in manifest.splits)
    with heavy_imports():
        from beamfeed.transforms.export.base import Export
        from beamfeed.transforms.export.steps import FORMATS
    export = Export(args.dataset, manifest, splits, args.what, names, args.to, args.out.rstrip("/") or "/")
    check(export)
    FORMATS[args.to]().check(export)
    check_folder(export)
    with lock.hold(storage.join(export.out, LOCK), ending.end, EXPORTING) as lease, ending.undoing(lease.give_back):
        description = find_export(export)
        if description is not None:
            note(f"{args.out} is complete: the same export of the same dataset. Nothing to do.")
        else:
            make_room(export, force=args.force)
            export_dataset(export, args.beam_options, ending, log)
            description = find_export(export)
    if description is None:
        raise JobFailed(f"the job ended, but {args.out} holds no export of it; can the workers write there?")
    if args.json:
        emit_event("export", path=args.out, **description)
        return
    for split, count in description["items"].items():
        note(f"{split}: {count:,} {args.what}", sys.stdout)
    note(f"{args.out}: {len(description['files']):,} files ({args.to})", sys.stdout)


def check(export: "Export") -> None:
    """Raises UserError where there is nothing that could be exported."""
    if not export.fields:
        raise UserError(f"--fields {','.join(export.names)}: rows of longer windows have no fields per window")
    in_steps = [field.name for field in export.manifest.fields if field.stored == "steps"]
    if unreadable := [name for name in in_steps if name in export.names]:
        readable = ",".join(name for name in export.names if name not in in_steps) or "NAMES of others"
        raise UserError(
            f"--fields: {unreadable[0]!r} is a feature list of SequenceExamples, which export does not read; "
            f"leave it out: --fields {readable}"
        )
    if not any(export.manifest.splits[split].windows for split in export.splits):
        raise UserError(f"--split: dataset {export.manifest.name} holds nothing in {', '.join(export.splits)}")


def find_export(export: "Export") -> dict[str, Any] | None:
    """What is told of the export, if it is there and complete."""
    from beamfeed.transforms.export.base import SUCCESS
    from beamfeed.transforms.export.steps import describe

    notes = read_description(export.out)
    same = notes is not None and notes.get("complete") and {key: notes.get(key) for key in describe(export)}
    return notes if same == describe(export) and storage.exists(storage.join(export.out, SUCCESS)) else None


def read_description(out: str) -> dict[str, Any] | None:
    """What an export at a folder says of itself; None where there is none."""
    from beamfeed.transforms.export.base import TOLD

    try:
        description = json.loads(storage.read_text(storage.join(out, TOLD)))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return description if isinstance(description, dict) and "to" in description else None


def check_folder(export: "Export") -> None:
    """Raises UserError where the folder holds what is no export."""
    out = export.out
    if not storage.is_remote(out) and os.path.exists(out) and not os.path.isdir(out):
        raise UserError(f"--out {out}: is a file, it must be a folder")
    names = [name for name in storage.list_folder(out) if name != LOCK]
    if names and read_description(out) is None:
        raise UserError(f"--out {out}: holds something else ({', '.join(names[:3])}); choose another folder")


def make_room(export: "Export", *, force: bool) -> None:
    """Empties the folder of an export that did not end, or with `force` of any; and says whose it is from now on.

    Raises:
      UserError: if it holds another export and there is no `force`.
    """
    from beamfeed.transforms.export.base import TOLD
    from beamfeed.transforms.export.steps import describe

    out, description = export.out, read_description(export.out)
    if description is not None and description.get("complete") and not force:
        another = f"{description['to']} of {description.get('name')}"
        raise UserError(f"--out {out}: holds another export ({another}); --force replaces it")
    for name in storage.list_folder(out):
        if name not in (LOCK, TOLD):
            storage.remove_tree(storage.join(out, name))
    storage.write_text(storage.join(out, TOLD), json.dumps({**describe(export), "complete": False}) + "\n")


def export_dataset(export: "Export", beam_options: Sequence[str], ending: Ending, log: FailureLog) -> None:
    """Builds the pipeline and runs it.

    Raises:
      UserError: if an option of Beam is wrong.
      JobFailed: if the job did not come to its end. Errors of workers come as the runner raises them.
    """
    with heavy_imports():
        from beamfeed.pipelines.options import check_options, read_options
        from beamfeed.pipelines.runner import choose_runner, is_local, name_runner, wait_for
        from beamfeed.transforms.export.steps import ExportDataset
    options = read_options(beam_options)
    check_options(beam_options, passes_on=name_runner(options))
    runner = choose_runner(options, "auto")
    level = logging.WARNING if is_local(options) else logging.INFO  # asked now: a runner may clear its name
    with open_pipeline(runner, options, ending) as pipeline:
        _ = pipeline | ExportDataset(export)
        with log.listening(level):
            result = pipeline.run()
            with ending.undoing(result.cancel):
                wait_for(result, options)


def main(argv: Sequence[str] | None = None, ending: Ending | None = None) -> int:
    """Exports a dataset and returns the exit code."""
    log = FailureLog()
    return EXPORT.run(lambda args: run(args, ending or Ending(), log), argv, log)


if __name__ == "__main__":
    run_program(lambda ending: main(ending=ending))
