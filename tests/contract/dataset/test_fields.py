"""Fields of records."""

import pytest
from pydantic import ValidationError

from beamfeed.contract.dataset.fields import Field


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
        ({"name": "a b"}, "pattern"),
        ({"dtype": "float80"}, "float32"),
    ],
)
def test_what_cannot_be_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        field(**changes)
