"""`python -m beamfeed.trainer.tools.inspect_dataset DATASET [--windows 3] [--verify]`: what a dataset holds.

Exit codes: 0, 1 when `--verify` finds a difference, 2 when there is no dataset.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest, Shard, read_manifest
from beamfeed.contract.dataset.verify import ShardFacts, differences, measure_shard
from beamfeed.contract.errors import UserError
from beamfeed.contract.imports import heavy_imports

ROWS, COLUMNS = 4, 8  # shown of a window


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses a command line."""
    parser = argparse.ArgumentParser(prog="beamfeed inspect", description="Shows a dataset.")
    parser.add_argument("dataset", help="folder of the dataset, local or gs://")
    parser.add_argument("--windows", type=int, default=3, metavar="N", help="windows to show of each split (3)")
    parser.add_argument("--verify", action="store_true", help="read every shard and compare it with the manifest")
    return parser.parse_args(argv)


def table(rows: Sequence[Sequence[object]]) -> list[str]:
    """Aligned columns: the first to the left, numbers to the right."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def describe(manifest: Manifest) -> list[str]:
    """The manifest as lines of text."""
    counts = manifest.counts
    facts = {
        "name": manifest.name,
        "kind": manifest.kind,
        "fingerprint": manifest.fingerprint,
        "windows": f"{manifest.windows.length} rows, every {manifest.windows.stride}",
        "records": f"{manifest.records}, compression {manifest.compression}",
        "features": f"{len(manifest.features)}: {', '.join(manifest.features)}",
        "input": f"{counts.files:,} files, {counts.assets:,} assets, {counts.rows_read:,} rows; "
        f"rejected {counts.rejected_assets:,} assets, {counts.rejected_files:,} files",
    }
    lines = [f"{name:13}{fact}" for name, fact in facts.items()]
    head = ("split", "assets", "windows", "records", "bytes", "shards")
    splits = [
        (name, info.assets, info.windows, info.records, info.bytes, len(info.shards))
        for name, info in manifest.splits.items()
    ]
    return [*lines, "", *table([head, *splits])]


def show_window(record: dict[str, Any], manifest: Manifest) -> list[str]:
    """The first window of a decoded record as lines of text."""
    values = record["values"][: manifest.windows.length]
    shown = manifest.features[:COLUMNS]
    head = ["row", *shown]
    body = [[str(record["start"] + i), *(f"{x:.4f}" for x in row[:COLUMNS])] for i, row in enumerate(values[:ROWS])]
    hidden = f" and {len(manifest.features) - COLUMNS} more features" if len(manifest.features) > COLUMNS else ""
    rest = [f"  ... {len(values) - ROWS} more rows{hidden}"] if len(values) > ROWS or hidden else []
    title = f"asset {record['asset']}, rows {record['start']} to {record['start'] + len(values) - 1}"
    return [title, *("  " + line for line in table([head, *body])), *rest]


def decode(serialized: bytes, features: int) -> dict[str, Any]:
    """A record: asset, start, first_time, last_time, and values float32 `[rows, features]`.

    Raises:
      ValueError: if it is not a record of this format.
    """
    import numpy as np
    import tensorflow as tf

    try:
        feature = tf.train.Example.FromString(serialized).features.feature
        return {
            "asset": feature["asset"].bytes_list.value[0].decode(),
            **{name: feature[name].int64_list.value[0] for name in ("start", "first_time", "last_time")},
            "values": np.array(feature["values"].float_list.value, np.float32).reshape(-1, features),
        }
    except Exception as error:  # protobuf's DecodeError has no public home
        raise ValueError(f"not a record of this format: {type(error).__name__}") from None


def read_records(path: str, manifest: Manifest) -> Iterator[dict[str, Any]]:
    """The decoded records of one shard.

    Raises:
      UserError: if the shard is missing or damaged, when the reading comes to it.
    """
    for i, serialized in enumerate(_read(path, manifest)):
        try:
            yield decode(serialized.numpy(), len(manifest.features))
        except ValueError as error:
            raise UserError(f"{path}: record {i}: {error}") from None


def read_row_counts(path: str, manifest: Manifest) -> Iterator[Any]:
    """How many rows the records of a shard have, int64 `[<= 64]` at a time. Raises as `read_records` does."""
    from beamfeed.trainer.feed.windowing import parse

    features = len(manifest.features)
    for counts in _read(path, manifest, lambda data: data.batch(64).map(lambda some: parse(some, features)[1])):
        yield counts.numpy()


def _read(path: str, manifest: Manifest, then: Callable[[Any], Any] = lambda data: data) -> Iterator[Any]:
    import tensorflow as tf

    records = tf.data.TFRecordDataset(path, "GZIP" if manifest.compression == "gzip" else "")
    try:
        yield from then(records)
    except tf.errors.NotFoundError:
        raise UserError(f"{path}: is missing") from None
    except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
        raise UserError(f"{path}: is damaged") from None


def verify_shard(path: str, shard: Shard, manifest: Manifest) -> list[str]:
    """How a shard differs from what the manifest says of it, a line each; none if it does not."""
    import tensorflow as tf

    damage: list[str] = []

    def row_counts() -> Iterator[Any]:
        try:
            yield from read_row_counts(path, manifest)
        except UserError as error:
            damage.append(str(error))

    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            facts = measure_shard(file, row_counts(), manifest.windows)
    except tf.errors.NotFoundError:
        return [f"{path}: is missing"]
    told = shard.model_dump(include={field.name for field in fields(ShardFacts)})
    return damage + [f"{path}: {difference}" for difference in differences(facts, told)]


def verify(manifest: Manifest, output: str) -> list[str]:
    """Reads every shard; returns how the dataset differs from its manifest, a line each."""
    lines = []
    for split, info in manifest.splits.items():
        for path, shard in zip(manifest.shard_paths(output, split), info.shards, strict=True):
            lines += verify_shard(path, shard, manifest)
        for name in ("records", "windows", "bytes"):
            total = sum(getattr(shard, name) for shard in info.shards)
            if total != getattr(info, name):
                lines.append(f"manifest: {split}: {name} {getattr(info, name)}, its shards add up to {total}")
    return lines


def show(manifest: Manifest, output: str, windows: int) -> None:
    """Prints the manifest, the schema and the first windows of each split."""
    print("\n".join(describe(manifest)))
    with contextlib.suppress(FileNotFoundError):
        print("\nschema\n" + storage.read_text(manifest.data_layout(output).schema).rstrip())
    splits: list[SplitName] = [split for split, info in manifest.splits.items() if info.windows]
    for split in splits if windows > 0 else []:
        print(f"\n{split}")
        for record in _first_records(manifest, output, split, windows):
            print("\n".join(show_window(record, manifest)))


def _first_records(manifest: Manifest, output: str, split: SplitName, count: int) -> Iterator[dict[str, Any]]:
    """The first records of a split: of different shards, as long as there are enough."""
    paths = manifest.shard_paths(output, split)
    readers = [read_records(path, manifest) for path in paths[:count]]
    while readers and count:
        reader = readers.pop(0)
        record = next(reader, None)
        if record is not None:
            yield record
            readers.append(reader)
            count -= 1


def main(argv: Sequence[str] | None = None) -> int:
    """Shows a dataset and returns the exit code."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    arguments = parse(argv)
    try:
        manifest = read_manifest(arguments.dataset)
        with heavy_imports():
            import tensorflow as tf

            tf.config.set_visible_devices([], "GPU")
        wrong = verify(manifest, arguments.dataset) if arguments.verify else []
        show(manifest, arguments.dataset, 0 if wrong else arguments.windows)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.verify:
        shards = sum(len(info.shards) for info in manifest.splits.values())
        print("\n" + ("\n".join(wrong) or f"OK: {shards} shards are as the manifest says"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
