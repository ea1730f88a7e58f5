"""TFRecords as others write them: plain TensorFlow, no code of ours. And what a plain loop finds in them."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf


def feature(value: Any) -> tf.train.Feature:
    """A feature with the values of a list, or one value; an empty list is of whole numbers."""
    if isinstance(value, tf.train.Feature):
        return value
    values = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if values and isinstance(values[0], (bytes, str)):
        listed = [one.encode() if isinstance(one, str) else one for one in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=listed))
    if values and isinstance(values[0], (float, np.floating)):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(one) for one in values]))


def example(features: Mapping[str, Any]) -> bytes:
    """A serialized Example; None is a feature that is not there."""
    found = {name: feature(value) for name, value in features.items() if value is not None}
    return tf.train.Example(features=tf.train.Features(feature=found)).SerializeToString()


def sequence_example(context: Mapping[str, Any], lists: Mapping[str, Sequence[Any]]) -> bytes:
    """A serialized SequenceExample: for each feature list its steps."""
    found = {name: tf.train.FeatureList(feature=[feature(step) for step in steps]) for name, steps in lists.items()}
    return tf.train.SequenceExample(
        context=tf.train.Features(feature={name: feature(value) for name, value in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list=found),
    ).SerializeToString()


def write(path: Path, records: Sequence[bytes], compression: str = "") -> Path:
    """A TFRecord file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(os.fspath(path), compression) as writer:
        for record in records:
            writer.write(record)
    return path


def read(paths: Sequence[Path], compression: str = "") -> Iterator[dict[str, list[Any]]]:
    """The features of each Example of some files, by a plain loop: each a list."""
    for path in paths:
        for serialized in tf.data.TFRecordDataset(os.fspath(path), compression).as_numpy_iterator():
            found = tf.train.Example.FromString(serialized).features.feature
            yield {name: list(getattr(one, one.WhichOneof("kind")).value) for name, one in found.items()}


NO_FLOATS = tf.train.Feature(float_list=tf.train.FloatList())
JPEG = tf.io.encode_jpeg(tf.zeros([4, 5, 3], tf.uint8)).numpy()
PNG = tf.io.encode_png(tf.zeros([4, 5, 1], tf.uint8)).numpy()


def rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows from which a label can be learned: numbers, a category, a list of any length, a name."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        label = int(rng.integers(0, 3))
        found.append(
            {
                "measure/size": [float(np.float32(label + rng.normal(0, 0.1))), float(np.float32(rng.normal()))],
                "measure/kind": int(label == 2),
                "tags": [int(one) for one in rng.integers(0, 9, rng.integers(0, 4))],
                "label": label,
                "file name": f"{seed}-{number}",
            }
        )
    return found
