import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beamfeed.transforms.records.example_encoder import encode_examples, schema_text
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Segments

INT64 = st.integers(-(2**63), 2**63 - 200)


@given(asset=st.text(max_size=300), position=INT64, time=INT64, sizes=st.lists(st.integers(1, 40), max_size=4))
@settings(max_examples=100, deadline=None)
def test_tensorflow_reads_what_was_encoded(asset, position, time, sizes):
    size = sum(sizes) + 1
    values = np.random.default_rng(0).normal(size=(size, 3)).astype("f4")
    offset = np.arange(size)
    rows = Rows(position + offset, time + offset, values, np.zeros(size, bool))
    first = np.cumsum([0, *sizes])[:-1].astype(np.int64)
    segments = Segments(first, np.array(sizes, np.int64))
    encoded = list(encode_examples(asset, rows, values, segments))
    assert len(encoded) == len(sizes)
    spec = {
        "asset": tf.io.FixedLenFeature([], tf.string),
        "start": tf.io.FixedLenFeature([], tf.int64),
        "first_time": tf.io.FixedLenFeature([], tf.int64),
        "last_time": tf.io.FixedLenFeature([], tf.int64),
        "values": tf.io.RaggedFeature(tf.float32),
    }
    for record, at, count in zip(encoded, first, sizes, strict=True):
        parsed = tf.io.parse_example([record], spec)
        assert parsed["asset"][0].numpy().decode() == asset
        assert parsed["start"][0] == position + at
        assert parsed["first_time"][0] == time + at
        assert parsed["last_time"][0] == time + at + count - 1
        np.testing.assert_array_equal(parsed["values"][0].numpy().reshape(-1, 3), values[at : at + count])
        example = tf.train.Example.FromString(record)
        assert sorted(example.features.feature) == sorted(spec)
        assert len(record) == example.ByteSize()


def test_schema_names_every_feature():
    schema = text_format.Parse(schema_text(), schema_pb2.Schema())
    assert {feature.name for feature in schema.feature} == {"asset", "first_time", "last_time", "start", "values"}
