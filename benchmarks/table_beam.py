"""Plain Beam on a table: rows as dicts, tensorflow-transform on them, a protobuf for each, Beam's WriteToTFRecord.

    python benchmarks/table_beam.py --input DIR --output DIR

What tensorflow-transform's tutorials lead to (its census example): ReadFromParquet,
AnalyzeAndTransformDataset on instance dicts, an ExampleProtoCoder. It stands by
itself, as a user would write it.
"""

import argparse
import os
import tempfile

import apache_beam as beam
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from apache_beam.options.pipeline_options import PipelineOptions
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

NUMBERS = [f"n{i}" for i in range(12)]
CATEGORIES = [f"c{i}" for i in range(7)]
LABEL = "label"
SPEC = {
    **{name: tf.io.FixedLenFeature([], tf.float32) for name in NUMBERS},
    **{name: tf.io.FixedLenFeature([], tf.string) for name in CATEGORIES},
    LABEL: tf.io.FixedLenFeature([], tf.int64),
}


def preprocessing_fn(inputs):
    """Scales numbers, and numbers categories by their frequency."""
    outputs = {name: tft.scale_to_z_score(inputs[name]) for name in NUMBERS}
    for name in CATEGORIES:
        outputs[name] = tft.compute_and_apply_vocabulary(inputs[name], num_oov_buckets=1)
    outputs[LABEL] = inputs[LABEL]
    return outputs


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
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(SPEC))
    with (
        tempfile.TemporaryDirectory() as scratch,
        beam.Pipeline(options=options) as pipeline,
        tft_beam.Context(temp_dir=scratch),
    ):
        rows = pipeline | beam.io.ReadFromParquet(os.path.join(args.input, "*.parquet"))
        transformed, _ = (rows, metadata) | tft_beam.AnalyzeAndTransformDataset(preprocessing_fn)
        examples, transformed_metadata = transformed
        coder = tft.coders.ExampleProtoCoder(transformed_metadata.schema)
        _ = (
            examples
            | beam.Map(coder.encode)
            | beam.io.WriteToTFRecord(os.path.join(args.output, "part"), file_name_suffix=".tfrecord")
        )


if __name__ == "__main__":
    main()
