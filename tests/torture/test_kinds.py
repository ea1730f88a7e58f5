"""Whether what is expected of tables and arrays would notice anything at all."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from torture.check import Outcome, find_problems
from torture.fleet import Plan
from torture.kinds import KINDS, kind_of
from torture.kinds.rows import UNLABELLED
from torture.one import build, run_one
from torture.write import write_fleet

PLANS = {
    "table": Plan(
        5, ("a_short_line",), kind="table", format="csv", features=2, label="end", weighted=True, missing=0.1
    ),
    "array": Plan(14, ("nan_in_an_input",), kind="array", rows=20, label="classes", weighted=True, missing=0.1),
}


@pytest.fixture(scope="module", params=PLANS)
def ran(request, tmp_path_factory):
    """A dataset that came out as expected, what was expected, and how the two are compared."""
    plan, folder = PLANS[request.param], tmp_path_factory.mktemp(request.param)
    result = run_one(plan, folder / "fleet")
    assert result.problems == []
    kind, fleet = KINDS[plan.kind], build(plan)
    kind.write(fleet, tmp_path_factory.mktemp("again"))  # which tells the job the files of arrays
    outcome = Outcome(0, "", "", "", 1.0, folder / "fleet" / "data", folder / "fleet" / "tmp", False)
    return outcome, kind.expect(fleet), kind.compare


def _some(expected) -> dict:
    return next(iter(expected.rows["train"].values()))


CHANGES = {
    "a row that should not be there": (lambda e: e.rows["train"].popitem(), "wrong window"),
    "a row that is lost": (lambda e: e.rows["eval"].update({next(iter(e.rows["train"])): {}}), "silent loss"),
    "a value": (lambda e: _some(e).update({name: value + 1 for name, value in _some(e).items()
                                           if np.asarray(value).dtype.kind in "fi"}), "wrong window"),
    "a field": (lambda e: _some(e).update(more=1), "wrong window"),
    "a reject that is not there": (lambda e: e.row_rejects.append(replace(e.row_rejects[0], reason="moon")), "reason"),
    "a reject too many": (lambda e: e.row_rejects.clear(), "reject"),
    "rows without a label": (lambda e: e.left_out.update({UNLABELLED: 12345}), "counts"),
    "a statistic": (lambda e: e.numbers.update({name: v + 1 for name, v in e.numbers.items()}), "statistics"),
    "an exit code": (lambda e: setattr(e, "exits", {1}), "exit code"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_the_check_notices(ran, change):
    outcome, expected, compare = ran
    assert find_problems(outcome, expected, compare) == []
    other = deepcopy(expected)
    make, kind = CHANGES[change]
    make(other)
    assert kind in {problem.kind for problem in find_problems(outcome, other, compare)}


def test_every_eighth_seed_is_a_table_or_arrays_and_the_others_are_numbered_without_a_hole():
    kinds = [kind_of(seed) for seed in range(160)]
    assert [kind for kind, _ in kinds].count("table") == [kind for kind, _ in kinds].count("array") == 10
    for name in KINDS:
        assert [number for kind, number in kinds if kind == name] == list(range(sum(k == name for k, _ in kinds)))
    assert KINDS["table"].write is write_fleet
