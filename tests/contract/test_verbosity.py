"""How much the processes of a run tell."""

import logging

import pytest

from beamfeed.contract.verbosity import VARIABLE, log_level, note, set_verbosity


@pytest.mark.parametrize(
    ("quiet", "verbose", "level", "message"),
    [
        (False, False, logging.WARNING, "a line\n"),
        (True, False, logging.ERROR, ""),
        (False, True, logging.INFO, "a line\n"),
    ],
)
def test_it_is_handed_down(monkeypatch, capsys, quiet, verbose, level, message):
    env = {}
    set_verbosity(env, quiet, verbose)
    monkeypatch.setenv(VARIABLE, env.get(VARIABLE, ""))
    note("a line")
    assert (log_level(), capsys.readouterr().err) == (level, message)


def test_without_a_wish_it_stays():
    env = {VARIABLE: "quiet"}
    set_verbosity(env, quiet=False, verbose=False)
    assert env == {VARIABLE: "quiet"}
