"""What many small files cost: seconds, milliseconds a file and the peak memory of preprocessing, by how many they are.

    python benchmarks/small_files.py [--files 1000 10000 100000] [--kinds series table] [--cores 2] [--json files.json]

The files are CSVs, or Parquet, of 20 rows each; of a series each is an asset, of a table a part of it.
"""

import argparse
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Measured, measure_writing
from turns import write_json

from beamfeed.contract.verbosity import note

ROWS = 20
IN_A_FOLDER = 1000
JOBS = {
    "series": """
name: small-series
source: {{kind: timeseries, files: "{files}", time: {{column: t}}, features: ["x*"]}}
windows: {{length: 8, stride: 4}}
output: {{path: "{output}"}}
""",
    "table": """
name: small-table
source: {{kind: table, files: "{files}"}}
features: {{"x*": numeric}}
label: {{column: broken, classes: [0, 1]}}
split: {{by: row, train: 0.8, eval: 0.1, test: 0.1}}
output: {{path: "{output}"}}
""",
}


def write_files(folder: Path, files: int, suffix: str) -> None:
    """Files of rows with a time, three numbers and a label, a thousand in each folder."""
    names = ["t", "x0", "x1", "x2", "broken"]

    def write_folder(first: int) -> None:
        rng = np.random.default_rng(first)
        below = folder / f"{first:07d}"
        below.mkdir(parents=True, exist_ok=True)
        for number in range(first, min(first + IN_A_FOLDER, files)):
            values = rng.normal(50, 10, (ROWS, 3)).round(3)
            path = below / f"m{number:07d}.{suffix}"
            if suffix == "csv":
                rows = (f"{t},{a},{b},{c},{int(a > 55)}" for t, (a, b, c) in enumerate(values.tolist()))
                path.write_text("\n".join([",".join(names), *rows, ""]))
            else:
                columns = [np.arange(ROWS), *values.T, (values[:, 0] > 55).astype(np.int64)]
                pq.write_table(pa.table(columns, names=names), path)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write_folder, range(0, files, IN_A_FOLDER)))


def preprocess(folder: Path, files: int, kind: str, suffix: str, cores: int) -> Measured:
    """Preprocesses so many files on so many cores."""
    source, job = folder / f"{suffix}-{files}", folder / "job.yaml"
    if not source.exists():
        write_files(source, files, suffix)
    output = folder / f"{kind}-{suffix}-{files}"
    job.write_text(JOBS[kind].format(files=f"{source}/*/*.{suffix}", output=output))
    command = ["taskset", "-c", ",".join(map(str, sorted(os.sched_getaffinity(0))[:cores]))]
    command += [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(job)]
    return measure_writing(command, output, Path(f"{output}.log"))


def main() -> None:
    """Prints a line for each number of files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--kinds", nargs="+", default=["series", "table"], choices=list(JOBS))
    parser.add_argument("--format", default="csv", choices=["csv", "parquet"])
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="for the files and the datasets; kept. Left out, one that goes")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    args = parser.parse_args()
    results: dict = {"rows": ROWS, **{kind: [] for kind in args.kinds}}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for kind in args.kinds:
            first: Measured | None = None
            note(
                f"\n| {kind}, {args.format} | seconds | CPU seconds | ms a file | CPU ms a file | peak MB | vs first |"
            )
            note("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
            for files in args.files:
                run = preprocess(folder, files, kind, args.format, args.cores)
                results[kind].append({"files": files, **asdict(run)})
                first = first or run
                per_thousand, ratio = 1000 / files, run.peak_rss_mb / first.peak_rss_mb
                note(
                    f"| {files:,} | {run.seconds:.1f} | {run.cpu_seconds:.1f} | {run.seconds * per_thousand:.2f} | "
                    f"{run.cpu_seconds * per_thousand:.2f} | {run.peak_rss_mb:,.0f} | {ratio:.2f}x |"
                )
    write_json(results, args.json)


if __name__ == "__main__":
    main()
