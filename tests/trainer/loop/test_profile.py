"""Which steps are recorded, and how many run in a call."""

import argparse

import pytest

from beamfeed.contract.arguments import steps as checked
from beamfeed.trainer.loop.profile import StepProfile
from beamfeed.trainer.loop.start import step_range


@pytest.mark.parametrize(("text", "steps"), [("100-110", (100, 110)), ("7", (7, 7)), ("1-1", (1, 1))])
def test_ranges(text, steps):
    assert step_range(checked(text)) == steps


@pytest.mark.parametrize("text", ["", "0-3", "5-4", "a-b", "1-2-3", "-3", "1.5"])
def test_what_is_no_range_is_one_line(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not like 100-110, the first and the last step"):
        checked(text)


def test_calls_end_where_the_range_begins_and_are_of_one_step_in_it():
    profile = StepProfile((5, 7), "")
    calls, step = [], 0
    while step < 30:
        steps = min(10, profile.limit(step))
        calls.append((step + 1, step + steps))
        step += steps
    assert calls == [(1, 4), (5, 5), (6, 6), (7, 7), (8, 17), (18, 27), (28, 37)]
    assert StepProfile(None, "").limit(3) > 10**9
