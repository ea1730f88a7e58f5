"""Scores against known events: by plain loops over thresholds, and by scikit-learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

from beamfeed.transforms.scoring.judging import BINS, LINEAR, STEP, Counts, Judge, at_or_over, bins_of
from beamfeed.transforms.scoring.tails import MOST_RARE


def runs(flags: list[bool]) -> list[list[int]]:
    found: list[list[int]] = []
    for row in [row for row, flag in enumerate(flags) if flag]:
        if found and found[-1][-1] == row - 1:
            found[-1].append(row)
        else:
            found.append([row])
    return found


@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=30))
def test_counts_at_every_threshold(rows):
    scores, unusual = [score for score, _ in rows], [flag for _, flag in rows]
    counts = Counts()
    bins = counts.add((np.array(scores) + 0.5) * STEP, np.array(unusual))
    events = runs(unusual)
    for event in events:
        counts.add_event(int(bins[event].max()), len(event))
    for cut in range(8):
        over = [score >= cut for score in scores]
        expected = {
            "inside": sum(flag and said for flag, said in zip(unusual, over, strict=True)),
            "outside": sum(said and not flag for flag, said in zip(unusual, over, strict=True)),
            "adjusted": sum(len(event) for event in events if any(over[row] for row in event)),
            "events": sum(any(over[row] for row in event) for event in events),
        }
        assert {name: at_or_over(value)[cut] for name, value in vars(counts).items()} == expected


def test_areas_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    judge, said, truth = Judge({"a": np.array([[20.0, 39.0], [200.0, 229.0]]), "b": np.array([[5.0, 9.0]])}, 10), [], []
    for asset in "abc":
        unusual = np.zeros(300, bool)
        if asset == "a":
            unusual[20:40] = unusual[200:230] = True
        if asset == "b":
            unusual[5:10] = True
        scores = (
            rng.integers(0, 4000, 300) + unusual * 2000
        ) * STEP + STEP / 2  # sums of floats would part what is equal
        judge.add(asset, np.arange(300.0), scores, scores > 4)
        said.append(scores)
        truth.append(unusual)
    verdict = judge.verdict()
    assert verdict["auc_pr"] == pytest.approx(average_precision_score(np.concatenate(truth), np.concatenate(said)))
    assert verdict["auc_roc"] == pytest.approx(roc_auc_score(np.concatenate(truth), np.concatenate(said)))
    assert verdict["events"] == 3
    events = [said[at][first:end] for at, first, end in ((0, 20, 40), (0, 200, 230), (1, 5, 10))]
    precision, _, cuts = precision_recall_curve(np.concatenate(truth), np.concatenate(said))
    recall = np.mean([event.max() >= cuts for event in events], axis=0)
    assert verdict["best_composite_f1"] == pytest.approx((2 / (1 / precision[:-1] + 1 / recall)).max())


def test_scores_of_any_size_are_told_apart():
    """Up to the rarest there is, by a thousandth of them."""
    scores = np.geomspace(LINEAR / 2, MOST_RARE, 3000)
    bins = bins_of(scores)
    assert (np.diff(bins) > 0).all()
    assert bins_of(np.array([-1, 0, STEP / 2, 2.5 * STEP, LINEAR, MOST_RARE, np.inf])).tolist() == [
        0, 0, 0, 2, LINEAR / STEP, BINS - 1, BINS - 1
    ]  # fmt: skip
    judge, unusual = Judge({"m": np.array([[1000.0, 1099.0]])}, 10), np.isin(np.arange(3000), np.arange(1000, 1100))
    shuffled = np.random.default_rng(0).permutation(scores)
    shuffled[~unusual] **= 0.9
    judge.add("m", np.arange(3000.0), shuffled, unusual)
    verdict = judge.verdict()
    assert verdict["auc_pr"] == pytest.approx(average_precision_score(unusual, shuffled), rel=1e-3)
    assert verdict["auc_roc"] == pytest.approx(roc_auc_score(unusual, shuffled), rel=1e-4)


def test_the_threshold_that_was_used():
    scores = np.zeros(100)
    scores[[12, 13, 14, 50, 51]] = 5
    judge = Judge({"m": np.array([[10.0, 19.0], [70.0, 79.0]])}, 10)
    judge.add("m", np.arange(float(len(scores))), scores, scores > 1)
    verdict = judge.verdict()
    assert (verdict["events"], verdict["found"], verdict["alarms"], verdict["delay_rows"]) == (2, 1, 1, 2)
    assert verdict["f1"] == pytest.approx(2 * 3 / (20 + 5))
    assert verdict["composite_f1"] == pytest.approx(2 / (5 / 3 + 2))
    assert verdict["best_adjusted_f1"] == pytest.approx(2 * 10 / (20 + 12))


def test_an_event_across_a_pause_is_one():
    judge = Judge({"m": np.array([[5.0, 24.0], [25.0, 27.0]])}, 10)
    for first in (0.0, 20.0):
        rows = first + np.arange(10)
        judge.add("m", rows, np.full(10, 1.0), rows >= 23)
    verdict = judge.verdict()
    assert (verdict["events"], verdict["found"], verdict["delay_rows"]) == (2, 2, (8 + 0) / 2)
    assert verdict["alarms"] == 0


def test_events_without_a_scored_row_are_counted_by_themselves():
    judge = Judge({"m": np.array([[5.0, 9.0], [30.0, 39.0], [90.0, 95.0]]), "unseen": np.array([[1.0, 2.0]])}, 10)
    assert judge.verdict() == {"events": 0, "without_rows": 0}
    judge.add("m", np.arange(20.0), np.arange(20.0), np.zeros(20, bool))
    verdict = judge.verdict()
    assert (verdict["events"], verdict["without_rows"], judge.unseen) == (1, 2, {"unseen"})


def test_what_adjusting_hides():
    """Scores that know nothing do well if one row of an event is enough; all rows flagged are no composite F1."""
    rng = np.random.default_rng(0)
    judge = Judge({"m": np.array([[1000.0, 1999.0], [5000.0, 5999.0]])}, 10)
    scores = rng.exponential(size=10_000)
    judge.add("m", np.arange(float(len(scores))), scores, scores >= 0)
    verdict = judge.verdict()
    assert (verdict["found"], verdict["alarms"]) == (2, 0)
    assert verdict["composite_f1"] == pytest.approx(2 / (10_000 / 2000 + 1))
    assert verdict["best_composite_f1"] < 0.6
    assert verdict["best_f1"] < 0.35
    assert verdict["best_adjusted_f1"] > 0.8
    assert verdict["random_adjusted_f1"] == pytest.approx(verdict["best_adjusted_f1"], abs=0.1)


def test_nothing_is_known_or_found():
    judge = Judge({}, 10)
    judge.add("m", np.arange(5.0), np.arange(5.0), np.zeros(5, bool))
    assert judge.verdict() == {"events": 0, "without_rows": 0}
    judge = Judge({"m": np.array([[1.0, 2.0]])}, 10)
    judge.add("m", np.arange(4.0), np.array([np.nan, 0, 0, 9]), np.zeros(4, bool))
    verdict = judge.verdict()
    assert (verdict["found"], verdict["delay_rows"], verdict["composite_f1"]) == (0, None, 0)
