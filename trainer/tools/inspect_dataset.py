"""`python -m beamfeed.trainer.tools.inspect_dataset DATASET [--windows 3] [--verify]`: what a dataset holds.

Exit codes: 0, 1 when `--verify` finds a difference, 2 when there is no dataset.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from beamfeed.contract import storage, streams
from beamfeed.contract.arguments import Parser, from_zero
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.imports import heavy_imports
from beamfeed.trainer.tools.table import table

CLASSES = 20  # shown of a target


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses a command line."""
    parser = Parser(
        prog="python -m beamfeed.trainer.tools.inspect_dataset",
        description="Shows what a dataset holds.",
        example="python -m beamfeed.trainer.tools.inspect_dataset out/data --windows 2",
    )
    parser.add_argument("dataset", help="folder of the dataset, local or gs://")
    parser.add_argument("--windows", type=from_zero, default=3, metavar="N", help="windows to show of each split (3)")
    parser.add_argument("--verify", action="store_true", help="read every record and compare it with the manifest")
    return parser.parse_args(argv)


def describe(manifest: Manifest) -> list[str]:
    """The manifest as lines of text."""
    counts = manifest.counts
    facts = {
        "name": manifest.name,
        "kind": manifest.kind,
        "fingerprint": manifest.fingerprint,
        "windows": "rows, one by one"
        if (manifest.windows.length, manifest.windows.stride) == (1, 1)
        else f"{manifest.windows.length} rows, every {manifest.windows.stride}",
        "records": f"{manifest.records}, compression {manifest.compression}",
        "input": f"{counts.files:,} files, {counts.assets:,} assets, {counts.rows_read:,} rows; "
        f"rejected {counts.rejected_assets:,} assets, {counts.rejected_files:,} files"
        + (f", {counts.rejected_rows:,} rows" if counts.rejected_rows else ""),
    }
    lines = [f"{name:13}{fact}" for name, fact in facts.items()]
    head = ("split", "assets", "windows", "records", "bytes", "shards")
    splits = [
        (name, info.assets, info.windows, info.records, info.bytes, len(info.shards))
        for name, info in manifest.splits.items()
    ]
    targets = [line for field in manifest.fields for line in describe_target(manifest, field)]
    return [*lines, "", *describe_fields(manifest.fields), "", *table([head, *splits]), *targets]


def describe_fields(fields: Sequence[Field]) -> list[str]:
    """The fields as a table."""
    head = ("field", "dtype", "shape", "role", "per", "names")
    rows = [
        (
            field.name,
            field.dtype,
            "[" + ", ".join("any" if size is None else str(size) for size in field.shape) + "]",
            field.role,
            field.per,
            _names(field),
        )
        for field in fields
    ]
    return table([head, *rows], left=6)


def _names(field: Field) -> str:
    """The names of its parts, with how many values each has where these are categories; or of its classes."""
    if field.sizes and len(field.sizes) == len(field.columns):
        return ", ".join(f"{name} ({size:,})" for name, size in zip(field.columns, field.sizes, strict=True))
    told = ", ".join(field.columns) or (f"{field.sizes[0]:,} words" if field.sizes else "")
    return told or (f"classes: {', '.join(field.classes)}" if field.classes else "")


def describe_target(manifest: Manifest, field: Field) -> list[str]:
    """A target, or a weight, over the windows of each split, after an empty line; nothing for other fields."""
    found = {split: info.targets[field.name] for split, info in manifest.splits.items() if field.name in info.targets}
    if not found:
        return []
    head = (field.name, *found)
    if field.classes:
        counts = [target.counts or [0] * len(field.classes) for target in found.values()]
        rows = list(zip(field.classes, *counts, strict=True))
        rest = [f"... {len(rows) - CLASSES} more classes"] if len(rows) > CLASSES else []
        return ["", *table([head, *rows[:CLASSES]]), *rest]
    values = [
        (name, *("-" if (value := getattr(target, name)) is None else f"{value:.6g}" for target in found.values()))
        for name in ("mean", "std", "min", "max")
    ]
    return ["", *table([head, *values])]


def show(manifest: Manifest, output: str, windows: int) -> None:
    """Prints the manifest, the schema and the first windows of each split."""
    from beamfeed.trainer.tools.show_record import first_records, has_single_rows, show_single_rows, show_window

    print("\n".join(describe(manifest)))
    with contextlib.suppress(FileNotFoundError):
        print("\nschema\n" + storage.read_text(manifest.data_layout(output).schema).rstrip())
    splits: list[SplitName] = [split for split, info in manifest.splits.items() if info.windows]
    for split in splits if windows > 0 else []:
        print(f"\n{split}")
        if has_single_rows(manifest):
            print("\n".join(show_single_rows(list(first_records(manifest, output, split, windows)), manifest)))
            continue
        for record in first_records(manifest, output, split, windows):
            print("\n".join(show_window(record, manifest)))


def main(argv: Sequence[str] | None = None) -> int:
    """Shows a dataset and returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    arguments = parse(argv)
    try:
        manifest = read_manifest(arguments.dataset)
        with heavy_imports():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")
        from beamfeed.trainer.tools.verify_dataset import verify

        wrong = verify(manifest, arguments.dataset) if arguments.verify else []
        show(manifest, arguments.dataset, 0 if wrong else arguments.windows)
    except Exception as error:
        return complain(error, FailureLog())
    if arguments.verify:
        shards = sum(len(info.shards) for info in manifest.splits.values())
        print("\n" + ("\n".join(wrong) or f"OK: {shards} shards are as the manifest says"))
    return 1 if wrong else 0


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
