"""Many small files, by processes and by threads: `python benchmarks/small_files.py [--files 10000] [--format csv]`.

Prints seconds and memory of each, and the seconds of its scan, by which it is planned.
"""

import argparse
import re
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from measure import measure_writing
from turns import write_json

ROWS, A_FOLDER = 40, 1000
JOB = """
name: small
source: {{kind: timeseries, files: "{folder}/files/*/*", time: {{column: time}}, features: [a, b],
         asset: {{from: path}}}}
windows: {{length: 8, stride: 4}}
output: {{path: "{folder}/data"}}
"""
MODES = {"processes": [], "threads": ["--", "--direct_running_mode=multi_threading"]}


def make_files(folder: Path, count: int, format_: str) -> None:
    """Files of 40 rows, a thousand in a folder."""
    rows = np.arange(ROWS)
    table = pa.table({"time": rows, "a": rows * 0.5, "b": (rows % 7).astype("f8")})
    write = pq.write_table if format_ == "parquet" else pyarrow.csv.write_csv
    for i in range(count):
        place = folder / "files" / f"{i // A_FOLDER:03d}"
        place.mkdir(parents=True, exist_ok=True)
        write(table, place / f"m{i:06d}.{format_}")


def run(folder: Path, mode: str) -> dict[str, float]:
    """What the job takes, and the seconds of its scan."""
    job, log = folder / "job.yaml", folder / "log.txt"
    job.write_text(JOB.format(folder=folder))
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "preprocess", str(job), *MODES[mode]]
    whole = measure_writing(command, folder / "data", log)
    scan = re.search(r"scan: [\d,]+ files in ([\d.]+) s", log.read_text())
    return {**asdict(whole), "scan_seconds": float(scan[1])}


def main() -> None:
    """Prints a line for each number of files and mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, nargs="+", default=[10_000])
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument("--mode", choices=MODES, action="append", help="only this one")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    arguments = parser.parse_args()
    results: dict = {"rows": ROWS, **{mode: [] for mode in arguments.mode or MODES}}
    for count in arguments.files:
        with tempfile.TemporaryDirectory() as name:
            make_files(Path(name), count, arguments.format)
            for mode in arguments.mode or MODES:
                figures = run(Path(name), mode)
                results[mode].append({"files": count, **figures})
                print(
                    f"{count:,} files of {arguments.format}, {mode}: {figures['seconds']:.1f} s, "
                    f"{figures['peak_rss_mb']:,.0f} MB, scanned in {figures['scan_seconds']:.1f} s"
                )
    write_json(results, arguments.json)


if __name__ == "__main__":
    main()
