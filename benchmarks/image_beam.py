"""Plain Beam on images: a map of each path to an Example, and Beam's WriteToTFRecord.

    python benchmarks/image_beam.py --input DIR --output DIR

What tutorials lead to: MatchFiles and ReadMatches, Pillow to see whether the image can be decoded, a protobuf for each.
It stands by itself, as a user would write it.
"""

import argparse
import io
import os

import apache_beam as beam
import tensorflow as tf
from apache_beam.io import fileio
from apache_beam.options.pipeline_options import PipelineOptions
from PIL import Image


class ToExample(beam.DoFn):
    """A file -> a serialized Example; one that cannot be decoded is left out."""

    def process(self, file):
        data = file.read()
        try:
            with Image.open(io.BytesIO(data)) as image:
                image.load()
        except Exception:
            beam.metrics.Metrics.counter("images", "broken").inc()
            return
        path = file.metadata.path
        label = int(path.split("/")[-2].removeprefix("class"))
        feature = {
            "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[data])),
            "path": tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.encode()])),
            "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        }
        yield tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    args = parser.parse_args()
    os.makedirs(args.output, exist_ok=True)
    options = PipelineOptions(
        runner="FnApiRunner", direct_num_workers=args.workers, direct_running_mode="multi_processing",
        save_main_session=True,
    )  # fmt: skip
    with beam.Pipeline(options=options) as pipeline:
        _ = (
            pipeline
            | fileio.MatchFiles(os.path.join(args.input, "*", "*"))
            | fileio.ReadMatches()
            | beam.Reshuffle()
            | beam.ParDo(ToExample())
            | beam.io.WriteToTFRecord(os.path.join(args.output, "part"), file_name_suffix=".tfrecord")
        )


if __name__ == "__main__":
    main()
