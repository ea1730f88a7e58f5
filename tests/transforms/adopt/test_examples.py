"""What is seen in records, beside a plain loop over protobuf."""

import math

import foreign
import numpy as np
import pytest
import tensorflow as tf
from foreign import example, sequence_example

from beamfeed.transforms.adopt.examples import (
    Mixed,
    Name,
    Stats,
    add_features,
    empty_lists,
    has_steps,
    look_at,
    may_have_empty,
)
from beamfeed.transforms.adopt.scan import image_sizes


def test_types_lengths_and_extremes_are_those_of_a_plain_loop():
    rows = foreign.rows(200)
    found = look_at([example(row) for row in rows])
    assert set(found) == {Name(name) for name in rows[0]}
    for name in rows[0]:
        lists = [row[name] if isinstance(row[name], list) else [row[name]] for row in rows]
        there = [one for one in lists if one]
        seen = found[Name(name)]
        assert seen.records == len(there)
        assert (seen.shortest, seen.longest) == (min(map(len, there)), max(map(len, there)))
        assert seen.divisor == math.gcd(*map(len, there))
        flat = [value for one in there for value in one]
        if isinstance(flat[0], str):
            assert (seen.listed, seen.low) == ("bytes", min(map(len, flat)))
        else:
            assert seen.listed == ("float32" if isinstance(flat[0], float) else "int64")
            assert (seen.low, seen.high) == (min(flat), max(flat))


def test_what_is_watched_is_counted():
    values = [3, 1, 3, 3]
    seen = look_at([example({"y": value, "z": float(value)}) for value in values], frozenset(["y", "z"]))
    assert dict(seen[Name("y")].counts) == {1: 1, 3: 3}
    assert seen[Name("z")].moments.mean()[0] == pytest.approx(np.mean(values))
    assert seen[Name("z")].moments.std()[0] == pytest.approx(np.std(values))


def test_empty_lists_say_nothing_of_their_type():
    found = look_at([example({"a": []}), example({"b": 1.5}), example({"a": [7]})])
    assert (found[Name("a")].listed, found[Name("a")].records) == ("int64", 1)
    alone = look_at([example({"a": [], "b": 1.0})])
    assert alone[Name("a")] == Stats(empty=frozenset(["int64"]))
    assert add_features(alone, found)[Name("a")].listed == "int64"


def test_feature_lists():
    records = [
        sequence_example({"n": 1}, {"points": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "words": ["a", "b"]}),
        sequence_example({"n": 2}, {"points": [[1.0, 2.0]], "words": []}),
        sequence_example({"n": 3}, {"points": [], "words": ["c"]}),
    ]
    assert all(map(has_steps, records))
    found = look_at(records)
    points, words = found[Name("points", True)], found[Name("words", True)]
    assert (points.records, points.shortest, points.longest, points.widths) == (2, 1, 3, (2, 2))
    assert (words.listed, words.records, words.widths) == ("bytes", 2, (1, 1))
    assert found[Name("n")].high == 3
    odd = look_at([sequence_example({}, {"x": [[1], [2, 3]]})])
    assert odd[Name("x", True)].widths == (1, 2)


def test_an_example_has_no_steps():
    assert not any(map(has_steps, [b"", example({"a": [1] * 500}), example({})]))


def test_images_are_known_by_how_they_begin():
    found = look_at([example({"a": foreign.JPEG, "b": foreign.PNG, "c": b"text"}), example({"a": foreign.PNG})])
    assert [found[Name(name)].content for name in "abc"] == ["image", "image", ""]
    mixed = look_at([example({"a": [foreign.JPEG, b"text"]})])
    assert mixed[Name("a")].content == ""


def test_several_types_are_told_with_the_feature():
    one, other = look_at([example({"a": 1})]), look_at([example({"a": 1.0})])
    with pytest.raises(Mixed, match="feature 'a' has int64 in some records and float32 in others"):
        add_features(one, other)
    with pytest.raises(ValueError):  # noqa: PT011 - in the decoder's words
        look_at([example({"a": 1}), example({"a": 1.0})])


def test_what_is_no_example():
    with pytest.raises(ValueError, match=r"."):
        look_at([b"this is no protobuf at all"])


def test_numbers_that_are_not_finite():
    seen = look_at([example({"a": [1.0, float("nan"), float("inf")]})])[Name("a")]
    assert (seen.low, seen.high, seen.finite) == (1.0, 1.0, False)


def test_batches_add_up():
    rows = [example(row) for row in foreign.rows(90)]
    whole = look_at(rows)
    found = {}
    for at in range(0, 90, 13):
        found = add_features(found, look_at(rows[at : at + 13]))
    assert found == whole


def test_empty_lists_are_found_in_the_bytes():
    kinds = {"f": tf.train.Feature(float_list=tf.train.FloatList()), "b": tf.train.Feature(bytes_list={}), "i": []}
    none = {"full": [1, 2], "nothing": tf.train.Feature(), "text": b"\x12\x02\x1a\x00"}
    for record in (example({**kinds, **none}), sequence_example({**kinds, **none}, {"s": [[]]})):
        assert may_have_empty(record)
        assert dict(empty_lists(record)) == {"f": "float32", "b": "bytes", "i": "int64"}
    assert not may_have_empty(example({"full": [1, 2]}))
    assert list(empty_lists(example(none))) == []


def test_sizes_are_those_of_the_first_images(tmp_path):
    broken = tmp_path / "broken"
    broken.write_bytes(b"this is none")
    images = [foreign.JPEG, b"\xff\xd8\xff no more", foreign.PNG]
    shard = foreign.write(tmp_path / "a", [example({"image/encoded": one}) for one in images], "GZIP")
    paths = [str(broken), str(shard)]
    assert image_sizes(paths, "image/encoded") == [(4, 5), (4, 5)]
    assert image_sizes(paths, "another") == []
