"""Runs all benchmarks in turn and writes results.json, and from it a report with plots.

    python benchmarks/run.py --size small --out out/bench
    python benchmarks/run.py --size large --out out/bench --docs docs
    python benchmarks/run.py --size large --out out/bench --docs docs --parts tables train

Preprocessing against the alternatives, our growth with rows and with assets, feeding, training,
predicting. Each run is a process of its own on a machine that does nothing else meanwhile; the
input is in the page cache, written pages are flushed before.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import arrays
import numpy as np
import shapes
import tables
from alternatives import ALTERNATIVES, LENGTH, OURS, STRIDE, Alternative
from machine import describe
from measure import CommandFailed, Measured, measure_writing, median
from sizes import SIZES, Size
from turns import say

HERE = Path(__file__).resolve().parent
SENSORS = 8
TINY = (1, 1000)  # assets, rows: what is left is start-up


FACTORS = (1, 2, 4, 8)  # the slope is fitted to these
MEMORY_FACTOR = 10  # one more point: how much memory ten times the data takes


def count_windows(assets: int, rows: int) -> int:
    return assets * max(0, (rows - LENGTH) // STRIDE + 1)


def fit(rows: Sequence[int], seconds: Sequence[float]) -> dict | None:
    """A straight line through the times: seconds per million rows, seconds at no rows, and R squared.

    None where there are too few points to say anything about.
    """
    if len(rows) < 3:
        return None
    millions = np.asarray(rows) / 1e6
    slope, start = np.polyfit(millions, seconds, 1)
    residual = np.asarray(seconds) - (slope * millions + start)
    spread = np.asarray(seconds) - np.mean(seconds)
    r2 = 1 - float(residual @ residual) / float(spread @ spread)
    return {"seconds_per_million_rows": float(slope), "seconds_at_zero": float(start), "r2": r2}


def size_on_disk(folder: Path) -> int:
    """Bytes of all files: records and what describes them."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Bench:
    """Fleets and outputs in a scratch folder, and the runs on them."""

    def __init__(self, scratch: Path, workers: int):
        self._scratch, self._workers = scratch, workers
        self._files, self._output = scratch / "fleet", scratch / "output"

    def make_fleet(self, assets: int, rows: int) -> None:
        """In a process of its own: this one stays small, as its memory would show in its children's."""
        shutil.rmtree(self._files, ignore_errors=True)
        command = [sys.executable, str(HERE / "fleet.py"), "--out", str(self._files)]
        subprocess.run([*command, "--assets", str(assets), "--rows", str(rows)], check=True)
        for path in self._files.iterdir():  # into the page cache
            with path.open("rb") as file:
                while file.read(8 << 20):
                    pass

    def run(self, alternative: Alternative, repeats: int) -> dict:
        """Runs one alternative on the fleet; returns the median, or why there is none."""
        if alternative.needs and importlib.util.find_spec(alternative.needs) is None:
            return {"skipped": f"{alternative.needs} is not installed: make bench installs it"}
        runs: list[Measured] = []
        for _ in range(repeats):
            command = alternative.command(self._files, self._output, self._scratch, self._workers)
            try:
                runs.append(measure_writing(command, self._output, self._scratch / "log.txt"))
            except CommandFailed as error:
                say(f"  {alternative.name}: {error}")
                return {"failed": str(error)}
        say(f"  {alternative.name}: {median(runs).seconds:.1f} s, {median(runs).peak_rss_mb:.0f} MB")
        return asdict(median(runs)) | {
            "runs": [run.seconds for run in runs],
            "bytes": size_on_disk(self._output),
            "files": sum(path.suffix == ".tfrecord" or ".tfrecord-" in path.name for path in self._output.rglob("*")),
        }

    def compare(self, assets: int, rows: int) -> dict:
        """All alternatives on one fleet."""
        say(f"preprocessing {assets} assets of {rows:,} rows")
        self.make_fleet(assets, rows)
        return {
            "assets": assets,
            "rows": rows,
            "windows": count_windows(assets, rows),
            "raw_bytes": assets * rows * SENSORS * 4,
            "results": {a.name: self.run(a, a.repeats) for a in ALTERNATIVES},
        }

    def start_up(self) -> dict:
        """Seconds that each alternative takes on next to nothing."""
        say("start-up, on one tiny asset")
        self.make_fleet(*TINY)
        return {a.name: self.run(a, a.repeats) for a in ALTERNATIVES}

    def grow(self, base: tuple[int, int], axis: str, repeats: int) -> dict:
        """Ours on fleets of 1, 2, 4, 8 and 10 times the rows of an asset, or the assets."""
        points = []
        for factor in (*FACTORS, MEMORY_FACTOR):
            times = factor * self._workers
            assets, rows = (base[0], base[1] * times) if axis == "rows" else (base[0] * times, base[1])
            say(f"growth with {axis}: {assets} assets of {rows:,} rows")
            self.make_fleet(assets, rows)
            point = self.run(_ours(), repeats)
            points.append({"factor": factor, "assets": assets, "rows": rows, **point})
        fitted = [point for point in points if point["factor"] in FACTORS and "seconds" in point]
        return {
            "points": points,
            "fit": fit([p["assets"] * p["rows"] for p in fitted], [p["seconds"] for p in fitted]),
        }

    def files(self, counts: Sequence[int]) -> dict:
        """What `small_files.py` reports of series, and what each further thousand files takes."""
        report = self._script(
            "small_files", ["--files", *map(str, counts), "--format", "parquet", "--mode", "processes"]
        )
        if "failed" in report:
            return report
        points = report["processes"]
        # Millions of files in the place of millions of rows.
        fitted = fit([point["files"] for point in points], [point["seconds"] for point in points])
        per_thousand = fitted["seconds_per_million_rows"] / 1000 if fitted else None
        return {"rows": report["rows"], "points": points, "seconds_per_thousand_files": per_thousand}

    def decode(self, assets: int, rows: int, repeats: int) -> dict:
        """What `decode.py` reports."""
        say("beside decoding alone")
        sizes = ["--assets", str(assets), "--rows", str(rows), "--repeats", str(repeats)]
        return self._script("decode", [*sizes, "--workers", str(self._workers)])

    def days(self, days: Sequence[int], rows: int, repeats: int) -> dict:
        """What `growing.py` reports of a table and of series, by what it is."""
        say(f"a day more, of {rows:,} rows")
        options = ["--days", *map(str, days), "--rows", str(rows), "--turns", str(repeats)]
        return {
            "a table": self._script("growing", options),
            "20 series": self._script("growing", [*options, "--series", "20"]),
        }

    def feed(self, assets: int, rows: int) -> dict:
        """What `feed.py` reports."""
        say(f"feeding {assets} assets of {rows:,} rows")
        return self._script("feed", ["--rows", str(rows), "--assets", str(assets)]) | {"assets": assets, "rows": rows}

    def train(self, assets: int, rows: int, repeats: int) -> dict:
        """What `train.py` reports."""
        say(f"training on {assets} assets of {rows:,} rows")
        return self._script("train", ["--rows", str(rows), "--assets", str(assets), "--repeats", str(repeats)])

    def predict(self, assets: int, rows: int, growth: int) -> dict:
        """What `predict.py` reports."""
        say(f"predicting {assets} assets of {rows:,} rows")
        options = ["--assets", str(assets), "--rows", str(rows), "--growth", str(growth)]
        return self._script("predict", options) | {"assets": assets, "rows": rows}

    def images(self, name: str) -> dict:
        """What `images_prepare.py` and `images_feed.py` report."""
        say("images")
        options = ["--images", "128", "--seconds", "0.5", "--repeats", "1"] if name == "tiny" else []
        return {
            "prepared": self._script("images_prepare", ["--size", name]),
            "fed": self._script("images_feed", options),
        }

    def torch(self, assets: int, rows: int) -> dict:
        """What `torch_door.py` reports."""
        if importlib.util.find_spec("torch") is None:
            return {"failed": "PyTorch is not installed (pip install 'beamfeed[torch]')"}
        say("feeding PyTorch")
        return self._script("torch_door", ["--rows", str(rows), "--assets", str(assets)])

    def _script(self, name: str, options: Sequence[str]) -> dict:
        path = self._scratch / f"{name}.json"
        code = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *options, "--json", str(path)]).returncode
        return {"failed": f"exit code {code}"} if code else json.loads(path.read_text())


def _ours() -> Alternative:
    return next(alternative for alternative in ALTERNATIVES if alternative.name == OURS)


def parts(bench: Bench, size: Size, name: str, scratch: Path) -> dict[str, Callable[[], Any]]:
    """What measures each part of the results."""
    return {
        "start_up": bench.start_up,
        "preprocess": lambda: [bench.compare(*case) for case in size.cases],
        "decode": lambda: bench.decode(*size.cases[0], size.repeats),
        "growth": lambda: {
            "rows": bench.grow(size.one_asset, "rows", size.repeats),
            "assets": bench.grow(size.many_assets, "assets", size.repeats),
        },
        "files": lambda: bench.files(size.files),
        "days": lambda: bench.days(*size.days, size.repeats),
        "shapes": lambda: shapes.compare(shapes.SIZES[name], size.repeats, None, say),
        "tables": lambda: tables.compare(name, scratch),
        "arrays": lambda: arrays.compare(name, scratch),
        "images": lambda: bench.images(name),
        "feed": lambda: bench.feed(*size.feed),
        "torch": lambda: bench.torch(*size.feed),
        "train": lambda: bench.train(*size.train, size.repeats),
        "predict": lambda: bench.predict(*size.predict),
    }


PARTS = (
    "start_up", "preprocess", "decode", "growth", "files", "days", "shapes", "tables", "arrays", "images", "feed",
    "torch", "train", "predict",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="results.json and the report go here")
    parser.add_argument("--docs", type=Path, help="a folder to write the report to as well, such as docs")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS,
        help="measure these alone; the others are those of results.json, written by an earlier run",
    )  # fmt: skip
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    workers = os.cpu_count() or 1
    path = args.out / "results.json"
    results = json.loads(path.read_text()) if path.exists() and set(args.parts) != set(PARTS) else {}
    if results.get("size", args.size) != args.size:
        parser.error(f"{path} is of --size {results['size']}: its parts do not go with those of --size {args.size}")
    results |= {
        "command": f"make bench SIZE={args.size}",
        "size": args.size,
        "windows": {"length": LENGTH, "stride": STRIDE},
        "workers": workers,
        "machine": describe(),
        "alternatives": {a.name: a.what for a in ALTERNATIVES},
    }
    with tempfile.TemporaryDirectory(dir=args.out) as folder:
        scratch = Path(folder).resolve()
        measures = parts(Bench(scratch, workers), SIZES[args.size], args.size, scratch)
        for name in PARTS:
            if name in args.parts:
                results[name] = measures[name]()
                path.write_text(json.dumps(results, indent=1) + "\n")  # what was measured outlives what fails later
    if missing := [name for name in PARTS if name not in results]:
        say(f"no report: not yet measured are {', '.join(missing)} (--parts)")
        return
    for folder in filter(None, (args.out, args.docs)):
        command = [sys.executable, str(HERE / "report.py"), "--results", str(path), "--out", str(folder)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
