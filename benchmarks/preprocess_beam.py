"""Plain Beam: one `tf.train.Example` per window, written by Beam's own WriteToTFRecord.

    python benchmarks/preprocess_beam.py --input DIR --output DIR

What the tutorials lead to: a pass for mean and standard deviation, whose result is
a side input of the pass that reads the files with pandas, cuts windows, makes
Examples and writes them. Without `num_shards`, so nothing is shuffled. It stands
by itself, as a user would write it.
"""

import argparse
import glob
import os
from collections.abc import Iterator

import apache_beam as beam
import numpy as np
import pandas as pd
from apache_beam.options.pipeline_options import PipelineOptions

LENGTH, STRIDE = 64, 16


def read(path: str) -> np.ndarray:
    """The sensors of a file, float32 [rows, sensors]."""
    return pd.read_parquet(path).drop(columns="timestamp").to_numpy(np.float32)


def sums(path: str) -> tuple[int, np.ndarray, np.ndarray]:
    values = read(path).astype(np.float64)
    return len(values), values.sum(axis=0), (values**2).sum(axis=0)


class MeanAndStd(beam.CombineFn):
    """(count, sums, sums of squares) -> (mean, std), float32 [sensors] each."""

    def create_accumulator(self):
        return 0, 0.0, 0.0

    def add_input(self, accumulator, element):
        return tuple(a + b for a, b in zip(accumulator, element, strict=True))

    def merge_accumulators(self, accumulators):
        return tuple(sum(parts) for parts in zip(*accumulators, strict=True))

    def extract_output(self, accumulator):
        count, total, squares = accumulator
        mean = total / count
        return mean.astype(np.float32), np.sqrt(squares / count - mean**2).astype(np.float32)


def windows(path: str, mean_and_std: tuple[np.ndarray, np.ndarray]) -> Iterator[np.ndarray]:
    """The standardized windows of a file, float32 [length, sensors]."""
    mean, std = mean_and_std
    values = (read(path) - mean) / std
    for first in range(0, len(values) - LENGTH + 1, STRIDE):
        yield values[first : first + LENGTH]


def to_example(window: np.ndarray) -> bytes:
    import tensorflow as tf

    values = tf.train.Feature(float_list=tf.train.FloatList(value=window.ravel()))
    return tf.train.Example(features=tf.train.Features(feature={"values": values})).SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument(
        "--mode", default="multi_processing", choices=("in_memory", "multi_threading", "multi_processing")
    )
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    options = PipelineOptions(
        runner="FnApiRunner", direct_num_workers=args.workers, direct_running_mode=args.mode, save_main_session=True
    )
    paths = sorted(glob.glob(os.path.join(args.input, "*.parquet")))
    with beam.Pipeline(options=options) as pipeline:
        files = pipeline | beam.Create(paths) | beam.Reshuffle()
        statistics = files | beam.Map(sums) | beam.CombineGlobally(MeanAndStd())
        _ = (
            files
            | beam.FlatMap(windows, beam.pvalue.AsSingleton(statistics))
            | beam.Map(to_example)
            | beam.io.WriteToTFRecord(os.path.join(args.output, "part"), file_name_suffix=".tfrecord")
        )


if __name__ == "__main__":
    main()
