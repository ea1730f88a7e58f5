"""Encoded records against protobuf, for every sort of field."""

from typing import get_args

import datasets
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorflow_metadata.proto.v0 import schema_pb2

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, LISTED, Dtype, Field
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.records.example_encoder import encode_examples, schema_text, varints
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock

INT64 = st.integers(-(2**63), 2**63 - 1)
FIXED = [(), (3,), (2, 2)]
SHAPES = [*FIXED, (None,), (None, 2)]
RAW = [dtype for dtype in get_args(Dtype) if dtype not in LISTED]


def entries(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "float32":
        return rng.normal(size=shape).astype("f4")
    if dtype == "int64":
        return rng.integers(-(2**62), 2**62, shape) >> rng.integers(0, 63, shape)
    if dtype in RAW:
        return rng.integers(-(2**40), 2**40, shape).astype(dtype)
    found = np.empty(shape, object)
    for at in np.ndindex(shape):
        found[at] = rng.bytes(int(rng.choice([0, 1, 5, 127, 128, 300])))
    return found


def column(values: np.ndarray, dtype: str):
    return pa.array(values.reshape(-1).tolist(), pa.binary()) if dtype == "bytes" else values


def draw_values(rng: np.random.Generator, field: Field, count: int):
    """`count` values of a field, as the block has them and one by one."""
    if not field.is_ragged:
        values = entries(rng, field.dtype, (count, *field.shape))
        return column(values, field.dtype), list(values)
    lengths = rng.integers(0, 4, count)
    values = entries(rng, field.dtype, (int(lengths.sum()), *field.shape[1:]))
    return Ragged(column(values, field.dtype), lengths), np.split(values, np.cumsum(lengths)[:-1])


@st.composite
def blocks(draw):
    """Fields, a block of records that share rows, and the same records value by value."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    windows = Windows(length=draw(st.integers(1, 4)), stride=draw(st.integers(1, 3)))
    fields = [Field(name="x", dtype="float32", shape=(2,), role="input")]
    for i in range(draw(st.integers(0, 4))):
        dtype, per = (
            draw(st.sampled_from([*LISTED, draw(st.sampled_from(RAW))])),
            draw(st.sampled_from(["row", "window", "record"])),
        )
        name = draw(st.sampled_from(["a", "X", "y_", "z"])) + str(i)
        shape = draw(st.sampled_from(SHAPES if dtype in LISTED else FIXED))
        fields.append(Field(name=name, dtype=dtype, shape=shape, role="key", per=per))
    rows = np.array(draw(st.lists(st.integers(windows.length, 12), max_size=4)), np.int64)
    height = int(max(rows, default=0)) + draw(st.integers(0, 5))
    first = np.array([draw(st.integers(0, height - size)) for size in rows.tolist()], np.int64)
    counts = count_windows(rows, windows.length, windows.stride)
    values, expected = {}, [{} for _ in rows]
    for field in fields:
        total = {"row": height, "window": int(counts.sum()), "record": len(rows)}[field.per]
        values[field.name], one_by_one = draw_values(rng, field, total)
        ends = np.cumsum(counts)
        for i in range(len(rows)):
            low, high = {
                "row": (first[i], first[i] + rows[i]), "window": (ends[i] - counts[i], ends[i]), "record": (i, i + 1),
            }[field.per]  # fmt: skip
            expected[i][field.name] = one_by_one[low:high]
    return fields, windows, RecordBlock("m", first, rows, values), expected


@given(blocks())
@settings(max_examples=200, deadline=None)
def test_records_hold_what_protobuf_writes(drawn):
    fields, windows, block, expected = drawn
    encoded = list(encode_examples(block, fields, windows))
    assert len(encoded) == len(expected)
    for record, values in zip(encoded, expected, strict=True):
        found, wanted = (
            tf.train.Example.FromString(record),
            tf.train.Example.FromString(datasets.encode(values, fields)),
        )
        assert found == wanted
        assert len(record) == wanted.ByteSize()


@given(blocks())
@settings(max_examples=30, deadline=None)
def test_features_stand_in_alphabetical_order(drawn):
    fields, windows, block, _ = drawn
    for record in encode_examples(block, fields, windows):
        names = sorted([f.name for f in fields] + [f.name + LENGTHS for f in fields if f.is_ragged])
        places = [record.index(b"\x0a" + bytes([len(name)]) + name.encode() + b"\x12") for name in names]
        assert places == sorted(places)


@given(st.lists(INT64, max_size=50))
@settings(deadline=None)
def test_varints_are_those_of_protobuf(numbers):
    data, at = varints(np.array(numbers, np.int64))
    packed = tf.train.Int64List(value=numbers).SerializeToString()
    assert packed.endswith(data)
    assert at[-1] == len(data)
    for i, number in enumerate(numbers):
        one = tf.train.Int64List(value=[number]).SerializeToString()
        assert one[2:] == data[at[i] : at[i + 1]]


X = Field(name="x", dtype="float32", shape=(2,), role="input")
WRONG = {
    "another number of rows": (
        Field(name="y", dtype="int64", role="key"), np.arange(9), "field 'y' has 9 rows, 'x' has 10",
    ),
    "another number of windows": (
        Field(name="y", dtype="float32", role="target", per="window"), np.zeros(4, "f4"),
        "field 'y' has 4 values, one for each window, 'x' has 3 windows",
    ),
    "another number of records": (
        Field(name="y", dtype="bytes", role="key", per="record"), pa.array([b"a"] * 2),
        "field 'y' has 2 values, one for each record, 'x' has 1 records",
    ),
    "another shape": (
        Field(name="y", dtype="int64", shape=(3,), role="key"), np.zeros((10, 2), "i8"),
        "field 'y' has the shape [3], its values have another one",
    ),
    "half a value": (
        Field(name="y", dtype="bytes", shape=(3,), role="key"), pa.array([b"a"] * 10),
        "field 'y' has the shape [3], its values have another one",
    ),
    "lengths that do not add up": (
        Field(name="y", dtype="int64", shape=(None,), role="key"), Ragged(np.arange(10), np.full(10, 2)),
        "field 'y' has 10 entries, its lengths add up to 20",
    ),
    "no lengths": (
        Field(name="y", dtype="int64", shape=(None,), role="key"), np.arange(10),
        "field 'y' has the shape [None], its values are ndarray",
    ),
    "nothing": (Field(name="y", dtype="int64", role="key"), None, "field 'y' is missing"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_values_that_do_not_fit_are_refused(case):
    field, values, message = WRONG[case]
    held = {"x": np.zeros((10, 2), "f4")} | ({} if values is None else {"y": values})
    block = RecordBlock("m", np.array([0]), np.array([10]), held)
    with pytest.raises(JobFailed) as caught:
        list(encode_examples(block, [X, field], Windows(length=6, stride=2)))
    assert str(caught.value) == f"job failed: asset 'm': {message}"


def test_records_outside_of_the_rows_are_refused():
    block = RecordBlock("m", np.array([4]), np.array([7]), {"x": np.zeros((10, 2), "f4")})
    with pytest.raises(JobFailed, match=r"field 'x' has 10 rows, the records reach to row 11"):
        list(encode_examples(block, [X], Windows(length=1)))


def test_the_schema_names_every_feature():
    fields = [
        X,
        Field(name="who", dtype="bytes", role="key", per="record"),
        Field(name="words", dtype="bytes", shape=(None,), role="input"),
        Field(name="y", dtype="int64", role="target", per="window"),
    ]
    schema = text_format.Parse(schema_text(fields), schema_pb2.Schema())
    kinds = {feature.name: feature.type for feature in schema.feature}
    assert kinds == {"x": 3, "who": 1, "words": 1, "words.lengths": 2, "y": 2}
