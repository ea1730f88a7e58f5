"""Entry point of `beamfeed export`: a dataset in the format of another program.

    python -m beamfeed.pipelines.export_dataset DATASET --to parquet --out DIR [options] [-- options of Beam]

Exit codes: 0 done, 1 the job failed, 2 a mistake of the user's.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import EXPORT
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.export_folder import write_once
from beamfeed.pipelines.preprocess import main_of, opened, run_program

if TYPE_CHECKING:  # it loads Beam and TensorFlow
    from beamfeed.transforms.export.base import Export


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Exports a dataset.

    Raises:
      UserError, JobFailed
    """
    manifest = read_manifest(args.dataset)
    chosen = [field.name for field in manifest.fields] if args.fields is None else args.fields.split(",")
    names = tuple(manifest.field(name.strip()).name for name in chosen)
    splits = tuple(split for split in SPLITS if split in (args.split or SPLITS) and split in manifest.splits)
    with heavy_imports():
        from beamfeed.transforms.export.base import Export
        from beamfeed.transforms.export.steps import FORMATS, describe, export_dataset
    export = Export(args.dataset, manifest, splits, args.what, names, args.to, args.out.rstrip("/") or "/")
    form = FORMATS[args.to]()
    check(export)
    form.check(export)

    def write() -> None:
        with opened(args.beam_options, ending, log) as pipeline:
            export_dataset(pipeline, export, form)

    content, things = describe(export, form), "export of the same dataset"
    description = write_once(export.out, content, write, "exporting", ending, things, force=args.force)
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


main = main_of(EXPORT, run)

if __name__ == "__main__":
    run_program(main)
