"""The job of `init --label` for a number of a series: it forecasts where rows are regular, and else tells the value."""

import numpy as np
import pytest
import yaml

from beamfeed.contract.config.load import parse_job
from beamfeed.transforms.suggest.job_file import suggest
from beamfeed.transforms.suggest.options import Options

ROWS = 4000
HOURS = np.datetime64("2020-01-01T00:00") + np.arange(ROWS).astype("m8[h]")
RNG = np.random.default_rng(4)
DAILY = 20 + 5 * np.sin(2 * np.pi * np.arange(ROWS) / 24) + np.cumsum(RNG.normal(size=ROWS)) * 0.1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, **columns):
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def text_of(**asked) -> str:
    return suggest("plant.csv", options=Options(**asked)).text


def test_the_job_of_a_number_forecasts_a_period_of_it(folder):
    write(folder / "plant.csv", date=HOURS, temp=DAILY.round(3), load=(3 * DAILY + RNG.normal(size=ROWS)).round(3))
    text = text_of(label="temp")
    assert (
        """
windows: {length: 192, stride: 1}  # 192 rows to see, 24 to forecast

# The first part of each asset trains, as there is only 1.
split: {by: rows, train: 0.7, eval: 0.15, test: 0.15}

# As --label says, the 24 rows behind a window are forecast; values repeat after 24 rows.
label: {ahead: {rows: 24, columns: [temp]}}
"""
        in text
    )
    job = yaml.safe_load(text)
    assert job["source"]["features"] == ["temp", "load"]  # what was before is known, and no leak
    assert (job["train"]["model"], job["train"]["task"]) == ({"name": "dlinear"}, {"name": "forecast"})
    assert job["prepare"]["missing"]["fill"] == "forward"
    parse_job(text)
    hint = text_of()
    assert "# `--label load` writes the job that forecasts it instead, with" in hint
    assert "label: {ahead: {rows: 24, columns: [load]}}" in hint


def test_without_a_period_some_rows_are_forecast(folder):
    write(folder / "plant.csv", date=HOURS, temp=np.cumsum(RNG.normal(size=ROWS)).round(3))
    text = text_of(label="temp")
    assert "the 24 rows behind a window are forecast; nothing was found to repeat" in text
    assert yaml.safe_load(text)["label"] == {"ahead": {"rows": 24, "columns": ["temp"]}}


@pytest.mark.parametrize(
    ("label", "task"),
    [
        (np.arange(ROWS) % 3, "classify"),  # few values are classes
        (np.array(["on", "off"])[np.arange(ROWS) // 50 % 2], "classify"),
        (5000 - np.arange(ROWS), "regress"),  # counts what is left
    ],
)
def test_other_labels_are_told_of_a_window(folder, label, task):
    write(folder / "plant.csv", date=HOURS, temp=DAILY.round(3), what=label)
    job = yaml.safe_load(text_of(label="what"))
    assert job["train"]["task"] == {"name": task}
    assert job["label"]["column"] == "what"
    assert "what" not in job["source"]["features"]


def test_numbers_at_irregular_times_are_told_of_a_window(folder):
    times = np.datetime64("2020-01-01T00:00") + np.cumsum(RNG.integers(1, 90, ROWS)).astype("m8[m]")
    write(folder / "plant.csv", date=times, temp=DAILY.round(3), load=RNG.normal(size=ROWS).round(3))
    assert yaml.safe_load(text_of(label="temp"))["label"] == {"column": "temp", "at": "end"}
    assert "forecasts it instead" not in text_of()


def test_short_series_are_forecast_less_far(folder):
    write(folder / "plant.csv", date=HOURS[:300], temp=DAILY[:300].round(3), load=RNG.normal(size=300).round(3))
    job = yaml.safe_load(text_of(label="temp"))
    rows, length = job["label"]["ahead"]["rows"], job["windows"]["length"]
    assert 1 <= rows < 24
    assert length + rows <= 0.15 * 300
