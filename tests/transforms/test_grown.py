"""What becomes of two runs' notes, numbers and statistics where their files are one dataset."""

import json
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.dataset.manifest import Counts
from beamfeed.transforms.notes import Note, add_lines, to_line
from beamfeed.transforms.outcome import FAR, drift_of
from beamfeed.transforms.statistics.as_json import from_json, to_json
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample
from beamfeed.transforms.statistics.value_counts import ValueCounts


def test_notes_of_two_runs_are_those_of_one():
    notes = [Note("rows left out", f"day-{i}", 400 + i) for i in range(7)]
    runs = [to_line("rows left out", notes[:4]), "is cut off"], [to_line("rows left out", notes[4:]), "is cut off"]
    other = to_line("files without rows", [Note("files without rows", "x")])
    assert add_lines(runs[0], [*runs[1], other]) == [to_line("rows left out", notes), "is cut off", other]


def test_notes_of_two_runs_may_speak_of_the_same_assets():
    def line(*names, count=0):
        return to_line("rows left out", [Note("rows left out", name, count) for name in names])

    def together(*lines):
        (told,) = add_lines(lines[:1], lines[1:], apart=False)
        return told

    assert together(line("a", "b", count=2), line("b", "c", count=3)) == "rows left out: 10 in 3 assets (a, b, c)"
    many = together(line(*"abcde", count=1), line(*"bcdef", count=1))
    assert many == "rows left out: 10 in at least 5 assets (a, b, c and more)"
    assert together(many, line(*"abcdef", count=1)) == "rows left out: 16 in at least 6 assets (a, b, c and more)"
    assert add_lines([many], [line("z", count=1)]) == ["rows left out: 11 in at least 6 assets (a, b, c and more)"]


def test_counts_add_up():
    one = Counts(files=1, assets=2, rejected_assets=1, rejected_files=1, rows_read=10, rejected_rows=3)
    two = Counts(files=2, assets=4, rejected_assets=2, rejected_files=2, rows_read=20, rejected_rows=6)
    assert one + one == two
    assert two - one == one


def test_drift_is_in_deviations_of_the_first_run_and_told_where_it_is_far():
    def stats(**features: tuple[float | None, float | None]) -> dict:
        return {"features": {name: {"mean": mean, "std": std} for name, (mean, std) in features.items()}}

    before = stats(a=(1.0, 2.0), b=(0.0, 1.0), constant=(5.0, 0.0), empty=(None, None), gone=(0.0, 1.0))
    now = stats(a=(-3.0, 9.0), b=(FAR, 1.0), constant=(6.0, 0.0), empty=(1.0, 1.0), new=(3.0, 1.0))
    assert drift_of(before, now) == {"a": -2.0, "constant": 1.0}
    assert list(drift_of(before, now)) == ["a", "constant"]  # the farthest first


RNG = np.random.default_rng(3)
VALUES = RNG.normal(size=(50, 3)).astype("f4")
STATISTICS: list[tuple[object, Callable[[object], object]]] = [
    (Moments.of(VALUES), lambda one: one),
    (Moments.zero(2), lambda one: one),
    (
        RowSample.zero(VALUES.shape[1]).extend(VALUES, "a", np.arange(50)),
        lambda one: (one.hashes.tolist(), one.values.tolist(), one.settled),
    ),
    (ValueCounts.of(pa.array(["x", "ä\n", None, "x"]), 9), lambda one: (one.items(), one.most, one.over)),
    ((1, 0.1, None, "t", Fraction(1, 3), frozenset({"b", "a"}), {"k": (float("inf"),)}), lambda one: one),
]


@pytest.mark.parametrize(("value", "told"), STATISTICS, ids=lambda one: type(one).__name__)
def test_statistics_come_back_to_the_last_bit(value, told):
    assert told(from_json(json.loads(json.dumps(to_json(value))))) == told(value)


@pytest.mark.parametrize(
    "told",
    [
        {"is": "os:system", "value": {}},
        {"is": "tracing:Tracing", "value": {}},
        {"is": "statistics.moments:np", "value": {}},
        {"is": "nothing", "value": 1},
        [1],
    ],
)
def test_a_file_makes_nothing_but_statistics(told):
    with pytest.raises((ValueError, ImportError)):
        from_json(told)


def test_what_has_no_form_is_refused():
    with pytest.raises(TypeError, match="object has no form"):
        to_json(object())
