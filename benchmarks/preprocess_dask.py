"""Dask: windows are mapped over the files, and gathered or written where they are made.

    python benchmarks/preprocess_dask.py --input DIR --output DIR [--write tasks]

`--write gathered`, the map and gather that most pipelines start from: each task
turns a file into serialized `tf.train.Example`s, the process that asked for them
collects all and writes one file. `--write tasks` gathers nothing: each task writes
its own file. Both take a pass for mean and standard deviation first. It stands by
itself, as a user would write it.
"""

import argparse
import glob
import os

import dask
import dask.bag
import numpy as np
import pandas as pd

LENGTH, STRIDE = 64, 16


def read(path: str) -> np.ndarray:
    """The sensors of a file, float32 [rows, sensors]."""
    return pd.read_parquet(path).drop(columns="timestamp").to_numpy(np.float32)


def sums(path: str) -> tuple[int, np.ndarray, np.ndarray]:
    values = read(path).astype(np.float64)
    return len(values), values.sum(axis=0), (values**2).sum(axis=0)


def mean_and_std(parts: list[tuple[int, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """float32 [sensors] each, from what `sums` gave for each file."""
    count, total, squares = (sum(part) for part in zip(*parts, strict=True))
    mean = total / count
    return mean.astype(np.float32), np.sqrt(squares / count - mean**2).astype(np.float32)


def examples(path: str, mean: np.ndarray, std: np.ndarray) -> list[bytes]:
    """The standardized windows of a file as serialized Examples."""
    import tensorflow as tf

    values = (read(path) - mean) / std
    serialized = []
    for first in range(0, len(values) - LENGTH + 1, STRIDE):
        window = tf.train.FloatList(value=values[first : first + LENGTH].ravel())
        features = tf.train.Features(feature={"values": tf.train.Feature(float_list=window)})
        serialized.append(tf.train.Example(features=features).SerializeToString())
    return serialized


def write(records: list[bytes], path: str) -> str:
    import tensorflow as tf

    with tf.io.TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    return path


def write_examples(path: str, output: str, mean: np.ndarray, std: np.ndarray) -> str:
    name = os.path.basename(path).replace(".parquet", ".tfrecord")
    return write(examples(path, mean, std), os.path.join(output, name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--scheduler", default="threads", choices=("threads", "processes"))
    parser.add_argument("--write", default="gathered", choices=("gathered", "tasks"))
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    dask.config.set(scheduler=args.scheduler, num_workers=args.workers)
    paths = sorted(glob.glob(os.path.join(args.input, "*.parquet")))
    files = dask.bag.from_sequence(paths, partition_size=1)
    mean, std = mean_and_std(files.map(sums).compute())
    if args.write == "tasks":
        files.map(write_examples, args.output, mean, std).compute()
    else:
        gathered = files.map(examples, mean, std).compute()
        write([record for records in gathered for record in records], os.path.join(args.output, "data.tfrecord"))


if __name__ == "__main__":
    main()
