"""Hashes of texts: the same for the same text however a column is cut, and spread evenly."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.transforms.statistics.hashes import hash_texts


def one_by_one(texts, seed):
    """The same hash in plain Python."""
    most = 1 << 64

    def mix(h):
        h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9 % most
        h = (h ^ (h >> 27)) * 0x94D049BB133111EB % most
        return h ^ (h >> 31)

    found = []
    for text in texts:
        data = (text or "").encode()
        h = mix((len(data) * 0x9E3779B97F4A7C15 + (seed % most ^ 0x5851F42D4C957F2D)) % most)
        for at in range(0, len(data), 8):
            h = mix((h ^ int.from_bytes(data[at : at + 8], "little")) * 0x9E3779B97F4A7C15 % most)
        found.append(h)
    return found


@settings(max_examples=40)
@given(st.lists(st.text(max_size=40) | st.none(), max_size=30), st.integers(-5, 10), st.integers(0, 5))
def test_is_what_plain_python_finds_in_any_slice(texts, seed, skip):
    column = pa.array(texts, pa.string()).slice(skip)
    assert hash_texts(column, seed).tolist() == one_by_one(texts[skip:], seed)


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_types_of_columns_make_no_difference(type_):
    texts = ["a", "bcdefghijkl", None, "", "a"]
    assert hash_texts(pa.array(texts, pa.string()).cast(type_), 7).tolist() == one_by_one(texts, 7)


def test_it_is_the_same_in_another_process():
    program = (
        "import pyarrow as pa; from beamfeed.transforms.statistics.hashes import hash_texts; "
        "print(hash_texts(pa.array(['7', 'x' * 99]), 3).tolist())"
    )
    told = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert told == str(one_by_one(["7", "x" * 99], 3)) + "\n"


def test_numbers_in_order_fall_evenly():
    hashes = hash_texts(pa.array([str(number) for number in range(20_000)]), 7)
    shares = np.histogram(hashes / 2.0**64, 10, (0, 1))[0] / 20_000
    assert np.abs(shares - 0.1).max() < 0.01
    assert len(np.unique(hashes)) == 20_000
