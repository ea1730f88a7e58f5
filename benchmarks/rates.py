"""Bytes of files that one core preprocesses in a second, by kind: the figures of launcher/estimate.py.

    python benchmarks/rates.py

Of each kind, a few files and many are preprocessed; what the others cost more is the rate, start-up left out.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from images_prepare import make_images

FEW, MANY = 2, 10  # files of series and tables
ROWS = 400_000
SERIES = """
source: {{kind: timeseries, files: "{files}", time: {{column: t, unit: s}}, features: ["x*"], asset: {{from: path}}}}
windows: {{length: 64, stride: 16}}
split: {{by: asset, train: 1, eval: 0, test: 0}}
"""
JOBS = {
    "parquet": SERIES,
    "csv": SERIES,
    "json": 'source: {{kind: table, files: "{files}"}}\nfeatures: {{t: numeric, x0: numeric, x1: numeric}}\n',
    "image": 'source: {{kind: image, files: "{files}"}}\nlabel: {{column: folder, classes: auto}}\n',
}


def table(seed: int) -> pa.Table:
    """A time and eight sensors, as float32."""
    rng = np.random.default_rng(seed)
    values = {f"x{i}": rng.normal(size=ROWS).cumsum().round(3).astype("f4") for i in range(8)}
    return pa.table({"t": np.arange(ROWS), **values})


def write_parquet(folder: Path, count: int) -> None:
    for i in range(count):
        pq.write_table(table(i), folder / f"m{i}.parquet")


def write_csv(folder: Path, count: int) -> None:
    for i in range(count):
        pyarrow.csv.write_csv(table(i), folder / f"m{i}.csv")


def write_json(folder: Path, count: int) -> None:
    for i in range(count):
        with open(folder / f"m{i}.jsonl", "w") as file:
            for t, a, b in zip(*(column.to_pylist() for column in table(i).columns[:3]), strict=True):
                file.write(f'{{"t": {t}, "x0": {a:.3f}, "x1": {b:.3f}}}\n')


def write_images(folder: Path, count: int) -> None:
    make_images(folder, 500, 400 * count)


WRITE: dict[str, Callable[[Path, int], None]] = {
    "parquet": write_parquet, "csv": write_csv, "json": write_json, "image": write_images,
}  # fmt: skip


def measure(kind: str, count: int) -> tuple[int, float]:
    """Bytes, and seconds of the job."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "files"
        folder.mkdir()
        WRITE[kind](folder, count)
        files = [path for path in folder.rglob("*") if path.is_file()]
        job = Path(name) / "job.yaml"
        text = JOBS[kind].format(files=folder if kind == "image" else folder / "*")
        job.write_text(f"name: rates\n{text}output: {{path: {name}/data}}\n")
        command = [sys.executable, "-m", "beamfeed.launcher.cli", "preprocess", str(job), "--quiet"]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        took = time.monotonic() - began
        shutil.rmtree(Path(name) / "data")
        return sum(path.stat().st_size for path in files), took


def main() -> None:
    """Prints a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=JOBS, action="append", help="only this one")
    cores = os.cpu_count() or 1
    for kind in parser.parse_args().kind or JOBS:
        (few, short), (many, long) = measure(kind, FEW), measure(kind, MANY)
        rate = (many - few) / (long - short) / cores
        print(f"{kind}: {rate / 1e6:.1f} MB a second and core ({many / 1e6:,.0f} MB in {long:.1f} s on {cores} cores)")


if __name__ == "__main__":
    main()
