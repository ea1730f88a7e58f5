"""A planted fault is found, in the asset and the column that it is in; what is usual is not flagged."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
import yaml

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import parse_as
from beamfeed.pipelines.score import judge, main
from beamfeed.pipelines.scoring import Scoring, compare, max_gap_of, measures_in
from beamfeed.transforms.scoring.alarms import peaks_over_threshold
from beamfeed.transforms.scoring.rows import ScoredRows, Windows, score_rows
from beamfeed.transforms.scoring.tails import Tail
from tests.fleets import Fleet


@pytest.fixture
def fleet(predicted_fleet: Fleet) -> Fleet:
    return predicted_fleet


def score(fleet: Fleet, out: Path, *options: object) -> pd.DataFrame:
    """The flagged intervals."""
    arguments = ["--job", fleet.folder / "job.yaml", "--out", out, *options]
    assert main([str(argument) for argument in arguments]) == 0
    return pd.read_parquet(out / "intervals.parquet")


def test_a_fault_is_found(fleet, tmp_path):
    found = score(fleet, tmp_path / "out", "--predictions", fleet.folder / "predicted")
    worst = found.iloc[0]
    assert worst["asset"] == "m9"
    start = np.datetime64("2024-03-01T00:00:00")
    begin, end = ((worst[name] - start) / np.timedelta64(60, "s") for name in ("begin", "end"))
    assert 190 <= begin <= 202
    assert 237 <= end <= 250
    assert worst["columns"].startswith("x1 ")
    assert {"score", "pca_q", "nearest"} & set(worst["by"].split(","))
    rows = ds.dataset(tmp_path / "out" / "rows").to_table().to_pandas()
    assert rows.groupby("asset")["row"].apply(list).to_dict() == {"m0": list(range(400)), "m9": list(range(400))}
    assert rows["flagged"].sum() == found["rows"].sum()
    assert rows[(rows["asset"] == "m0")]["flagged"].mean() < 0.02
    assert (rows["time"] == start + rows["row"] * np.timedelta64(60, "s")).all()
    measures = [name for name in rows.columns if name.startswith("rarity_")]
    assert measures == ["rarity_score", "rarity_pca_q", "rarity_nearest", "rarity_latent_t2"]
    assert (rows["score"] >= rows[measures].max(axis=1) - 1e-4).all()
    assert pd.read_csv(tmp_path / "out" / "intervals.csv")["asset"].tolist() == found["asset"].tolist()


def test_windows_that_train_and_those_held_out_are_told_apart(fleet, tmp_path, monkeypatch):
    counts = []

    def counted(windows, own, held, all_assets):
        counts.append((len(own), len(held)))
        return compare(windows, own, held, all_assets)

    monkeypatch.setattr("beamfeed.pipelines.scoring.compare", counted)
    score(fleet, tmp_path / "out", "--threshold", 3)
    items = json.loads((fleet.folder / "model" / "predictions" / "_export.json").read_text())["items"]
    assert all(not own or not held for own, held in counts)  # the split is by asset
    assert [sum(count) for count in zip(*counts, strict=True)] == [items["train"], items["eval"] + items["test"]]


@pytest.mark.parametrize(
    ("latent", "last"),
    [
        (pa.list_(pa.float32(), 8), ["nearest", "latent_t2"]),
        (pa.list_(pa.float32(), 5000), ["pca_t2", "nearest"]),  # too many for a covariance
        (pa.list_(pa.float32()), ["pca_t2", "nearest"]),
        (None, ["pca_t2", "nearest"]),  # a model without an encoder
    ],
)
def test_measures(latent, last):
    kinds = dict.fromkeys(["nearest", "pca_q", "pca_t2", "score"], pa.float32()) | (
        {"latent": latent} if latent else {}
    )
    assert measures_in(pa.schema(kinds)) == ["score", "pca_q", *last]


def test_what_is_usual_is_flagged_as_often_as_it_may_be(fleet, tmp_path):
    score(fleet, tmp_path / "out", "--risk", "0.02")
    rows = ds.dataset(tmp_path / "out" / "rows").to_table().to_pandas()
    assert 0.002 < rows["flagged"].mean() < 0.06


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 1.0])
def test_what_many_usual_rows_have_in_common_is_not_flagged(share):
    """Such as of a sensor that stands still most of the time: the learned threshold is the score of all those rows."""
    windows, length, rng = np.arange(5000), 20, np.random.default_rng(0)
    times, still = windows.astype(float), windows // 200 % 10 < 10 * share
    usual, other = (np.where(still, 2.0, rng.uniform(size=5000))[:, None] for _ in range(2))

    def scored(measures: np.ndarray) -> ScoredRows:
        rarities = Tail.of(usual[:, 0]).rarity(measures)
        (rows,) = score_rows(Windows(windows, times, times + length - 1, rarities), length, "mean", 1)
        return rows

    threshold = peaks_over_threshold(scored(usual).scores[:, 0].astype(float), 0.001)
    scoring = Scoring(["score"], length, Namespace(least=1, gap=0), threshold=threshold)
    for measures in (usual, other):
        assert scoring.flag("m", scored(measures)).mean() <= 0.002


def test_the_peak_of_an_interval_is_of_a_row_that_has_a_score():
    scores = np.array([1, 5, np.nan, 7, 1], np.float32)[:, None]
    scoring = Scoring(["score"], 2, Namespace(least=1, gap=1), threshold=3)
    flagged = scoring.flag("m", ScoredRows(0, np.arange(5.0), np.concatenate([scores, scores], axis=1)))
    assert flagged.tolist() == [False, True, True, True, False]
    (interval,) = scoring.flagged
    assert (interval["peak"], interval["peak_time"], interval["by"]) == (7, 3, "score")


@pytest.mark.parametrize(
    ("max_gap", "time", "kind", "expected"),
    [
        (None, {}, pa.int64(), None),
        ("5s", {}, pa.timestamp("us"), 5e6),
        ("1500ns", {}, pa.timestamp("us"), 2),  # from 0.9us to 2.4us, as it may be
        (5, {}, pa.int64(), 5),
        (0.5, {}, pa.float64(), 0.5),
        (5, {"unit": "ms"}, pa.float64(), 0.005),
    ],
)
def test_the_longest_time_between_two_rows_of_a_window(fleet, max_gap, time, kind, expected):
    job = yaml.safe_load((fleet.folder / "job.yaml").read_text())
    job["prepare"] = {"max_gap": max_gap}
    job["source"]["time"] |= time
    assert max_gap_of(parse_as(TrainingJob, yaml.safe_dump(job)), kind) == expected


def test_options(fleet, tmp_path):
    new = fleet.folder / "predicted"
    by_default = score(fleet, tmp_path / "a", "--predictions", new, "--threshold", 3)
    assert json.loads((tmp_path / "a" / "_export.json").read_text())["threshold_used"] == 3
    long = score(fleet, tmp_path / "b", "--predictions", new, "--threshold", 3, "--least", 30)
    assert set(long["rows"]) <= set(by_default["rows"]) | {by_default["rows"].max()}
    assert (long["rows"] >= 30).all()
    last = score(fleet, tmp_path / "c", "--predictions", new, "--threshold", 3, "--rows", "last")
    minute = np.timedelta64(60, "s")
    assert last.iloc[0]["begin"] >= by_default.iloc[0]["begin"] - minute
    smooth = score(fleet, tmp_path / "d", "--predictions", new, "--threshold", 3, "--smooth", 40)
    assert smooth.iloc[0]["end"] > by_default.iloc[0]["end"]  # the mean of rows before falls later


def test_known_events(fleet, tmp_path, capsys, monkeypatch):
    def judged(out, *args):
        assert Path(out, "_lock.json").exists()  # nobody else writes there meanwhile
        return judge(out, *args)

    monkeypatch.setattr("beamfeed.pipelines.score.judge", judged)
    events = tmp_path / "events.csv"
    events.write_text("asset,begin,end\nm9,2024-03-01 03:20:00,2024-03-01 03:59:00\nm77,2024-03-01,2024-03-02\n")
    new = fleet.folder / "predicted"
    score(fleet, tmp_path / "out", "--predictions", new, "--events", events)
    said = capsys.readouterr().out
    assert "1 of 1 event found, " in said
    assert "known events of 1 asset are not in the predictions, such as of 'm77'" in said
    judged = json.loads((tmp_path / "out" / "_export.json").read_text())["judged"]
    assert judged["vus_pr"] > 0.8
    assert judged["unusual"] == 40 / 800
    # Other events of the same scores, of which nothing is written again.
    written = (tmp_path / "out" / "intervals.csv").stat().st_mtime_ns
    events.write_text("asset,begin,end\nm9,2024-03-01 03:20:00,2024-03-01 03:59:00\nm0,2024-03-01,2024-03-01 00:10\n")
    score(fleet, tmp_path / "out", "--predictions", new, "--events", events)
    assert "1 of 2 events found, " in capsys.readouterr().out
    assert (tmp_path / "out" / "intervals.csv").stat().st_mtime_ns == written
    # The flagged intervals are such a table, too: compared with themselves, they are all found at once.
    for name in ("intervals.csv", "intervals.parquet"):
        again = ["--predictions", new, "--events", tmp_path / "out" / name]
        score(fleet, tmp_path / f"again-{name}", *again)
        judged = json.loads((tmp_path / f"again-{name}" / "_export.json").read_text())["judged"]
        assert (judged["composite_f1"], judged["f1"], judged["delay_rows"], judged["unseen"]) == (1, 1, 0, [])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (None, "No such file"),
        ("asset,begin\nm9,2024-03-01\n", "has no column 'end'; it must have asset, begin, end"),
        (
            "asset,begin,end\nm9,soon,late\n",
            "begin: must be a time, such as 2024-03-01 12:00:00, and is 'soon' in row 1",
        ),
        ("asset,begin,end\nm9,2024-03-02,2024-03-01\n", "event 1: end must not be before begin"),
    ],
)
def test_what_is_no_table_of_events(fleet, tmp_path, capsys, text, line):
    events = tmp_path / "events.csv"
    if text is not None:
        events.write_text(text)
    job = str(fleet.folder / "job.yaml")
    assert main(["--job", job, "--out", str(tmp_path / "out"), "--events", str(events)]) == 2
    error = capsys.readouterr().err
    assert f"--events: {events}" in error
    assert line in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--predictions", "{tmp}/none"], "--predictions: {tmp}/none holds no complete predictions"),
        (["--set", "train.workdir={tmp}/none"], "predictions of the dataset: {tmp}/none/predictions holds no complete"),
        (["--out", "{fleet}"], "holds something else"),
    ],
)
def test_mistakes(fleet, tmp_path, capsys, options, line):
    places = {"tmp": tmp_path, "fleet": fleet.folder}
    arguments = ["--job", str(fleet.folder / "job.yaml"), *(option.format(**places) for option in options)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert line.format(**places) in error
    assert error.count("\n") == 1
