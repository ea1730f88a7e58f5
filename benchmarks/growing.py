"""What one more day costs a dataset that grows, beside a job of that day alone.

    python benchmarks/growing.py [--days 10 100 365] [--rows 100000] [--turns 3] [--json FILE]

A lake with a file for each day, of eight columns. Days are added one by one until so many are there; then, in turn, one
more is added by a command, and one prepared by itself. Tells seconds and peak memory of both, the bytes of manifest and
index, and the ratios.
"""

import argparse
import contextlib
import io
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from measure import Measured, measure, median
from turns import say, write_json

COLUMNS = 8
BEAMFEED = (sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job")


def write_day(folder: Path, day: int, rows: int) -> None:
    """The file of a day."""
    rng = np.random.default_rng(day)
    columns = {f"x{i}": rng.normal(size=rows).astype("f4") for i in range(COLUMNS)}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({**columns, "y": (rng.random(rows) < 0.1).astype("i4")}), folder / f"{day:04d}.parquet")


def write_job(path: Path, files: Path, output: Path) -> Path:
    """A job on a folder of days."""
    job = {
        "name": "growing",
        "source": {"kind": "table", "files": str(files)},
        "features": {f"x{i}": "numeric" for i in range(COLUMNS)},
        "label": {"column": "y", "classes": [0, 1]},
        "output": {"path": str(output), "grow": True},
        "launch": {"preprocess": {"workers": 1}},
    }
    path.write_text(yaml.safe_dump(job))
    return path


def index_bytes(output: Path) -> dict[str, int]:
    """Of what tells of the shards."""
    blocks = max(output.glob("data-*/train/blocks.parquet"), key=lambda path: path.stat().st_mtime)
    return {"manifest": (output / "manifest.json").stat().st_size, "blocks": blocks.stat().st_size}


def main() -> None:
    from beamfeed.pipelines.preprocess import main as preprocess

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, nargs="+", default=[10, 100, 365])
    parser.add_argument("--rows", type=int, default=100_000, help="of a day")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="beamfeed-growing-") as name:
        folder, day = Path(name), 0
        job = write_job(folder / "job.yaml", folder / "lake", folder / "data")
        for days in args.days:
            while day < days:
                write_day(folder / "lake", day, args.rows)
                with contextlib.redirect_stdout(io.StringIO()):
                    assert preprocess(["--job", str(job)]) == 0
                day += 1
            runs: dict[str, list[Measured]] = {"added": [], "alone": []}
            for turn in range(args.turns):
                write_day(folder / "lake", day, args.rows)
                day += 1
                runs["added"].append(measure([*BEAMFEED, str(job)], str(folder / "log")))
                write_day(folder / f"alone-{days}-{turn}", day, args.rows)
                alone = write_job(folder / "alone.yaml", folder / f"alone-{days}-{turn}", folder / f"out-{days}-{turn}")
                runs["alone"].append(measure([*BEAMFEED, str(alone)], str(folder / "log")))
            ratio = statistics.median(a.seconds / b.seconds for a, b in zip(*runs.values(), strict=True))
            one = {way: asdict(median(found)) for way, found in runs.items()}
            results.append({"days": days, **one, "ratio": ratio, "bytes": index_bytes(folder / "data")})
            say(
                f"{days:4} days: a day added {one['added']['seconds']:.2f} s, {one['added']['peak_rss_mb']:,.0f} MB; "
                f"alone {one['alone']['seconds']:.2f} s, {one['alone']['peak_rss_mb']:,.0f} MB; ratio {ratio:.2f}; "
                f"manifest {results[-1]['bytes']['manifest']:,} bytes"
            )
    write_json({"rows": args.rows, "results": results}, args.json)


if __name__ == "__main__":
    main()
