"""Many small files, by processes and by threads: `python benchmarks/small_files.py [--files 10000] [--format csv]`.

Prints the seconds of each, of the whole job and of its scan, by which it is planned.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

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


def run(folder: Path, mode: str) -> tuple[float, float]:
    """Seconds of the job, and of its scan."""
    output = folder / "data"
    shutil.rmtree(output, ignore_errors=True)
    job = folder / "job.yaml"
    job.write_text(JOB.format(folder=folder))
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "preprocess", str(job), *MODES[mode]]
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    took = time.monotonic() - began
    scan = re.search(r"scan: [\d,]+ files in ([\d.]+) s", done.stdout + done.stderr)
    return took, float(scan[1])


def main() -> None:
    """Prints a line for each mode."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--format", choices=("csv", "parquet"), default="csv")
    parser.add_argument("--mode", choices=MODES, action="append", help="only this one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_files(Path(name), arguments.files, arguments.format)
        for mode in arguments.mode or MODES:
            whole, scan = run(Path(name), mode)
            print(f"{arguments.files:,} files of {arguments.format}, {mode}: {whole:.1f} s, scanned in {scan:.1f} s")


if __name__ == "__main__":
    main()
