"""A small share of `make torture`, and whether its oracle and its checks would notice anything at all."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from torture.check import Outcome, Problem, find_problems
from torture.damage import DAMAGES
from torture.fleet import Plan, make_fleet
from torture.kept import Kept
from torture.kinds import KINDS
from torture.one import Result, build, choose_plan, run_one, write_job
from torture.oracle import Window, expect, split_by_hash
from torture.rows import fill_column

FLEETS = 16


def test_there_are_many_kinds_of_damage_and_each_says_what_must_happen():
    assert len(DAMAGES) >= 60
    assert all(one.apply.__doc__.strip().endswith(".") for one in DAMAGES.values())


@pytest.mark.parametrize("name", sorted(DAMAGES))
def test_every_damage_makes_a_fleet_of_which_the_oracle_knows_what_must_come_out(tmp_path, name):
    damage = DAMAGES[name]
    wants = {key: want[0] if isinstance(want, list) else want for key, want in damage.wants.items()}
    wants |= {"naming": "pattern"} if wants.get("split") == "path" else {}
    plan = Plan(seed=1, damages=(name,), kind=damage.kinds[0], **wants)
    if plan.features > 4:
        plan = replace(plan, features=400)
    fleet, kind = build(plan), KINDS[plan.kind]
    kind.write(fleet, tmp_path)
    write_job(fleet, tmp_path, tmp_path / "job.yaml")
    expected = kind.expect(deepcopy(fleet))
    made = expected.windows if plan.kind == "timeseries" else expected.rows
    assert expected.exits != {0} or made["train"]


def test_the_oracle_by_hand():
    fleet = make_fleet(Plan(seed=3, assets=4, features=1, rows=20, length=4, stride=2))
    expected = expect(deepcopy(fleet))
    part = fleet.parts[0]
    split = split_by_hash("m0", fleet.job["split"])
    own = {key: window for key, window in expected.windows[split].items() if key[0] == "m0"}
    assert sorted(key[1] for key in own) == list(range(0, len(part) - 3, 2))
    np.testing.assert_array_equal(own["m0", 2].values, part.values[2:6])
    assert (own["m0", 2].first_time, own["m0", 2].last_time) == (part.time[2], part.time[5])


def test_filling_by_hand():
    nan = float("nan")
    rules = {"fill": "forward", "limit": 2, "then": "drop", "value": 9}
    np.testing.assert_equal(fill_column([nan, 1, nan, nan, nan, 5], rules), [nan, 1, 1, 1, nan, 5])
    np.testing.assert_equal(fill_column([0, nan, nan, 6], rules | {"fill": "linear"}), [0, 2, 4, 6])
    np.testing.assert_equal(fill_column([0, nan, nan, nan, 8], rules | {"fill": "linear"}), [0, nan, nan, nan, 8])
    np.testing.assert_equal(fill_column([nan, 3], rules | {"then": "constant"}), [9, 3])


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[Outcome, Plan]:
    """A fleet that came out as expected, and what is on the disk of it."""
    folder = tmp_path_factory.mktemp("ran")
    plan = Plan(seed=5, damages=("truncated",), assets=6, rows=40, scale="standard")
    result = run_one(plan, folder / "fleet")
    assert result.problems == []
    temporary = folder / "fleet" / "tmp"
    return Outcome(0, "", "", "", 1.0, folder / "fleet" / "data", temporary, False), plan


def _some(windows: dict) -> tuple:
    return next(iter(windows["train"]))


CHANGES = {
    "a window that should not be there": (lambda e: e.windows["train"].pop(_some(e.windows)), "wrong window"),
    "a window that is lost": (
        lambda e: e.windows["eval"].update({("m9", 0): Window(0, 0, np.zeros((8, 2), "f4"), None)}), "silent loss"),
    "a value": (lambda e: e.windows["train"][_some(e.windows)].values.__iadd__(0.01), "wrong window"),
    "a time": (
        lambda e: e.windows["train"].update(
            {key: replace(window, first_time=1) for key, window in e.windows["train"].items()}), "wrong window"),
    "a window in another split": (
        lambda e: e.windows["test"].update([(key := _some(e.windows), e.windows["train"].pop(key))]), "silent loss"),
    "a reject that is not there": (lambda e: e.rejects.append(replace(e.rejects[0], asset="m77")), "reject"),
    "a reject too many": (lambda e: e.rejects.clear(), "reject"),
    "another reason": (lambda e: e.rejects.append(replace(e.rejects.pop(), reason="sunshine")), "reason"),
    "rows": (lambda e: setattr(e, "rows_read", e.rows_read + 1), "counts"),
    "a statistic": (lambda e: e.training.__iadd__(1), "statistics"),
    "an exit code": (lambda e: setattr(e, "exits", {1}), "exit code"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_check_notices(ran, change):
    outcome, plan = ran
    expected = expect(build(plan))
    assert find_problems(outcome, expected) == []
    make, kind = CHANGES[change]
    make(expected)
    assert kind in {problem.kind for problem in find_problems(outcome, expected)}


MANNERS = {
    "a traceback": ({"raised": "Traceback ...\nValueError: 1"}, "traceback"),
    "two lines": ({"code": 1, "err": "one\ntwo\n"}, "lines"),
    "something on stderr": ({"process": True, "err": "WARNING: what\n"}, "lines"),
    "a long time": ({"seconds": 1e4}, "hang"),
}


@pytest.mark.parametrize("manner", MANNERS)
def test_the_check_notices_bad_manners(ran, manner):
    outcome, plan = ran
    changes, kind = MANNERS[manner]
    expected = expect(build(plan))
    assert kind in {problem.kind for problem in find_problems(replace(outcome, **changes), expected)}


def test_results_are_kept_and_a_line_that_was_cut_off_is_not(tmp_path, monkeypatch):
    path = tmp_path / "out" / "results.jsonl"
    results = [Result(choose_plan(seed), [Problem("hang", "x")], 1.5, None) for seed in range(3)]
    for result in results[:2]:
        Kept(str(path)).add(result)
    path.write_text(path.read_text()[:-9])
    Kept(str(path)).add(results[2])
    assert list(Kept(str(path)).results.values()) == [results[0], results[2]]
    monkeypatch.setattr("torture.kept.digest_of_code", lambda: "another")
    assert Kept(str(path)).results == {}


@pytest.mark.slow
def test_some_fleets(tmp_path: Path):
    from tests.fast import keep_what_beam_works_out

    keep_what_beam_works_out()
    wrong = {}
    for seed in range(0, FLEETS * 7, 7):
        result = run_one(choose_plan(seed), tmp_path / str(seed))
        if result.problems:
            wrong[seed] = result.plan.damages, result.problems[:2]
    assert not wrong, f"python -m tests.torture.run --only {next(iter(wrong))}\n{wrong}"
