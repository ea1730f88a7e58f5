"""How fast TFRecords of others are adopted, and read; beside plain tf.data on the same files.

    python benchmarks/adopt.py [--rows 200000]

Small records of one row each, as Spark or a script writes them. All rates are rows a
second of processor time, start-up left out: they hardly depend on what else the machine
does. Each reader mixes 10,000 rows and gives batches of 256; all give the same rows.
"""

import argparse
import contextlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import beamfeed
from beamfeed.pipelines import adopt

SHARDS, BATCH, SHUFFLE, NUMBERS = 8, 256, 10_000, 8
SPEC = {
    "x/values": tf.io.FixedLenFeature([NUMBERS], tf.float32),
    "kind": tf.io.FixedLenFeature([], tf.int64),
    "tags": tf.io.RaggedFeature(tf.int64),
    "label": tf.io.FixedLenFeature([], tf.int64),
}


def write(folder: str, rows: int) -> None:
    """Shards of so many rows together."""
    rng = np.random.default_rng(0)
    for shard in range(SHARDS):
        with tf.io.TFRecordWriter(f"{folder}/train-{shard:05d}-of-{SHARDS:05d}.tfrecord") as writer:
            for _ in range(rows // SHARDS):
                writer.write(record(rng))


def record(rng: np.random.Generator) -> bytes:
    numbers = {
        "kind": [int(rng.integers(0, 50))],
        "tags": rng.integers(0, 9, rng.integers(1, 5)).tolist(),
        "label": [int(rng.integers(0, 3))],
    }
    feature = {name: tf.train.Feature(int64_list=tf.train.Int64List(value=values)) for name, values in numbers.items()}
    feature["x/values"] = tf.train.Feature(float_list=tf.train.FloatList(value=rng.normal(size=NUMBERS)))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def plain(folder: str) -> tf.data.Dataset:
    """Parses batches."""
    return (
        strings(folder)
        .batch(BATCH, drop_remainder=True)
        .map(lambda batch: tf.io.parse_example(batch, SPEC), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(4)
    )


def plain_one_by_one(folder: str) -> tf.data.Dataset:
    """Parses each record by itself, as most tutorials do."""
    parsed = strings(folder).map(lambda one: tf.io.parse_single_example(one, SPEC), num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.ragged_batch(BATCH, drop_remainder=True).prefetch(4)


def strings(folder: str) -> tf.data.Dataset:
    files = tf.data.Dataset.list_files(f"{folder}/train-*", shuffle=False)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=SHARDS, num_parallel_calls=tf.data.AUTOTUNE)
    return records.shuffle(SHUFFLE)


def ours(folder: str) -> tf.data.Dataset:
    return beamfeed.load_dataset(folder, "train", batch_size=BATCH, shuffle=SHUFFLE)


def rate(read: Callable[[str], tf.data.Dataset], folder: str) -> float:
    """Rows a second of processor time, from the second batch on."""
    batches: Iterator = iter(read(folder))
    next(batches)
    begin = processor()
    return BATCH * sum(1 for _ in batches) / (processor() - begin)


def processor() -> float:
    times = os.times()
    return times.user + times.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(folder, args.rows)
        options = [folder, "--target", "label", "--classes", "label=auto", "--split", "train=*", "--quiet"]
        for _ in range(2):  # the first one imports
            begin = processor()
            with contextlib.redirect_stderr(io.StringIO()):
                assert adopt.main([*options, "--name", f"run-{begin}"]) == 0
        print(f"adopted: {args.rows / (processor() - begin):,.0f} rows a second of processor time")
        for name, read in (
            ("load_dataset", ours),
            ("tf.data, batches", plain),
            ("tf.data, one by one", plain_one_by_one),
        ):
            print(f"{name}: {rate(read, folder):,.0f}")


if __name__ == "__main__":
    main()
