"""The methods beside the model are what their names say, and find what is there."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # the scripts import each other as siblings
anomalies = importlib.import_module("anomalies")

RNG = np.random.default_rng(0)
LENGTH, FEATURES = 8, 3


def series(rows):
    """Two hidden waves that three columns show."""
    hidden = np.sin(np.arange(rows)[:, None] / [5.0, 11.0])
    return (hidden @ [[1, 2, 3], [3, 1, -1]] + 0.05 * RNG.normal(size=(rows, FEATURES))).astype("f4")


def test_a_row_gets_the_mean_of_its_windows():
    assert anomalies.windows_of(series(40), LENGTH).shape == (33, LENGTH, FEATURES)
    of_windows = RNG.random(33)
    of_windows[::4] = np.nan  # no window begins there
    scores = anomalies.row_scores(of_windows, LENGTH)
    expected = [np.nanmean(of_windows[max(0, row - LENGTH + 1) : row + 1]) for row in range(1, 39)]
    np.testing.assert_allclose(scores, [0, *expected, 0])


def test_rows_of_nab_are_known_by_their_windows(tmp_path):
    times = pd.date_range("2020-01-01", periods=6, freq="1h")
    series = tmp_path / "pump.csv"
    pd.DataFrame({"timestamp": [*times, times[2]], "value": range(7)}).to_csv(series, index=False)
    known = {"odd/pump.csv": [[str(times[1]), str(times[2])], [str(times[5]), "2020-02-01"]], "odd/other.csv": []}
    (tmp_path / "windows.json").write_text(json.dumps(known))
    anomalies.from_nab(series, tmp_path / "windows.json", tmp_path)
    train, test = (pd.read_parquet(tmp_path / part / "pump.parquet") for part in ("train", "test"))
    assert train["value"].to_list() == test["value"].to_list() == [0, 1, 2, 3, 4, 5]
    assert list(train) == ["timestamp", "value"]
    assert test["anomaly"].to_list() == [False, True, True, False, False, True]


def test_first_rows_of_labelled_files_train_without_their_labels(tmp_path):
    (tmp_path / "data" / "valve").mkdir(parents=True)
    table = pd.DataFrame({"time": range(6), "flow": range(6), "anomaly": [0, 0, 0, 1, 1, 0.0], "changepoint": 0})
    table.to_csv(tmp_path / "data" / "valve" / "1.csv", sep=";", index=False)
    table[["time", "flow"]].to_csv(tmp_path / "data" / "usual.csv", sep=";", index=False)
    anomalies.from_labelled(tmp_path / "data", ["anomaly", "changepoint"], 3, tmp_path)
    assert [path.name for path in (tmp_path / "test").iterdir()] == ["valve_1.parquet"]
    train, test = (pd.read_parquet(tmp_path / part / "valve_1.parquet") for part in ("train", "test"))
    assert list(train) == ["time", "flow"]
    assert len(train) == 3
    assert test["anomaly"].to_list() == [False, False, False, True, True, False]


def test_pca_is_what_the_singular_vectors_leave():
    windows = anomalies.windows_of(series(300), LENGTH)
    flat = windows.reshape(len(windows), -1).astype("f8")
    apart = flat - flat.mean(0)
    directions = np.linalg.svd(apart, full_matrices=False)[2][:4]
    expected = np.square(apart - apart @ directions.T @ directions).mean(1)
    np.testing.assert_allclose(anomalies.pca(windows, 4)(windows), expected, rtol=1e-6, atol=1e-9)


def test_the_distance_to_the_nearest_centre():
    centres = 10.0 * np.arange(anomalies.CENTRES)[:, None, None] + np.zeros((1, LENGTH, FEATURES))
    windows = np.repeat(centres, 3, axis=0) + RNG.normal(0, 1e-3, (3 * anomalies.CENTRES, LENGTH, FEATURES))
    score = anomalies.k_means(np.concatenate([windows, windows]), seed=1)
    far = score(centres[:1] - 50)
    assert far > 30 * np.sqrt(LENGTH * FEATURES)
    assert np.median(score(windows)) < 0.1


def test_each_method_finds_a_column_that_goes_its_own_way():
    parts = {"a.parquet": series(600), "b.parquet": series(600)}
    rows = series(400)
    rows[200:240, 1] += 9
    unusual = np.isin(np.arange(400), range(200, 240))
    windows = anomalies.windows_of(rows, LENGTH)
    methods = list(anomalies.guesses(parts, LENGTH, latent=4, seed=1))
    assert [file for _, file, _ in methods] == ["", "", "", "a.parquet", "a.parquet", "b.parquet", "b.parquet"]
    for name, _, score in methods:
        scores = anomalies.row_scores(score(windows), LENGTH)
        assert anomalies.average_precision_score(unusual, scores) > 0.7, name
