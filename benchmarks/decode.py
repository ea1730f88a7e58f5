"""How near preprocessing comes to decoding alone: rows in a second of processor time, ours beside pyarrow's.

    python benchmarks/decode.py --assets 8 --rows 2000000 --json out/bench/decode.json

pyarrow reads each file once, in batches, on one thread, and does nothing with them. Ours is the whole of preprocessing,
all its processes, without its start-up. Rows are read twice where the scale is learned from them, to check them and
learn it, and to write them; also where there is nothing to learn (`scale: none`), as none is written before all are
checked. Of a text, the second time is from a copy. Beside them the bound of `alternatives.py`: nothing that
standardizes and writes the values can come nearer. Of CSV it is that of Parquet with the decoding of the one in place
of the other.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
from alternatives import ALTERNATIVES, job
from fleet import make_fleet
from measure import measure_writing
from turns import preprocessing, say, write_json

TINY_ROWS = 1000


def read_parquet(path: Path) -> None:
    with pyarrow.parquet.ParquetFile(path) as file:
        for _ in file.iter_batches(use_threads=False):
            pass


def read_csv(path: Path) -> None:
    options = pyarrow.csv.ReadOptions(use_threads=False)
    with pyarrow.csv.open_csv(path, read_options=options) as reader:
        for _ in reader:
            pass


READERS: dict[str, Callable[[Path], None]] = {"parquet": read_parquet, "csv": read_csv}


def to_csv(folder: Path) -> None:
    """Puts a CSV file in the place of each Parquet file, a batch at a time."""
    for path in sorted(folder.glob("*.parquet")):
        target = path.with_suffix(".csv")
        with pyarrow.parquet.ParquetFile(path) as file, pyarrow.csv.CSVWriter(target, file.schema_arrow) as writer:
            for batch in file.iter_batches():
                writer.write_batch(batch)
        path.unlink()


def alone(files: list[Path], read: Callable[[Path], None]) -> float:
    """Processor time in seconds to decode the files, from the page cache."""
    for path in files:
        path.read_bytes()
    began = time.process_time()
    for path in files:
        read(path)
    return time.process_time() - began


def bound(files: Path, scratch: Path) -> float:
    """Processor time in seconds of the least that must be done."""
    output = scratch / "output"
    command = ALTERNATIVES[0].command(files, output, scratch, 1)
    return measure_writing(command, output, scratch / "log.txt").cpu_seconds


def ours(files: Path, scale: str, workers: int, scratch: Path) -> float:
    """Processor time in seconds of a whole run."""
    output = scratch / "output"
    described = {**job(files, output, scratch / "model", workers), "prepare": {"scale": {"how": scale}}}
    command = preprocessing(described, scratch / "job.yaml")
    return measure_writing(command, output, scratch / "log.txt").cpu_seconds


def figures_of(rows: int, decode: float, seconds: float) -> dict[str, float]:
    return {
        "pyarrow_rows_per_second": rows / decode,
        "rows_per_second": rows / seconds,
        "share": decode / seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of each asset")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write to")
    args = parser.parse_args()
    results, rows = {}, args.assets * args.rows
    with tempfile.TemporaryDirectory(prefix="beamfeed-decode-") as temporary:
        scratch = Path(temporary)
        for format_, read in READERS.items():
            tiny, files = scratch / f"tiny-{format_}", scratch / format_
            for folder, count in ((tiny, TINY_ROWS), (files, args.rows)):
                make_fleet(str(folder), args.assets, count)
                if format_ == "csv":
                    to_csv(folder)
            paths = sorted(files.iterdir())
            runs: dict[str, Callable[[Path], float]] = {
                f"{format_}, scale: {scale}": lambda folder, scale=scale: ours(folder, scale, args.workers, scratch)
                for scale in ("standard", "none")
            }
            if format_ == "parquet":
                runs["parquet, the bound"] = lambda folder: bound(folder, scratch)
            turns = [
                (alone(paths, read), {name: run(files) - run(tiny) for name, run in runs.items()})
                for _ in range(args.repeats)
            ]  # in turn, as a machine is slower for some minutes and faster for others
            decode = statistics.median(turn for turn, _ in turns)
            for name in runs:
                seconds = statistics.median(turn[name] for _, turn in turns)
                results[name] = figures_of(rows, decode, seconds)
                say(f"{name}: pyarrow {decode:.2f} s of a core, this {seconds:.2f}")
            if format_ == "parquet":
                written = seconds - decode  # of the bound, which is the last
    results["csv, the bound"] = figures_of(rows, decode, decode + written)
    for name, figures in results.items():
        print(f"{name:26} {figures['rows_per_second']:12,.0f} rows/s of a core, {figures['share']:.0%} of pyarrow's")
    write_json(results, args.json)


if __name__ == "__main__":
    main()
