"""The job of `init --label` for a number of a series: it forecasts where rows are regular, and else tells the value."""

from datetime import date

import numpy as np
import pytest
import yaml

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.errors import UserError
from beamfeed.pipelines.job_check import check_job
from beamfeed.pipelines.suggest_job import _tried
from beamfeed.transforms.suggest.ahead import Outlook
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


@pytest.mark.parametrize("order", [np.arange(ROWS)[::-1], RNG.permutation(ROWS)], ids=["newest first", "shuffled"])
def test_rows_in_any_order_and_with_a_few_times_twice_are_forecast(folder, order):
    order = np.append(order, order[:4])  # as clocks are put back in autumn
    write(folder / "plant.csv", date=HOURS[order], temp=DAILY[order].round(3))
    text = text_of(label="temp")
    assert "the 24 rows behind a window are forecast; values repeat after 24 rows" in text
    assert yaml.safe_load(text)["prepare"]["duplicates"] == "first"


@pytest.mark.parametrize(
    "others",
    [
        {"what": np.arange(ROWS) % 3},
        {"operation": np.array(["hip", "knee", "eye"])[np.arange(ROWS) % 3], "what": DAILY.round(3)},
    ],
    ids=["of a class", "with words"],
)
def test_cases_with_a_date_each_are_no_series_for_their_label(folder, others):
    order = RNG.permutation(ROWS)
    write(folder / "plant.csv", date=HOURS[order], size=DAILY[::-1].round(3), **others)
    assert yaml.safe_load(text_of(label="what"))["source"]["kind"] == "table"


@pytest.mark.parametrize(("years", "seen"), [(8, 6), (8.5, 12), (9, 13), (12, 13)])
def test_a_window_holds_a_whole_period_and_the_row_before_it_if_they_fit(folder, years, seen):
    """Else it would not see how this month differs from that of a year ago."""
    rows = int(12 * years)
    months = np.datetime64("2001-01") + np.arange(rows)
    sold = 100 + 30 * np.sin(2 * np.pi * np.arange(rows) / 12) + np.arange(rows)
    write(folder / "plant.csv", month=months, sold=sold.round(3))
    job = yaml.safe_load(text_of(label="sold"))
    ahead, length = job["label"]["ahead"]["rows"], job["windows"]["length"]
    assert length == seen
    assert ahead >= 1
    assert length + ahead <= 0.15 * rows - 2  # three windows evaluate


def test_windows_fit_between_long_runs_of_missing_values(folder):
    gaps = np.arange(ROWS) % 400 < 8  # of the last of which the first rows are filled
    temp = np.where(gaps, "", DAILY.round(3).astype(str))
    write(folder / "plant.csv", date=HOURS, temp=temp, load=RNG.normal(size=ROWS).round(3))
    job = yaml.safe_load(text_of(label="temp"))
    assert job["label"]["ahead"]["rows"] == 24
    assert 25 <= job["windows"]["length"] <= 200 - 24


@pytest.mark.parametrize("zone", ["", "+09:00"])
def test_working_days_follow_each_other(folder, zone):
    days = np.datetime64("2001-03-01") + np.arange(ROWS)
    open_ = np.is_busday(days) & (RNG.random(ROWS) > 0.03)  # and some holidays
    dates = np.char.add(days[open_][::-1].astype(str), f"T00:00:00{zone}" if zone else "")  # in UTC the day before
    write(folder / "plant.csv", date=dates, temp=DAILY[open_][::-1].round(3))
    assert yaml.safe_load(text_of(label="temp"))["label"]["ahead"]["columns"] == ["temp"]
    assert "resample" not in text_of()
    some = RNG.random(ROWS) > 0.15  # then 20 rows are a day of some, more or less
    write(folder / "plant.csv", date=HOURS[some], temp=DAILY[some].round(3), load=DAILY[some].round(1))
    assert "ahead" not in yaml.safe_load(text_of(label="temp"))["label"]


def test_a_period_shows_in_steps_where_values_wander_far(folder):
    months = np.datetime64("1960-01") + np.arange(480)
    level = np.cumsum(np.cumsum(RNG.normal(size=480))) + 20 * np.sin(2 * np.pi * np.arange(480) / 12)
    write(folder / "plant.csv", month=months, temp=level.round(3))
    assert "values repeat after 12 rows" in text_of(label="temp")
    write(folder / "plant.csv", month=months, temp=np.cumsum(RNG.normal(size=480)).round(3))
    assert "nothing was found to repeat" in text_of(label="temp")


@pytest.mark.parametrize(("rows", "by"), [(400, "rows"), (40, "asset")])
def test_what_comes_later_in_each_asset_is_forecast_if_it_is_long_enough(folder, rows, by):
    site, row = np.repeat(np.arange(6), rows), np.tile(np.arange(rows), 6)
    write(
        folder / "plant.csv", site=np.char.add("s", site.astype(str)), date=HOURS[row], temp=RNG.normal(size=6 * rows)
    )
    text = text_of(label="temp")
    assert yaml.safe_load(text)["split"]["by"] == by
    assert ("as what comes later in each is forecast" in text) == (by == "rows")


@pytest.mark.parametrize(("names", "form"), [("%B", "%Y %B"), ("%b", "%Y %b")])
def test_months_in_words_and_years_are_times_unless_days_stand_beside_them(folder, names, form):
    months = [date(1949 + k // 12, 1 + k % 12, 1) for k in range(144)]
    years, words = [day.year for day in months], [day.strftime(names) for day in months]
    write(folder / "plant.csv", year=years, month=words, sold=(DAILY[:144]).round(3))
    assert yaml.safe_load(text_of(label="sold"))["source"]["time"] == {"column": ["year", "month"], "format": form}
    write(folder / "plant.csv", year=years, month=words, day=[day.day for day in months], sold=DAILY[:144].round(3))
    assert yaml.safe_load(text_of(kind="timeseries"))["source"]["time"] == {"from": "row"}


def test_the_parts_of_the_time_do_not_repeat_as_values(folder):
    days = HOURS.astype("M8[D]")
    parts = {
        "year": HOURS.astype("M8[Y]").astype(int) + 1970,
        "month": HOURS.astype("M8[M]").astype(int) % 12 + 1,
        "day": (days - HOURS.astype("M8[M]")) // np.timedelta64(1, "D") + 1,
        "hour": (HOURS - days) // np.timedelta64(1, "h"),
    }
    write(folder / "plant.csv", **parts, temp=np.cumsum(RNG.normal(size=ROWS)).round(3))
    assert "the 24 rows behind a window are forecast; nothing was found to repeat" in text_of(label="temp")


@pytest.mark.parametrize(
    "names", [None, [f"{1 + k // 12}-{1 + k % 12:02}" for k in range(ROWS)]], ids=["alone", "named"]
)
def test_numbers_that_nothing_tells_are_a_series_in_the_order_of_the_file(folder, names):
    columns = {"temp": DAILY.round(3)} if names is None else {"month": names, "temp": DAILY.round(3)}
    write(folder / "plant.csv", **columns)
    text = text_of(label="temp")
    assert "the 24 rows behind a window are forecast; values repeat after 24 rows" in text
    job = yaml.safe_load(text_of())
    for source in (yaml.safe_load(text)["source"], job["source"]):
        assert (source["kind"], source["time"], source["features"]) == ("timeseries", {"from": "row"}, ["temp"])
    assert job["train"]["model"]["name"] == "dense_autoencoder"


@pytest.mark.parametrize(
    "names",
    [{"country": [f"land {k * k}" for k in range(300)]}, {"id": np.arange(300)}, {"user_id": RNG.permutation(300)}],
    ids=["names", "ids", "ids in any order"],
)
def test_numbers_of_things_with_names_are_no_series(folder, names):
    write(folder / "plant.csv", **names, size=RNG.lognormal(size=300).round(3))
    assert yaml.safe_load(text_of())["source"]["kind"] == "table"


def test_no_forecast_of_counts_is_promised_that_is_none(folder):
    write(folder / "plant.csv", accidents=RNG.poisson(4, 400))
    assert "--label" not in text_of()
    with pytest.raises(UserError, match=r"no column that a model could learn from was found \(1 in all\)"):
        text_of(label="accidents")


def test_windows_of_many_assets_begin_so_close_that_some_evaluate():
    """Not a number of all rows apart, which is more than an asset has."""
    length, stride, _ = Outlook(rows=3, period=None, usual=90, room=13, least=1).frame(5, 2, 4000 * 90)
    assert (length, stride) == (5, 1)
    length, stride, _ = Outlook(rows=24, period=24, usual=9000, room=1350, least=25).frame(32, 16, 4_000_000)
    assert (length, stride) == (192, 200)


@pytest.mark.parametrize("case", ["a short asset", "gaps"])
def test_shorter_windows_are_tried_where_an_asset_or_a_split_has_none(folder, case):
    if case == "gaps":
        row = np.flatnonzero(np.arange(324) % 83 >= 7)
        site = np.full(len(row), "s0")
    else:
        sizes = [600] * 7 + [60]
        row, site = np.concatenate([np.arange(rows) for rows in sizes]), np.repeat([f"s{k}" for k in range(8)], sizes)
    sold = 100 + 10 * np.sin(2 * np.pi * row / 24) + (row * 7919 % 101) / 50
    write(folder / "plant.csv", site=site, date=HOURS[row], sold=sold.round(3))
    tried = _tried("plant.csv", "job.yaml", Options(label="sold"))
    assert tried.problems == []
    splits = check_job(tried.to_try).manifest.splits
    assert all(splits[name].windows for name in ("train", "eval", "test"))


def test_short_series_are_forecast_less_far(folder):
    write(folder / "plant.csv", date=HOURS[:300], temp=DAILY[:300].round(3), load=RNG.normal(size=300).round(3))
    job = yaml.safe_load(text_of(label="temp"))
    rows, length = job["label"]["ahead"]["rows"], job["windows"]["length"]
    assert 1 <= rows < 24
    assert length + rows <= 0.15 * 300
