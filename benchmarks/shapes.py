"""What the shape of the files costs: row groups, width, files that mix assets, splits by time. Ours alone.

    python benchmarks/shapes.py [--size small] [--repeats 3] [--before 498a9b1] [--out shapes.json]

Each family holds the same values in other shapes, and says what each takes against the first. With a commit
`--before`, that tree runs on the same files too, one right after the other, on the same interpreter and libraries.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from alternatives import job
from measure import CommandFailed, Measured, median
from trees import checkout, preprocess
from turns import ROOT, write_json

# Values in all files together. A unit of work holds 16 million: with less, no row group is cut.
SIZES = {"tiny": 200_000, "small": 64_000_000, "large": 256_000_000}
GROUPED_FEATURES = 100
MIXED_FEATURES = 8
MIXED_PART = 4  # files that mix assets hold a quarter of the values: the tree before reads them once for each asset


@dataclass(frozen=True)
class Shape:
    """Files that hold some values.

    Attributes:
      family: what is compared.
      name: of the shape.
      make: writes so many values into a folder.
      changes: to sections of the job.
    """

    family: str
    name: str
    make: Callable[[Path, int], None]
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)


def write(path: Path, rows: int, columns: int, group: int, seed: int) -> None:
    """A file of noise; rows are a second apart."""
    names = [f"sensor_{i}" for i in range(columns)]
    schema = pa.schema([("timestamp", pa.timestamp("ms")), *((name, pa.float32()) for name in names)])
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, group):
            count = min(group, rows - first)
            time = pa.array(1000 * np.arange(first, first + count), pa.timestamp("ms"))
            values = [pa.array(rng.standard_normal(count, np.float32)) for _ in names]
            writer.write_table(pa.table([time, *values], schema), row_group_size=group)


def in_groups(rows: int) -> Callable[[Path, int], None]:
    """A file of 100 columns in row groups of so many rows."""

    def make(folder: Path, values: int) -> None:
        write(folder / "m.parquet", values // GROUPED_FEATURES, GROUPED_FEATURES, rows, 0)

    return make


def wide(columns: int) -> Callable[[Path, int], None]:
    """Four files of so many columns, in row groups as writers make them."""

    def make(folder: Path, values: int) -> None:
        for i in range(4):
            write(folder / f"m{i}.parquet", max(values // (4 * columns), 100), columns, 1 << 20, i)

    return make


def mixed(assets: int) -> Callable[[Path, int], None]:
    """One file with the rows of so many assets in order of time."""

    def make(folder: Path, values: int) -> None:
        rows = values // MIXED_FEATURES // MIXED_PART
        rng = np.random.default_rng(0)
        names = [f"m{i:03d}" for i in range(assets)]
        columns: dict[str, Any] = {
            "timestamp": pa.array(1000 * (np.arange(rows) // assets), pa.timestamp("ms")),
            "asset": pa.DictionaryArray.from_arrays(np.arange(rows, dtype=np.int32) % assets, names).cast(pa.string()),
        }
        columns |= {f"sensor_{i}": rng.standard_normal(rows, np.float32) for i in range(MIXED_FEATURES)}
        pq.write_table(pa.table(columns), folder / "all.parquet", row_group_size=1 << 17)

    return make


def many(folder: Path, values: int) -> None:
    """200 files of 8 columns."""
    for i in range(200):
        write(folder / f"m{i:03d}.parquet", max(values // 1600, 200), 8, 1 << 20, i)


BY_COLUMN = {"source": {"asset": {"column": "asset"}}}
BY_TIME = {"split": {"by": "time", "train": 0.8, "eval": 0.1, "test": 0.1}}
SHAPES = (
    Shape("row groups", "of 131,072 rows", in_groups(1 << 17)),
    Shape("row groups", "of 1,048,576 rows, as pyarrow's default", in_groups(1 << 20)),
    Shape("row groups", "of 8,192 rows", in_groups(1 << 13)),
    Shape("width", "16 columns", wide(16)),
    Shape("width", "1,000 columns", wide(1000)),
    Shape("width", "10,000 columns", wide(10_000)),
    Shape("assets in one file", "50", mixed(50), BY_COLUMN),
    Shape("assets in one file", "800", mixed(800), BY_COLUMN),
    Shape("200 assets", "split by asset", many),
    Shape("200 assets", "split by time", many, BY_TIME),
)


def run(tree: Path, files: Path, shape: Shape, scratch: Path) -> Measured:
    """Preprocesses with the code of a tree.

    Raises:
      CommandFailed: if it fails.
    """
    job_ = job(files, scratch / "output", scratch / "model", os.cpu_count() or 1)
    for section, keys in shape.changes.items():
        job_[section] = {**job_[section], **keys}
    return preprocess(tree, job_, scratch)


def compare(
    values: int, repeats: int, before: str | None, say: Callable[[str], None] = print, family: str | None = None
) -> list[dict]:
    """Medians of each shape, or of one family; `seconds` and `peak_rss_mb` by tree: `now`, and `before` if it ran."""
    entries = []
    with (
        tempfile.TemporaryDirectory(prefix="beamfeed-shapes-") as folder,
        checkout(before, Path(folder, "before")) if before else nullcontext() as old,
    ):
        trees = {"now": ROOT, **({"before": old} if old else {})}
        for shape in (shape for shape in SHAPES if family in (None, shape.family)):
            scratch = Path(folder)
            files = scratch / "fleet"
            shutil.rmtree(files, ignore_errors=True)
            files.mkdir()
            # In a process of its own: this one stays small, as its memory would show in its children's.
            make = [sys.executable, str(Path(__file__).resolve()), "--make", str(SHAPES.index(shape)), str(files)]
            subprocess.run([*make, "--values", str(values)], check=True)
            runs: dict[str, list[Measured]] = {name: [] for name in trees}
            entry: dict[str, Any] = {"family": shape.family, "shape": shape.name, "failed": {}}
            for number in range(repeats):
                for name in sorted(trees, reverse=bool(number % 2)):
                    try:
                        runs[name].append(run(trees[name], files, shape, scratch))
                    except CommandFailed as error:
                        entry["failed"][name] = str(error)
            medians = {name: median(measurements) for name, measurements in runs.items() if measurements}
            entry["seconds"] = {name: measured.seconds for name, measured in medians.items()}
            entry["peak_rss_mb"] = {name: measured.peak_rss_mb for name, measured in medians.items()}
            entries.append(entry)
            say(f"  {shape.family}, {shape.name}: {describe(entry)}")
    return entries


def describe(entry: dict) -> str:
    """The figures of a shape in a line."""
    trees = [f"{name} {entry['seconds'][name]:.1f} s, {entry['peak_rss_mb'][name]:.0f} MB" for name in entry["seconds"]]
    return "; ".join([*trees, *(f"{name} failed: {why[-200:]}" for name, why in entry["failed"].items())])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--before", help="a commit to run beside this tree")
    parser.add_argument("--family", choices=sorted({shape.family for shape in SHAPES}), help="these shapes alone")
    parser.add_argument("--out", type=Path, help="a file for the figures, JSON")
    parser.add_argument("--make", nargs=2, metavar=("SHAPE", "FOLDER"), help="only make the files of one shape")
    parser.add_argument("--values", type=int, default=SIZES["small"], help="of the files that --make makes")
    args = parser.parse_args(argv)
    if args.make:
        SHAPES[int(args.make[0])].make(Path(args.make[1]), args.values)
        return
    entries = compare(SIZES[args.size], args.repeats, args.before, family=args.family)
    write_json(entries, args.out)


if __name__ == "__main__":
    main()
