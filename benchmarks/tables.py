"""Tables: preprocessing against plain Beam with tensorflow-transform, feeding against parse_single_example, memory.

    python benchmarks/tables.py --size small [--json tables.json]

Twenty columns: twelve numbers, seven categories of 5 to 50,000 values, a label. Both
preprocess the same Parquet files. Plain Beam is given fewer rows, and its time a row
is compared, start-up of both left out: it takes hours for what ours does in a minute.
Both datasets are fed by one process with all cores.
"""

import argparse
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from measure import Measured, measure_writing, without_start_up
from table_beam import CATEGORIES, LABEL, NUMBERS
from turns import figure_of, preprocessing, say, write_json

HERE = Path(__file__).resolve().parent
# Rows of ours, rows of plain Beam, and of the table whose growth to 8 times shows memory.
SIZES = {
    "tiny": (20_000, 2_000, 10_000),
    "small": (1_000_000, 40_000, 500_000),
    "large": (5_000_000, 100_000, 2_500_000),
}
RECORDS = (1, 64, 256, None, 1024, 4096)  # rows of a record; None: as it is by default
START_UP = 1000  # rows of a table that is next to none
ROWS_OF_A_FILE = 250_000
FEED = """
import sys, time
import tensorflow as tf

kind, folder, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
if kind == "ours":
    from beamfeed.trainer.feed.dataset import load_dataset
    data = load_dataset(folder, "train", batch_size=1024, shuffle=10_000, epochs=None)
else:
    numbers, categories = [f"n{i}" for i in range(12)], [f"c{i}" for i in range(7)]
    spec = {**{n: tf.io.FixedLenFeature([], tf.float32) for n in numbers},
            **{n: tf.io.FixedLenFeature([], tf.int64) for n in [*categories, "label"]}}
    files = tf.data.Dataset.list_files(folder + "/*.tfrecord", seed=7)
    data = files.interleave(tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE).repeat()
    data = data.map(lambda record: tf.io.parse_single_example(record, spec), num_parallel_calls=tf.data.AUTOTUNE)
    data = data.shuffle(10_000).batch(1024).prefetch(tf.data.AUTOTUNE)
batches = iter(data)

@tf.function
def consume(steps):
    total = 0.0
    for _ in tf.range(steps):
        batch = next(batches)
        total += batch["numbers"][0, 0] if kind == "ours" else batch["n0"][0]
    return total

consume(tf.constant(20)).numpy()
began, steps = time.perf_counter(), 0
while time.perf_counter() - began < seconds:
    consume(tf.constant(20)).numpy()
    steps += 20
print(1024 * steps / (time.perf_counter() - began))
"""


def make_table(folder: Path, rows: int) -> Path:
    """Files of a table of random values."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    sizes = [5, 10, 20, 100, 1000, 5000, 50_000]
    for number, first in enumerate(range(0, rows, ROWS_OF_A_FILE)):
        count = min(ROWS_OF_A_FILE, rows - first)
        columns = {name: rng.normal(size=count).astype("f4") for name in NUMBERS}
        for name, size in zip(CATEGORIES, sizes, strict=True):
            values = pa.array([f"value {place}" for place in range(size)])
            columns[name] = values.take(pa.array(rng.zipf(1.2, count) % size))
        columns[LABEL] = (rng.random(count) < 0.1).astype("i8")
        pq.write_table(pa.table(columns), folder / f"part-{number:03d}.parquet")
    return folder


def ours(files: Path, output: Path, scratch: Path, rows_per_record: int | None = None) -> list[str]:
    """The command that preprocesses a table."""
    job = {
        "name": "bench",
        "source": {"kind": "table", "files": str(files)},
        "features": {**dict.fromkeys(NUMBERS, "numeric"), **dict.fromkeys(CATEGORIES, "categorical")},
        "label": {"column": LABEL, "classes": [0, 1]},
        "split": {"train": 1, "eval": 0, "test": 0},
        "output": {"path": str(output), "rows_per_record": rows_per_record},
    }
    return preprocessing(job, scratch / "table.yaml")


def plain(files: Path, output: Path, scratch: Path) -> list[str]:
    """The command of plain Beam."""
    return [sys.executable, str(HERE / "table_beam.py"), "--input", str(files), "--output", str(output)]


def fed(kind: str, folder: Path, scratch: Path, seconds: float) -> float:
    """Rows a second."""
    program = scratch / "feed_table.py"
    program.write_text(FEED)
    return figure_of([program, kind, folder, seconds])


def compare(size: str, scratch: Path) -> dict:
    """What `main` prints, as JSON."""
    rows, plain_rows, base = SIZES[size]
    outputs = {"ours": scratch / "ours", "plain": scratch / "plain"}
    results: dict = {"rows": rows, "plain_rows": plain_rows, "columns": len(NUMBERS) + len(CATEGORIES) + 1}

    def run(name: str, count: int) -> Measured:
        command = {"ours": ours, "plain": plain}[name](make_table(scratch / "table", count), outputs[name], scratch)
        return measure_writing(command, outputs[name], scratch / "log.txt")

    for name, count in (("ours", rows), ("plain", plain_rows)):
        figures = results[name] = without_start_up(partial(run, name), START_UP, count, "rows")
        say(f"{name}: {count:,} rows in {figures['whole']:.1f} s, of which start-up {figures['start_up']:.1f} s: "
            f"{figures['rows_per_second']:,.0f} rows/s; {figures['peak_rss_mb']:,.0f} MB")  # fmt: skip
    results["preprocess_ratio"] = results["ours"]["rows_per_second"] / results["plain"]["rows_per_second"]
    results["feed"] = {name: fed(name, outputs[name], scratch, 10) for name in outputs}
    results["feed_ratio"] = results["feed"]["ours"] / results["feed"]["plain"]
    say(f"preprocessing {results['preprocess_ratio']:.1f} times plain Beam; feeding "
        f"{results['feed']['ours']:,.0f} rows/s, {results['feed_ratio']:.1f} times parse_single_example")  # fmt: skip
    results["growth"] = []
    for factor in (1, 2, 4, 8):
        done = run("ours", base * factor)
        results["growth"].append({"rows": base * factor, "seconds": done.seconds, "peak_rss_mb": done.peak_rss_mb})
        say(f"{base * factor:,} rows: {done.seconds:.1f} s, {done.peak_rss_mb:,.0f} MB")
    results["records"] = compare_records(make_table(scratch / "table", base), scratch)
    return results


def compare_records(files: Path, scratch: Path) -> list[dict]:
    """What records of so many rows cost to write, and how fast they are fed."""
    results = []
    for rows in RECORDS:
        output = scratch / "records"
        seconds = measure_writing(ours(files, output, scratch, rows), output, scratch / "log.txt").seconds
        size = sum(path.stat().st_size for path in output.rglob("*.tfrecord"))
        results.append({"rows": rows, "seconds": seconds, "bytes": size, "fed": fed("ours", output, scratch, 10)})
        say(f"records of {rows or 'the default number of'} rows: {seconds:.1f} s, {size:,} bytes, "
            f"fed {results[-1]['fed']:,.0f} rows/s")  # fmt: skip
    return results


def main() -> None:
    """Prints what it measures, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beamfeed-tables-") as scratch:
        results = compare(args.size, Path(scratch))
    write_json(results, args.json)


if __name__ == "__main__":
    main()
