"""The steps of the graph, each against plain Python."""

import datetime
import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.config.features import DATE_PARTS, Numeric, Text
from beamfeed.transforms.sources.table.graph import bucket_of, date_parts, hashed, on_circle, scaled, spread
from beamfeed.transforms.sources.table.rows import NO_TIME
from beamfeed.transforms.sources.table.schema import NamedFeature
from beamfeed.transforms.sources.table.words import words_of

UTC = datetime.UTC


@given(st.lists(st.datetimes(datetime.datetime(1600, 1, 1), datetime.datetime(2999, 12, 31)), min_size=1, max_size=9))
def test_parts_of_dates_are_those_of_datetime(moments):
    seconds = [math.floor(moment.replace(tzinfo=UTC).timestamp()) for moment in moments]
    found = date_parts(tf.constant([*seconds, NO_TIME], tf.int64), list(DATE_PARTS))
    for place, moment in enumerate(moments):
        expected = moment.minute, moment.hour, moment.weekday(), moment.day - 1, moment.month - 1
        assert tuple(int(found[name][place]) for name in DATE_PARTS) == expected
    assert all(found[name][-1] == -1 for name in DATE_PARTS)


def test_neighbours_on_a_circle():
    sine, cosine = (one.numpy() for one in on_circle(tf.constant([-1, 0, 3, 6, 9, 11]), 12))
    np.testing.assert_allclose(sine, [0, 0, 1, 0, -1, -0.5], atol=1e-6)
    np.testing.assert_allclose(cosine, [0, 1, 0, -1, 0, math.sqrt(3) / 2], atol=1e-6)


def test_numbers():
    sections = [
        Numeric(type="numeric", scale="none", missing=7.0),
        Numeric(type="numeric", scale="log"),
        Numeric(type="numeric", clip=2.0),
    ]
    features = [NamedFeature(str(i), section, (str(i),)) for i, section in enumerate(sections)]
    rows = np.array([[0, 1, 10], [1, 2, 5], [7, 3, 10]], np.float32)
    values = np.array([[3, math.e - 1, 15], [np.nan, -(math.e - 1), -99], [np.inf, np.nan, np.nan]], np.float32)
    found, missing = scaled(tf.constant(values), tf.constant(rows), features)
    np.testing.assert_allclose(found, [[3, 0, 1], [7, -1, -2], [7, 1, 0]], atol=1e-6)
    assert missing.numpy().tolist() == [[False] * 3, [True, False, False], [True, True, True]]


def test_buckets_and_what_is_missing():
    found = bucket_of(tf.constant([0.5, 1, 1.5, 2, 9, np.nan, -np.inf]), tf.constant([1.0, 2.0]))
    assert found.numpy().tolist() == [1, 2, 2, 3, 3, 0, 0]


def test_unseen_values_are_spread_and_missing_ones_are_not():
    texts = tf.constant(["", "seen", "x", "y", "z", "other"])
    place = tf.constant([-1, 1, -1, -1, -1, 2], tf.int64)
    assert spread(place, texts, 1).numpy().tolist() == [0, 2, 1, 1, 1, 3]
    found = spread(place, texts, 4).numpy()
    assert (found[0], found[1], found[5]) == (0, 5, 6)
    assert set(found[2:5]) <= {1, 2, 3, 4}
    hashes = hashed(texts, 5).numpy()
    assert hashes[0] == 0
    assert (hashes[1:] >= 1).all()
    assert (hashes[1:] <= 5).all()


@pytest.mark.parametrize(
    ("section", "text", "expected"),
    [
        ({}, "Don't WAIT, call 0800-12!", ["don't", "wait", ",", "call", "0800", "-", "12", "!"]),
        ({}, "Größe\u00a0\tЖ 日本 a\u0301", ["größe", "ж", "日本", "a\u0301"]),
        ({"lower": False}, "Ab cD", ["Ab", "cD"]),
        ({"split": "spaces"}, " a,b  c! ", ["a,b", "c!"]),
        ({"split": "characters"}, "Ab ü", ["a", "b", " ", "ü"]),
        ({}, "", []),
        ({}, " \n ", []),
    ],
)
def test_words(section, text, expected):
    (found,) = words_of(tf.constant([text]), Text(type="text", **section)).to_list()
    assert [word.decode() for word in found] == expected
