"""Metrics of scores, against what follows from all scores in order; and that their sums add up."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.trainer.tasks.ranking import RANKING, find_ranking


def make_scores(seed, rows=20_000, rate=0.1):
    rng = np.random.default_rng(seed)
    yes = (rng.random(rows) < rate).astype("f4")
    logit = rng.normal(size=rows) * 1.5 + 2 * yes - 3
    return yes, (1 / (1 + np.exp(-logit))).astype("f4")


def value(metric, yes, score, weight=None):
    metric.update_state(tf.constant(yes), tf.constant(score), sample_weight=weight)
    return float(metric.result())


def roc_auc(yes, score):
    ranks = np.argsort(np.argsort(score)) + 1
    positive = yes.sum()
    return (ranks[yes == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(yes) - positive))


def average_precision(yes, score):
    ordered = yes[np.argsort(-score)]
    return ((np.cumsum(ordered) / np.arange(1, len(yes) + 1)) * ordered).sum() / yes.sum()


def f1(yes, score, threshold):
    said = score >= threshold
    return 2 * (said * yes).sum() / (said.sum() + yes.sum())


@pytest.mark.parametrize("seed", range(3))
def test_areas_are_those_of_all_scores(seed):
    yes, score = make_scores(seed)
    assert value(find_ranking("roc_auc"), yes, score) == pytest.approx(roc_auc(yes, score), abs=2e-4)
    assert value(find_ranking("average_precision"), yes, score) == pytest.approx(
        average_precision(yes, score), abs=1e-3
    )


def test_precision_among_the_highest():
    yes, score = make_scores(0)
    ordered = yes[np.argsort(-score)]
    for name, top in (("precision_at_100", 100), ("precision_at_1_percent", 200), ("precision_at_50000", 20_000)):
        assert value(find_ranking(name), yes, score) == pytest.approx(ordered[:top].mean(), abs=0.01)


def test_the_best_threshold_is_as_good_as_any():
    yes, score = make_scores(0)
    threshold = value(find_ranking("best_threshold"), yes, score)
    best = max(f1(yes, score, one) for one in np.linspace(0.01, 0.99, 500))
    assert f1(yes, score, threshold) == pytest.approx(best, abs=2e-3)
    assert value(find_ranking("best_f1"), yes, score) == pytest.approx(f1(yes, score, threshold), abs=1e-5)


def test_calibration():
    rng = np.random.default_rng(0)
    score = rng.random(100_000).astype("f4")
    yes = (rng.random(100_000) < score).astype("f4")
    assert value(find_ranking("calibration_error"), yes, score) < 0.01
    assert value(find_ranking("calibration_error"), yes, score**2) > 0.1


@pytest.mark.parametrize("name", [*RANKING, "precision_at_10"])
def test_sums_add_up_and_weights_count(name):
    yes, score = make_scores(1, 4000)
    whole, parts = find_ranking(name), find_ranking(name)
    expected = value(whole, yes, score)
    for some in np.array_split(np.arange(4000), 7):
        parts.update_state(tf.constant(yes[some]), tf.constant(score[some]))
    assert float(parts.result()) == pytest.approx(expected, rel=1e-6)
    twice, weighted = find_ranking(name), find_ranking(name)
    weight = np.where(np.arange(4000) < 1000, 2.0, 1.0).astype("f4")
    some = np.concatenate([np.arange(4000), np.arange(1000)])
    assert value(weighted, yes, score, weight) == pytest.approx(value(twice, yes[some], score[some]), rel=1e-6)


def test_nothing_to_tell_apart_is_no_number():
    for name in RANKING:
        assert np.isnan(value(find_ranking(name), np.zeros(5, "f4"), np.full(5, 0.3, "f4")))


def test_certain_scores_count():
    yes, score = np.array([0, 0, 1, 1], "f4"), np.array([0, 0.2, 0.9, 1], "f4")
    assert value(find_ranking("roc_auc"), yes, score) == 1
    assert value(find_ranking("average_precision"), yes, score) == 1


def test_other_names_are_none():
    assert find_ranking("auc") is None
    assert find_ranking("precision_at_0") is None
    assert find_ranking("precision_at_") is None
    assert isinstance(find_ranking("precision_at_7"), keras.metrics.Metric)
