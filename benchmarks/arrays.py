"""Feeding from files of arrays against copying memory: bytes a second, in one run, in turns.

    python benchmarks/arrays.py --size small [--json arrays.json]

An array of rows of 4 KB and one of a number a row, from the page cache, in shuffled batches. memcpy is `np.copyto` of
a batch's bytes from one place of a large buffer to another, by one thread, as Python does it. Beside it, what NumPy's
`memmap` gives by the same row numbers, and the same arrays preprocessed and fed from TFRecords.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import turns

# Megabytes of the large array, seconds of each turn, turns.
SIZES = {"tiny": (32, 0.5, 1), "small": (512, 3.0, 3), "large": (2048, 6.0, 5)}
WIDTH, BATCH = 1024, 256  # float32 in a row, rows of a batch
FILES = 8  # of the same array, cut up
WAYS = ("memcpy", "one file", "several files", "a member of a .npz", "numpy.memmap", "records")


def write(folder: Path, megabytes: int) -> int:
    """The arrays; returns their rows."""
    rows = (megabytes << 20) // (4 * WIDTH)
    x = np.lib.format.open_memmap(folder / "x.npy", "w+", "f4", (rows, WIDTH))
    rng = np.random.default_rng(0)
    for first in range(0, rows, 4096):
        x[first : first + 4096] = rng.random((min(4096, rows - first), WIDTH), "f4")
    x.flush()
    np.save(folder / "y.npy", np.arange(rows) % 10)
    for number, part in enumerate(np.array_split(x, FILES)):
        np.save(folder / f"part-{number}.npy", part)
    np.savez(folder / "x.npz", x=x)  # whose values begin at no multiple of 64 bytes
    return rows


def preprocess(folder: Path) -> None:
    """The same arrays as TFRecords."""
    job = {
        "name": "bench",
        "source": {"kind": "array", "files": str(folder), "inputs": {"x": "x.npy"},
                   "outputs": {"y": {"files": "y.npy", "classes": "auto"}}},
        "split": {"train": 1, "eval": 0, "test": 0},
        "output": {"path": str(folder / "data")},
    }  # fmt: skip
    subprocess.run(turns.preprocessing(job, folder / "job.yaml"), check=True)


def batches_of(way: str, folder: Path):
    """Shuffled batches without end, as TensorFlow gives them."""
    from beamfeed.trainer.arrays.load import load_arrays
    from beamfeed.trainer.feed.dataset import load_dataset

    if way == "records":
        return load_dataset(str(folder / "data"), "train", batch_size=BATCH, shuffle=10_000, epochs=None)
    files = {"one file": "x.npy", "several files": "part-*.npy", "a member of a .npz": "x.npz"}[way]
    x, y = str(folder / files), str(folder / "y.npy")
    return load_arrays({"x": x}, {"y": y}, batch_size=BATCH, shuffle=10_000, epochs=None)


def rate(way: str, folder: Path, seconds: float) -> float:
    """Bytes a second of the large array's rows."""
    size = BATCH * WIDTH * 4
    if way == "memcpy":
        source, target = np.zeros(64 << 20, np.uint8), np.zeros(64 << 20, np.uint8)
        source[:], target[:] = 1, 2  # the pages are there
        places = (np.random.default_rng(0).permutation((64 << 20) // size) * size).tolist()

        def copy() -> None:
            for at in places:
                np.copyto(target[at : at + size], source[at : at + size])

        return timed(copy, size * len(places), seconds)
    if way == "numpy.memmap":
        values = np.load(folder / "x.npy", mmap_mode="r")
        rng, buffer = np.random.default_rng(0), np.empty((BATCH, WIDTH), "f4")
        return timed(lambda: np.take(values, rng.integers(0, len(values), BATCH), axis=0, out=buffer), size, seconds)
    import tensorflow as tf

    batches = iter(batches_of(way, folder))

    @tf.function
    def consume(steps: tf.Tensor) -> tf.Tensor:
        total = 0.0
        for _ in tf.range(steps):
            batch = next(batches)
            x = batch["x"] if way == "records" else batch[0]["x"]
            total += x[0, 0]
        return total

    return timed(lambda: consume(tf.constant(50)).numpy(), 50 * size, seconds)


def timed(call, size: int, seconds: float) -> float:
    """Bytes a second of calls that move so many each, after half of the time to warm up."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds / 2:
        call()
    count, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        call()
        count += 1
    return size * count / spent


def compare(size: str, scratch: Path) -> dict:
    """What `main` prints, as JSON. Each turn is a process of its own."""
    megabytes, seconds, repeats = SIZES[size]
    folder = scratch / "arrays"
    folder.mkdir()
    rows = write(folder, megabytes)
    preprocess(folder)
    speeds_of: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(repeats):
        for way in WAYS:
            program = [__file__, "--child", way, "--folder", folder, "--seconds", seconds]
            speeds_of[way].append(turns.figure_of(program))
    results: dict = {"rows": rows, "row_bytes": 4 * WIDTH, "batch": BATCH, "ways": {}}
    memcpy = statistics.median(speeds_of["memcpy"])
    for way, speeds in speeds_of.items():
        speed = statistics.median(speeds)
        results["ways"][way] = {"bytes_per_second": speed, "of_memcpy": speed / memcpy}
        turns.say(f"{way}: {speed / 1e9:.2f} GB/s, {speed / memcpy:.0%} of memcpy")
    return results


def main() -> None:
    """Prints what it measures, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(rate(args.child, args.folder, args.seconds), flush=True)
        os._exit(0)  # nobody waits for what was read ahead
    scratch = Path(tempfile.mkdtemp(prefix="beamfeed-arrays-"))
    try:
        results = compare(args.size, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    turns.write_json(results, args.json)


if __name__ == "__main__":
    main()
