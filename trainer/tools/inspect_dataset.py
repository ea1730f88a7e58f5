"""`python -m beamfeed.trainer.tools.inspect_dataset DATASET [options]`: what a dataset holds.

Exit codes: 0, 1 when `--verify` finds a difference, 2 when there is no dataset.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from beamfeed.contract import storage, streams
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.facts import read_stats
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.errors import visible
from beamfeed.contract.events import emit_event
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import INSPECT
from beamfeed.contract.text import table
from beamfeed.trainer.tools.field_statistics import rows_of, statistics_of
from beamfeed.trainer.tools.show_record import (
    LINES,
    Values,
    first_records,
    first_rows,
    has_single_rows,
    show_single_rows,
    show_window,
)

CLASSES = 20  # shown of a target
SAMPLE, SAMPLE_BYTES = 256, 16 << 20  # records that statistics are taken of


def describe(manifest: Manifest) -> list[str]:
    """The manifest as lines of text."""
    counts, ahead = manifest.counts, manifest.rows_ahead
    length = f"{manifest.windows.length - ahead} rows{f' and {ahead} ahead' if ahead else ''}"
    facts = {
        "name": manifest.name,
        "kind": manifest.kind,
        "fingerprint": manifest.fingerprint,
        "windows": "rows, one by one"
        if (manifest.windows.length, manifest.windows.stride) == (1, 1)
        else f"{length}, every {manifest.windows.stride}",
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
    grown = describe_growth(manifest)
    return [*lines, "", *describe_fields(manifest.fields), "", *table([head, *splits]), *targets, *grown]


def describe_growth(manifest: Manifest) -> list[str]:
    """What each run added, after an empty line; nothing where one run wrote all."""
    if len(manifest.increments) < 2:
        return []
    rows = []
    for number, increment in enumerate(manifest.increments, 1):
        far = ", ".join(f"{name} {away:+.1f} deviations" for name, away in list(increment.drift.items())[:3])
        rows.append((f"{number}", f"{increment.files:,}", f"{increment.windows:,}", far or "-"))
    hidden = [f"... {len(rows) - LINES} runs before"] if len(rows) > LINES else []
    head = (f"grown in {len(rows)} runs", "files", "windows", "means far from the first run's")
    return ["", *hidden, *table([head, *rows[-LINES:]])]


def describe_fields(fields: Sequence[Field]) -> list[str]:
    """The fields as a table."""
    head = ("field", "dtype", "shape", "role", "per", "names")
    rows = [(field.name, field.dtype, field.shape_text, field.role, field.per, _names(field)) for field in fields]
    return table([head, *rows], left=6)


def _names(field: Field) -> str:
    """The names of its parts, with how many values each has where these are categories; or of its classes."""
    if field.sizes and len(field.sizes) == len(field.columns):
        return ", ".join(f"{name} ({size:,})" for name, size in zip(field.columns, field.sizes, strict=True))
    if field.feature:
        return field.feature + (f" (classes: {', '.join(field.classes)})" if field.classes else "")
    names = ", ".join(field.columns) or (f"{field.sizes[0]:,} words" if field.sizes and field.shape else "")
    return names or (f"classes: {', '.join(field.classes)}" if field.classes else "")


def describe_target(manifest: Manifest, field: Field) -> list[str]:
    """A target, or a weight, over the windows of each split, after an empty line; nothing for other fields."""
    targets = {split: info.targets[field.name] for split, info in manifest.splits.items() if field.name in info.targets}
    if not targets:
        return []
    head = (field.name, *targets)
    if field.classes:
        counts = [target.counts or [0] * len(field.classes) for target in targets.values()]
        return ["", *first_rows([head, *zip(field.classes, *counts, strict=True)], 1 + CLASSES, "classes")]
    values = [
        (name, *("-" if (value := getattr(target, name)) is None else f"{value:.6g}" for target in targets.values()))
        for name in ("mean", "std", "min", "max")
    ]
    return ["", *table([head, *values])]


def raw_columns(stats: Mapping[str, Any], *, grown: bool = False) -> list[str]:
    """What stats.json says of the columns of the files, in their own units, as a table; nothing where it does not."""
    features = stats.get("features")
    if not isinstance(features, dict):
        return []
    columns = {name: column for name, column in features.items() if "mean" in column}
    if not columns:
        return []
    numbers = ("mean", "std", "min", "max")
    rows = [
        (name, column.get("count", 0), column.get("missing", 0), *(_number(column.get(key)) for key in numbers))
        for name, column in columns.items()
    ]
    title = "in the files, training rows" if not grown else "in the files of the first run, training rows"
    return first_rows([(title, "count", "missing", *numbers), *rows], 1 + LINES, "columns")


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, (int, float)) else "-"


def sample_of(manifest: Manifest, output: str, split: SplitName) -> list[Values]:
    """The first records of some shards: at most SAMPLE, and about SAMPLE_BYTES of them."""
    info = manifest.splits[split]
    fitting = SAMPLE_BYTES * info.records // max(1, info.bytes)
    return list(first_records(manifest, output, split, max(1, min(SAMPLE, fitting, info.records))))


def show(manifest: Manifest, output: str, windows: int, as_json: bool, picture: str | None) -> dict[str, Any]:
    """Prints the manifest, statistics and the first windows of each split; as JSON, returns what is to be printed."""
    splits: list[SplitName] = [split for split, info in manifest.splits.items() if info.windows]
    first = splits[0] if splits else None
    sample = sample_of(manifest, output, first) if first else []
    columns = statistics_of(sample, manifest.fields)
    stats = read_stats(output, manifest)
    if picture is not None and first is not None:
        from beamfeed.trainer.tools.dataset_picture import draw

        storage.write_bytes(picture, draw(manifest, first, sample))
    if as_json:
        facts = manifest.model_dump(mode="json", exclude={"splits": {"__all__": {"shards"}}})
        return {"dataset": output, **facts, "statistics": [column.to_json() for column in columns], "files": stats}
    print("\n".join(map(visible, describe(manifest))))
    if raw := raw_columns(stats, grown=len(manifest.increments) > 1):
        print("\n" + "\n".join(map(visible, raw)))
    if sample:
        print(f"\nas a model gets them, {len(sample):,} of {manifest.splits[splits[0]].records:,} records of {first}")
        print("\n".join("  " + line for line in first_rows(rows_of(columns), 1 + LINES, "columns")))
    for split in splits if windows > 0 else []:
        print(f"\n{split}")
        records = sample[:windows] if split == first else list(first_records(manifest, output, split, windows))
        if has_single_rows(manifest):
            print("\n".join(map(visible, show_single_rows(records, manifest))))
            continue
        for record in records:
            print("\n".join(map(visible, show_window(record, manifest))))
    if picture is not None:
        print(f"\n{picture}" if first else "\nno window to draw")
    return {}


def inspect(arguments: argparse.Namespace) -> int:
    """Shows a dataset and returns the exit code."""
    manifest = read_manifest(arguments.dataset)
    if arguments.verify or arguments.picture is not None:
        with heavy_imports():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")
    wrong: list[str] = []
    if arguments.verify:
        from beamfeed.trainer.tools.verify_dataset import verify

        wrong = verify(manifest, arguments.dataset)
    if wrong and not arguments.json:
        print("\n".join(map(visible, describe(manifest))))
    shown = {} if wrong else show(
        manifest, arguments.dataset, arguments.windows, arguments.json, arguments.picture
    )  # fmt: skip
    if arguments.json:
        emit_event("inspect", **shown, **({"wrong": wrong} if arguments.verify else {}))
    elif arguments.verify:
        shards = sum(len(info.shards) for info in manifest.splits.values())
        print("\n" + ("\n".join(map(visible, wrong)) or f"OK: {shards} shards are as the manifest says"))
    return 1 if wrong else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Shows a dataset and returns the exit code."""
    return INSPECT.run(inspect, argv)


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
