"""Fields of records."""

import numpy as np
import pytest
from pydantic import ValidationError

from beamfeed.contract.dataset.fields import BYTES, Field, field_name, is_field_name


def field(**changes) -> Field:
    return Field(**{"name": "x", "dtype": "float32", "role": "input", **changes})


@pytest.mark.parametrize(
    ("shape", "dtype", "width", "size"),
    [
        ((), "float32", 1, 4),
        ((8,), "float32", 8, 32),
        ((28, 28, 1), "int64", 784, 6272),
        ((None,), "float32", 1, None),
        ((None, 3), "float32", 3, None),
        ((), "bytes", 1, None),
        ((2, 3), "uint8", 6, 6),
        ((), "complex128", 1, 16),
    ],
)
def test_sizes_follow_from_the_shape(shape, dtype, width, size):
    found = field(shape=shape, dtype=dtype)
    assert (found.width, found.bytes, found.is_ragged) == (width, size, None in shape)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (3, None)}, "only the first axis may be of any length"),
        ({"shape": (0,)}, "only the first axis may be of any length"),
        ({"shape": (2,), "columns": ["a"]}, r"1 columns for the shape \[2\]"),
        ({"columns": ["a"]}, r"1 columns for the shape \[\]"),
        ({"name": "a b"}, "'a b' is not a field name"),
        ({"dtype": "float128"}, "float32"),
        ({"dtype": "uint8", "shape": (None,)}, "uint8 of any length; only float32, int64, bytes may be"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        field(**changes)


def test_the_bytes_of_each_dtype_are_those_of_numpy():
    for dtype, size in BYTES.items():
        assert size == (8 if dtype == "bytes" else np.dtype(dtype).itemsize)


@pytest.mark.parametrize(("dtype", "listed", "width"), [("float32", "float32", 6), ("float16", "bytes", 1)])
def test_what_an_example_cannot_list_is_a_string_a_value(dtype, listed, width):
    found = field(dtype=dtype, shape=(2, 3))
    assert (found.listed, found.listed_width, found.is_raw) == (listed, width, listed == "bytes")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hours-per-week", "hours_per_week"), (" a  b ", "a_b"), ("a__b", "a__b"), ("1st", "_1st"), ("***", "_"),
        ("温度", "温度"), ("压力 (kPa)", "压力_kPa"), ("é ü", "é_ü"), ("तापमान", "तापमान"), ("m²", "m2"), ("٣x", "_٣x"),
        ("Größe/Höhe", "Größe_Höhe"), ("a\nb", "a_b"), ("", "_"), ("e\u0301t\u00e9", "e\u0301t\u00e9"), ("❤x", "x"),
    ],
)  # fmt: skip
def test_a_field_keeps_the_letters_of_its_column(text, name):
    assert field_name(text) == name
    assert is_field_name(name)
    assert field(name=name).name == name
    assert is_field_name(text) == (text == name)
