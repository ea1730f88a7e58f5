"""What one more day costs a dataset that grows, beside a job of that day alone.

    python benchmarks/growing.py [--series 20] [--days 10 100 365] [--rows 100000] [--turns 3] [--json FILE]

A lake with a file for each day, of eight columns; with `--series`, so many series, each with a file for each day, that
go on in it. Days are added one by one until so many are there; then, in turn, one more is added by a command, and one
prepared by itself. Tells seconds and peak memory of both, the bytes of manifest and index, and the ratios; and at last
what it takes to compact the dataset.
"""

import argparse
import contextlib
import io
import json
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
COMPACT = (sys.executable, "-m", "beamfeed.pipelines.compact", "--job")
BEAMFEED = (sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job")


def write_day(folder: Path, day: int, rows: int, series: int) -> None:
    """The file of a day, or of each series."""
    rng = np.random.default_rng(day)
    names, rows = ([f"m{k}" for k in range(series)], rows // series) if series else ([""], rows)
    for name in names:
        columns = {f"x{i}": rng.normal(size=rows).astype("f4") for i in range(COLUMNS)}
        columns |= {"t": day * rows + np.arange(rows), "y": (rng.random(rows) < 0.1).astype("i4")}
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / name / f"{day:04d}.parquet")


def write_job(path: Path, files: Path, output: Path, series: int) -> Path:
    """A job on a folder of days."""
    of_table = {
        "source": {"kind": "table", "files": str(files)},
        "features": {f"x{i}": "numeric" for i in range(COLUMNS)},
        "label": {"column": "y", "classes": [0, 1]},
    }
    of_series = {
        "source": {
            "kind": "timeseries",
            "files": f"{files}/**/*.parquet",
            "asset": {"from": "path", "pattern": "(?P<asset>[^/]+)/[^/]+$"},
            "time": {"column": "t"},
            "features": [f"x{i}" for i in range(COLUMNS)],
        },
        "windows": {"length": 64, "stride": 16},
        "split": {"by": "asset", "seed": 1},
    }
    job = {
        "name": "growing",
        **(of_series if series else of_table),
        "output": {"path": str(output), "grow": True},
        "launch": {"preprocess": {"workers": 1}},
    }
    path.write_text(yaml.safe_dump(job))
    return path


def index_bytes(output: Path) -> dict[str, int]:
    """Of what tells of the shards."""
    blocks = max(output.glob("data-*/train/blocks.parquet"), key=lambda path: path.stat().st_mtime)
    return {"manifest": (output / "manifest.json").stat().st_size, "blocks": blocks.stat().st_size}


def shard_bytes(output: Path) -> int:
    """Of all shards of the dataset."""
    splits = json.loads((output / "manifest.json").read_text())["splits"].values()
    return sum(sum(info["shards"]["bytes"]) for info in splits)


def main() -> None:
    from beamfeed.pipelines.preprocess import main as preprocess

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, nargs="+", default=[10, 100, 365])
    parser.add_argument("--series", type=int, default=0, help="how many; 0: a table")
    parser.add_argument("--rows", type=int, default=100_000, help="of a day")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="beamfeed-growing-") as name:
        folder, day = Path(name), 0
        job = write_job(folder / "job.yaml", folder / "lake", folder / "data", args.series)
        for days in args.days:
            while day < days:
                write_day(folder / "lake", day, args.rows, args.series)
                with contextlib.redirect_stdout(io.StringIO()):
                    assert preprocess(["--job", str(job)]) == 0
                day += 1
            runs: dict[str, list[Measured]] = {"added": [], "alone": []}
            for turn in range(args.turns):
                write_day(folder / "lake", day, args.rows, args.series)
                day += 1
                runs["added"].append(measure([*BEAMFEED, str(job)], str(folder / "log")))
                by_itself, out = folder / f"alone-{days}-{turn}", folder / f"out-{days}-{turn}"
                write_day(by_itself, day, args.rows, args.series)
                alone = write_job(folder / "alone.yaml", by_itself, out, args.series)
                runs["alone"].append(measure([*BEAMFEED, str(alone)], str(folder / "log")))
            ratio = statistics.median(a.seconds / b.seconds for a, b in zip(*runs.values(), strict=True))
            one = {way: asdict(median(found)) for way, found in runs.items()}
            results.append({"days": days, **one, "ratio": ratio, "bytes": index_bytes(folder / "data")})
            say(
                f"{days:4} days: a day added {one['added']['seconds']:.2f} s, {one['added']['peak_rss_mb']:,.0f} MB; "
                f"alone {one['alone']['seconds']:.2f} s, {one['alone']['peak_rss_mb']:,.0f} MB; ratio {ratio:.2f}; "
                f"manifest {results[-1]['bytes']['manifest']:,} bytes"
            )
        before, size = index_bytes(folder / "data"), shard_bytes(folder / "data")
        compacted = measure([*COMPACT, str(job)], str(folder / "log"))
        after = index_bytes(folder / "data")
        say(
            f"{day:4} days compacted: {compacted.seconds:.2f} s, {compacted.peak_rss_mb:,.0f} MB; shards of "
            f"{size / 1e6:,.0f} MB; manifest {before['manifest']:,} -> {after['manifest']:,} bytes"
        )
    of_compaction = {"days": day, **asdict(compacted), "shard_bytes": size, "before": before, "after": after}
    write_json({"rows": args.rows, "series": args.series, "results": results, "compacted": of_compaction}, args.json)


if __name__ == "__main__":
    main()
