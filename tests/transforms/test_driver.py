"""The operations of a driver give the same in this process and in Beam."""

from operator import add

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beamfeed.transforms.beam_driver import OnBeam
from beamfeed.transforms.driver import Driver

WORDS = ["a", "bb", "cc", "a", "dddd"]


def letters(driver, words):
    return driver.flat_map("Letters", words, lambda word, more: (*word, more), "!")


def same_length(driver, words):
    groups = driver.group("SameLength", words, len)
    return driver.map("InOrder", groups, lambda group: (group[0], sorted(group[1])))


def with_total(driver, words):
    lengths = driver.map("Lengths", words, len)
    return driver.map("WithTotal", lengths, add, driver.single(driver.add_up("Total", lengths, 0)))


def sum_of_nothing(driver, words):
    return driver.add_up("Total", driver.flat_map("Nothing", words, lambda _: ()), 0)


def how_many(driver, words):
    return driver.map("Count", driver.once("Once"), lambda _, every: len(every), driver.every(words))


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (letters, [*"a!bb!cc!a!dddd!"]),
        (same_length, [(1, ["a", "a"]), (2, ["bb", "cc"]), (4, ["dddd"])]),
        (with_total, [11, 12, 12, 11, 14]),
        (sum_of_nothing, [0]),
        (how_many, [5]),
    ],
)
def test_operations_give_the_same_in_this_process_and_in_beam(steps, expected):
    assert sorted(steps(Driver(), WORDS)) == sorted(expected)
    with beam.Pipeline("FnApiRunner") as pipeline:
        assert_that(steps(OnBeam(pipeline, ""), pipeline | beam.Create(WORDS)), equal_to(expected))
