"""Values of a command line, and how a command line is written from them."""

import argparse

import pytest

from beamfeed.contract.arguments import flag, option, repeated, steps
from beamfeed.contract.program import Program


@pytest.mark.parametrize(("text", "range_of_steps"), [("100-110", (100, 110)), ("7", (7, 7)), ("1-1", (1, 1))])
def test_ranges_of_steps(text, range_of_steps):
    assert steps(text) == range_of_steps


@pytest.mark.parametrize("text", ["", "0-3", "5-4", "a-b", "1-2-3", "-3", "7-", "1.5", " 1-1 "])
def test_what_is_no_range_of_steps_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r" is not like 100-110, the first and the last step"):
        steps(text)


PROGRAM = Program(
    "beamfeed.example",
    "Is an example.",
    "job.yaml",
    (option("job", help="the job"),),
    (
        repeated("--set", "KEY=VALUE", "a value"),
        (flag("--restart", "anew"), option("--from-step", type=int, help="from here")),
        option("--steps", type=steps, help="recorded"),
        option("--windows", type=int, default=3, help="shown"),
    ),
    beam="after --",
)
VALUES = [
    {"job": "job.yaml"},
    {"job": "job.yaml", "set": ["a=1", "-b=2", "c=--"], "restart": True, "windows": 0},
    {"job": "a job.yaml", "from_step": 7, "steps": steps("2-3"), "windows": 3},
]


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("beam_options", [[], ["--runner=DirectRunner", "--flag"]])
def test_a_program_reads_the_command_line_that_is_written_for_it(values, beam_options):
    default = {"set": [], "restart": False, "from_step": None, "steps": None, "windows": 3}
    arguments = PROGRAM.arguments({**values, "of_another_program": 1}, beam_options)
    assert vars(PROGRAM.parse(arguments)) == {**default, **values, "beam_options": beam_options}


def test_a_path_that_begins_like_an_option_stays_a_path():
    assert PROGRAM.parse(PROGRAM.arguments({"job": "-odd.yaml"})).job == "./-odd.yaml"
