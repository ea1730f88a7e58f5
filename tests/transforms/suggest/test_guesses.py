"""What a first job file makes of files as people publish them: groups, dates, labels, names, and that it runs."""

import re
from collections import Counter

import numpy as np
import pytest
import yaml

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.errors import UserError
from beamfeed.pipelines.suggest_job import _tried
from beamfeed.transforms import fleet
from beamfeed.transforms.sources.timeseries.times import OpenDate
from beamfeed.transforms.suggest.job_file import suggest
from beamfeed.transforms.suggest.options import Options

ROWS = 600
RNG = np.random.default_rng(0)
DAYS = np.datetime64("2001-03-01") + np.arange(ROWS)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to write to, which is the current one, so that paths in job files are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def amounts(rows=ROWS, digits=2):
    return RNG.normal(50, 9, rows).round(digits)


def write(path, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def job(path, **asked):
    return yaml.safe_load(suggest(path, options=Options(**asked)).text)


def passengers():
    """Rows of which one column says by itself who survived."""
    survived = RNG.random(ROWS) < 0.4
    rank = RNG.integers(1, 4, ROWS)
    return {
        "survived": survived.astype(int), "pclass": rank, "age": amounts(), "fare": amounts(),
        "class": np.array(["", "First", "Second", "Third"])[rank], "alive": np.where(survived, "yes", "no"),
    }  # fmt: skip


def test_what_tells_the_label_is_no_input_and_a_comment_says_so(folder):
    write(folder / "a.csv", **passengers())
    assert job("a.csv")["label"]["column"] == "survived"
    assert list(job("a.csv")["features"]) == ["pclass", "age", "fare", "class"]
    text = " ".join(suggest("a.csv").text.replace("#", "").split())
    assert "alive (it tells survived by itself: each of its values goes with one class of the label)" in text


def test_a_label_that_is_named_overrides_the_guess(folder):
    write(folder / "a.csv", **passengers())
    asked = job("a.csv", label="class")
    assert asked["label"]["column"] == "class"
    assert list(asked["features"]) == ["age", "fare", "alive"]  # neither pclass nor another label
    assert job("a.csv", label="fare")["train"]["task"] == {"name": "regress"}
    assert "train" not in job("a.csv", label="none")


def test_columns_that_are_named_override_the_guess(folder):
    write(folder / "a.csv", date=np.repeat(DAYS[:200], 3), place=["a", "b", "c"] * 200, zone=["x", "y", "y"] * 200,
          rain=amounts())  # fmt: skip
    assert job("a.csv")["source"]["asset"] == {"column": "place"}
    assert job("a.csv", asset="zone")["source"]["asset"] == {"column": "zone"}
    table = job("a.csv", kind="table", time="date", label="rain", asset="zone")
    assert (table["source"]["kind"], table["source"]["time"], table["source"]["key"]) == ("table", "date", "zone")
    assert table["split"]["by"] == "time"
    assert list(table["features"]) == ["date", "place"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (
            {"label": "rian"},
            "--label rian: is not a column of the files; did you mean 'rain'? (the files have: day, rain)",
        ),
        ({"time": "Day"}, "--time Day: is not a column of the files; did you mean 'day'? (the files have: day, rain)"),
        ({"asset": "x", "time": "day"}, "--asset x: is not a column of the files (the files have: day, rain)"),
        ({"asset": "day", "time": "day"}, "--time and --asset are both day; a column is one of them"),
        ({"kind": "image"}, "--kind image: a.csv holds no images (suffixes: .jpg "),
    ],
)
def test_a_name_that_no_file_has_is_told(folder, asked, message):
    write(folder / "a.csv", day=DAYS, rain=amounts())
    with pytest.raises(UserError) as caught:
        suggest("a.csv", options=Options(**asked))
    assert str(caught.value).startswith(message)


def test_another_label_beside_the_label_is_no_input(folder):
    for k in range(5):
        write(folder / f"valves/{k}.csv", at=DAYS, flow=amounts(), anomaly=np.arange(ROWS) % 60 // 50,
              changepoint=np.arange(ROWS) % 50 // 49)  # fmt: skip
    assert job("valves")["source"]["features"] == ["flow"]
    assert job("valves", label="anomaly")["source"]["features"] == ["flow"]
    cases = {"flow": amounts(), "heat": amounts(), "changepoint": np.arange(ROWS) % 7 // 6, "anomaly": [0, 1] * 300}
    write(folder / "cases.csv", **cases)
    assert list(job("cases.csv", label="anomaly")["features"]) == ["flow", "heat"]


def test_columns_are_left_out_by_values_and_not_by_a_name_alone(folder):
    rings = RNG.integers(0, 3, ROWS)
    pickup = np.datetime64("2019-03-01T00:00") + RNG.integers(0, 40_000, ROWS).astype("m8[m]")
    few = np.where(np.arange(ROWS) % 3, "", "x")
    write(folder / "a.csv", row_id=np.arange(ROWS), ring_number=rings, ID=RNG.choice(["Public", "Secret"], ROWS),
          color=RNG.choice(["red", "blue"], ROWS), fare=amounts(), pickup=pickup, few=few)  # fmt: skip
    found = job("a.csv")["features"]
    assert list(found) == ["ring_number", "ID", "color", "fare", "pickup"]
    assert found["pickup"] == {"type": "date", "parts": ["hour", "weekday"]}
    text = suggest("a.csv").text
    assert "few (67% missing)" in text
    assert "row_id (it names or counts rows)" in text


@pytest.mark.parametrize("name", ["symbol", "station", "location", "country"])
@pytest.mark.parametrize("newest_first", [False, True])
def test_dates_that_rise_within_groups_are_series(folder, name, newest_first):
    groups = [
        (place, day, value) for place in ("b", "a", "c") for day, value in zip(DAYS[:200], amounts(200), strict=True)
    ]
    columns = zip(*(reversed(groups) if newest_first else groups), strict=True)
    write(folder / "a.csv", **dict(zip((name, "date", "price"), columns, strict=True)))
    source = job("a.csv")["source"]
    assert source["kind"] == "timeseries"
    assert (source["asset"], source["time"]) == ({"column": name}, {"column": "date"})


def test_parts_of_a_time_in_columns_of_their_own_are_the_time(folder):
    hours = np.datetime64("2010-12-30T05") + np.arange(ROWS)
    days = hours.astype("datetime64[D]")
    parts = {
        "No": np.arange(1, ROWS + 1), "year": days.astype("datetime64[Y]").astype(int) + 1970,
        "mnth": days.astype("datetime64[M]").astype(int) % 12 + 1,
        "Day": (days - days.astype("datetime64[M]")).astype(int) + 1, "hr": (hours - days).astype(int),
    }  # fmt: skip
    write(folder / "air.csv", **parts, pm=amounts())
    series = job("air.csv")
    assert series["source"]["time"] == {"column": ["year", "mnth", "Day", "hr"]}
    assert series["source"]["features"] == ["pm"]
    rng = np.random.default_rng(3)
    sold = {
        "year": rng.integers(1990, 2020, ROWS),
        "month": rng.integers(1, 13, ROWS),
        "kind": rng.choice(["a", "b"], ROWS),
    }
    write(folder / "cars.csv", **sold, price=amounts())
    assert job("cars.csv")["source"]["kind"] == "table"


def test_cases_with_dates_stay_a_table(folder):
    at = np.sort(np.datetime64("2019-03-01T00:00") + RNG.integers(0, 40_000, ROWS).astype("m8[m]"))
    write(folder / "a.csv", at=at, shop=RNG.choice(["a", "b"], ROWS), item=RNG.choice(["x", "y", "z"], ROWS),
          price=amounts())  # fmt: skip
    assert job("a.csv")["source"]["kind"] == "table"


def test_days_have_no_hour_and_the_split_in_time_has_the_days_of_the_files(folder):
    days = RNG.choice(np.arange("2001-01-01", "2009-01-01", dtype="M8[D]"), ROWS)
    write(folder / "a.csv", day=days, shop=RNG.choice(["a", "b"], ROWS), item=RNG.choice(["x", "y"], ROWS),
          price=amounts())  # fmt: skip
    found = suggest("a.csv")
    assert yaml.safe_load(found.text)["features"]["day"] == {"type": "date", "parts": ["weekday", "month"]}
    (line,) = [line for line in found.text.splitlines() if "by: time" in line]
    cuts = yaml.safe_load(line.removeprefix("#"))["split"]
    first, second = (np.datetime64(cuts[name]) for name in ("eval_from", "test_from"))
    parts = Counter(np.searchsorted([first, second], days, side="right").tolist())
    assert min(parts[1], parts[2]) >= 0.05 * ROWS
    timed = job("a.csv", time="day", label="price")
    parse_job(yaml.safe_dump(timed))
    assert (timed["source"]["time"], timed["split"]["by"]) == ("day", "time")


@pytest.mark.parametrize(
    ("path", "name"),
    [("smap/train/a.csv", "smap_train"), ("msl/train/a.csv", "msl_train"), ("pumps/a.csv", "pumps"),
     ("plant/2024/data/a.csv", "plant_2024_data")],
)  # fmt: skip
def test_a_job_is_named_after_the_folder_that_tells_most(folder, path, name):
    write(folder / path, t=np.arange(100), flow=amounts(100))
    assert job(path.rpartition("/")[0])["name"] == name
    assert job(path.rpartition("/")[0])["output"]["path"] == f"out/{name}/data"


def test_steps_that_differ_between_files_make_one_gap_for_all(folder):
    for k, minutes in enumerate((5, 5, 5, 5, 30, 60)):
        at = np.datetime64("2014-01-01T00:00") + minutes * np.arange(ROWS).astype("m8[m]")
        write(folder / f"fleet/{k}.csv", timestamp=at, value=amounts())
    tried = _tried("fleet", "job.yaml", Options())
    assert tried.problems == []
    assert "It runs as it is." in tried.text
    assert yaml.safe_load(tried.text).get("prepare", {}).get("max_gap") is None  # no file has a gap of its own


def test_a_job_that_sets_a_few_assets_aside_says_so(folder):
    days = np.concatenate([DAYS[:60]] * 40 + [DAYS[:1]])
    names = np.repeat([f"m{k:02d}" for k in range(41)], [60] * 40 + [1])
    write(folder / "a.csv", place=names, date=days, price=amounts(len(days)))
    tried = _tried("a.csv", "job.yaml", Options())
    assert tried.problems == []
    assert yaml.safe_load(tried.text)["limits"] == {"max_rejected_fraction": 0.05}
    assert "Too short for a window: 2.4% of the assets were rejected; they are set aside" in tried.text


def test_classes_of_which_no_row_trains_are_set_aside(folder):
    kinds = np.array(["a"] * 390 + ["b"] * 200 + [f"only {k}" for k in range(10)])
    write(folder / "a.csv", kind=RNG.permutation(kinds), x=amounts(), y=amounts())
    tried = _tried("a.csv", "job.yaml", Options(label="kind"))
    assert tried.problems == []
    made = yaml.safe_load(tried.text)
    assert made["label"] == {"column": "kind", "classes": ["a", "b"]}
    assert made["limits"] == {"max_rejected_fraction": 0.05}
    assert "classes with fewer than 4 rows are set aside" in tried.text


def test_where_fewer_than_two_classes_would_stay_none_is_left_out(folder):
    write(folder / "a.csv", kind=[*["a"] * 40, "b", "b", "c"], x=amounts(43))
    for least in (3, 50):
        suggestion = suggest("a.csv", options=Options(label="kind"), least=least)
        assert yaml.safe_load(suggestion.text)["label"] == {"column": "kind", "classes": "auto"}


def test_rare_classes_stay_where_some_of_their_rows_train(folder):
    kinds = np.array(["a"] * 400 + ["b"] * 170 + [f"rare {k}" for k in range(10)] * 3)
    write(folder / "a.csv", kind=kinds, x=amounts(), y=amounts())
    tried = _tried("a.csv", "job.yaml", Options(label="kind"))
    assert tried.problems == []
    assert yaml.safe_load(tried.text)["label"] == {"column": "kind", "classes": "auto"}


def test_a_number_that_is_mostly_missing_makes_no_series_of_cases(folder):
    paid = np.where(RNG.random(ROWS) < 0.6, "", amounts().astype(str))
    shop, target = RNG.choice(["north", "south"], ROWS), RNG.choice(["yes", "no"], ROWS)
    write(folder / "a.csv", date=DAYS, shop=shop, amount=paid, target=target)
    made = job("a.csv")
    assert (made["source"]["kind"], made["label"]["column"]) == ("table", "target")


def test_a_text_that_is_empty_does_not_stop_the_look(folder):
    for name in "bcd":
        write(folder / f"in/{name}.csv", x=amounts(), y=amounts())
    (folder / "in/a.csv").write_text("")
    assert job("in")["source"]["files"] == "in/*.csv"


def test_what_is_set_aside_is_known_whatever_the_message_says(folder, monkeypatch):
    over = fleet.over_limits
    monkeypatch.setattr(fleet, "over_limits", lambda *given: over(*given) and "more is gone than may be")
    days = np.concatenate([DAYS[:60]] * 40 + [DAYS[:1]])
    write(
        folder / "a.csv", place=np.repeat([f"m{k:02d}" for k in range(41)], [60] * 40 + [1]), date=days, x=amounts(2401)
    )
    tried = _tried("a.csv", "job.yaml", Options())
    assert yaml.safe_load(tried.text)["limits"] == {"max_rejected_fraction": 0.05}
    assert "Too short for a window: 2.4% of the assets were rejected" in tried.text


@pytest.mark.slow
def test_assets_that_are_too_short_for_a_window_are_set_aside(folder):
    sizes = [60] * 35 + [6, 6, 2, 1, 1]
    days = np.concatenate([DAYS[:rows] for rows in sizes])
    names = np.repeat([f"m{k:02d}" for k in range(len(sizes))], sizes)
    parts = days.astype("datetime64[M]").astype(int)
    write(
        folder / "a.csv",
        place=names,
        date=days,
        month=parts % 12 + 1,
        year=parts // 12 + 1970,
        price=amounts(len(days)),
    )
    tried = _tried("a.csv", "job.yaml", Options())
    assert tried.problems == []
    job = yaml.safe_load(tried.text)
    assert (job["windows"]["length"], job["limits"]) == (12, {"max_rejected_fraction": 0.15})
    assert "# Too short for a window: 12.5% of the assets were rejected" in tried.text
    assert job["source"]["features"] == ["price"]
    assert "month (the month of the time)" in tried.text


def test_a_job_that_cannot_run_says_why(folder):
    days = np.concatenate([DAYS[:60]] * 4 + [DAYS[:1]] * 4)
    names = np.repeat([f"m{k}" for k in range(8)], [60] * 4 + [1] * 4)
    write(folder / "a.csv", place=names, date=days, price=amounts(len(days)))
    tried = _tried("a.csv", "job.yaml", Options())
    assert len(tried.problems) == 1
    assert "It runs as it is" not in tried.text
    assert "# It does not run as it is:\n#   50.0% of the assets were rejected" in tried.text
    parse_job(tried.text)


def test_a_column_that_says_train_and_test_divides_the_rows(folder):
    write(
        folder / "a.csv",
        Case=np.where(np.arange(ROWS) % 3, "Train", "Test"),
        Class=RNG.choice(["PS", "WS"], ROWS),
        **{f"x{k}": amounts() for k in range(4)},
    )
    tried = _tried("a.csv", "job.yaml", Options())
    assert tried.problems == []
    job = yaml.safe_load(tried.text)
    assert job["label"]["column"] == "Class"
    assert list(job["features"]) == ["x0", "x1", "x2", "x3"]
    assert job["split"] == {"by": "column", "column": "Case", "train": ["Train"], "eval": ["Test"]}
    assert "Left out: Case (it says which split a row is in)." in tried.text


def test_dates_in_two_orders_are_taken_as_they_rise(folder, monkeypatch):
    monkeypatch.setattr(OpenDate, "__str__", lambda _: "in other words")
    days = [f"{1 + k % 12:02d}/{1 + k // 12:02d}/2024" for k in range(144)]  # the first counts faster
    write(folder / "a.csv", when=days, price=amounts(144))
    text = suggest("a.csv").text
    assert yaml.safe_load(text)["source"]["time"] == {"column": "when", "format": "%d/%m/%Y"}
    assert "CHECK THIS: '01/01/2024' may begin with the day or the month. Here the day is first" in text


def test_a_year_of_two_digits_that_comes_first_needs_a_format(folder):
    days = np.datetime64("2024-01-01") + np.arange(200)
    write(folder / "a.csv", when=[str(day)[2:] for day in days], price=amounts(200))
    tried = _tried("a.csv", "job.yaml", Options())
    assert tried.problems == []
    assert yaml.safe_load(tried.text)["source"]["time"] == {"column": "when", "format": "%y-%m-%d"}
    assert "CHECK THIS: '24-01-01' may begin with the day or the year. Here the year is first" in tried.text


def test_a_year_that_comes_first_is_told_by_files_of_a_day_each(folder):
    for at, day in enumerate((np.datetime64("2024-01-20") + np.arange(9)).tolist()):
        write(folder / f"{at}.csv", when=[f"{day:%y.%m.%d} {hour:02}:00" for hour in range(24)], price=amounts(24))
    text = suggest("*.csv").text
    assert yaml.safe_load(text)["source"]["time"] == {"column": "when", "format": "%y.%m.%d %H:%M"}
    assert "CHECK THIS: '24.01.20 00:00' may begin with the day or the year. Here the year is first" in text


def test_times_that_are_too_far_off_still_say_that_rows_follow_each_other(folder):
    months = [f"{1749 + k // 12}-{1 + k % 12:02d}" for k in range(ROWS)]
    write(folder / "a.csv", Month=months, Sunspots=amounts())
    tried = _tried("a.csv", "job.yaml", Options())
    assert tried.problems == []
    source = yaml.safe_load(tried.text)["source"]
    assert (source["kind"], source["time"], source["features"]) == ("timeseries", {"from": "row"}, ["Sunspots"])
    assert "Left out: Month (times before 1825 or after 2114; so rows count)." in tried.text
    write(folder / "b.csv", Month=months[::-1], Sunspots=amounts())
    assert job("b.csv")["source"]["kind"] == "table"


def test_assets_of_other_sizes_have_scales_of_their_own(folder):
    for k, size in enumerate((0.04, 1.0, 70.0, 2e7)):
        write(folder / f"apart/{k}.csv", timestamp=DAYS, value=size * (5 + amounts()))
        write(folder / f"alike/{k}.csv", timestamp=DAYS, value=amounts() + k)
    assert job("apart")["prepare"]["scale"] == {"how": "standard", "per": "asset", "min_divisor": 1e-4}
    assert job("alike")["prepare"]["scale"] == {"how": "standard", "per": "fleet"}


def test_rare_states_are_scaled_by_their_distance_and_flags_of_labels_are_left_out(folder):
    rare = np.arange(ROWS) % 200 == 17
    write(folder / "a.csv", timestamp=DAYS, value=amounts(), valve=rare.astype(int), attack_P1=rare.astype(int),
          fault_rate=amounts(), target_bar=np.where(rare, 20, 30))  # fmt: skip
    assert job("a.csv")["source"]["features"] == ["value", "valve", "fault_rate", "target_bar"]
    assert job("a.csv")["prepare"]["scale"] == {"how": "standard", "per": "fleet", "flags": "range"}
    assert "attack_P1 (zeros and ones, and its name speaks of a label)" in suggest("a.csv").text


def test_windows_hold_the_period_of_the_series(folder):
    hours = np.datetime64("2020-01-01T00:00") + 60 * np.arange(50 * 24)
    load = np.sin(2 * np.pi * np.arange(len(hours)) / 24) + 0.2 * RNG.normal(size=len(hours))
    write(folder / "a.csv", time=hours, load=load.round(3), heat=(load**2).round(3))
    assert job("a.csv")["windows"]["length"] == 24
    assert "Values repeat after 24 rows: a window holds one" in suggest("a.csv").text


def test_a_label_that_is_mostly_missing_is_not_forecast_and_one_that_is_called_target_is(folder):
    hours = np.datetime64("2020-01-01T00:00") + 60 * np.arange(1200)
    load = (np.sin(2 * np.pi * np.arange(1200) / 24) + 0.1 * RNG.normal(size=1200)).round(4)
    write(folder / "a.csv", time=hours, load=load, target=load[::-1])
    made = job("a.csv", label="target")
    assert made["train"]["task"] == {"name": "forecast"}
    assert "target" in made["source"]["features"]
    write(folder / "a.csv", time=hours, load=load, y=[f"{k}" if n % 3 == 0 else "" for n, k in enumerate(load)])
    made = job("a.csv", label="y")
    assert "ahead" not in made["label"]


def test_small_tables_are_trained_to_the_end_and_large_ones_in_some_minutes(folder):
    write(folder / "a.csv", x=amounts(), target=RNG.choice(["yes", "no"], ROWS))
    small = job("a.csv")["train"]
    assert (small["epochs"], small["early_stopping"]["patience"]) == (100, 16)
    (folder / "b.csv").write_text("x,target\n" + 10 * "".join(f"{k % 977},{'yn'[k % 3 > 1]}\n" for k in range(40_000)))
    large = job("b.csv")["train"]
    assert 6 <= large["epochs"] <= 12
    assert large["early_stopping"]["patience"] == 3


def test_parts_of_the_time_are_no_features(folder):
    weekdays = DAYS.astype("datetime64[D]").astype(int) + 3
    columns = {"date": DAYS, "price": amounts(), "weekday": weekdays % 7 + 1, "sunday_first": (weekdays + 1) % 7}
    write(folder / "a.csv", **columns, volume=np.where(np.arange(len(DAYS)) == 5, 1, 0))
    assert job("a.csv")["source"]["features"] == ["price", "volume"]


def test_a_text_that_is_called_label_is_an_input(folder):
    names = [f"word{k} of a long name" for k in range(ROWS)]
    write(folder / "beers.csv", style=RNG.choice(["ale", "stout"], ROWS), label=names, abv=amounts())
    tried = _tried("beers.csv", "job.yaml", Options())
    assert tried.problems == []
    assert yaml.safe_load(tried.text)["features"]["label_text"]["column"] == "label"


def test_three_lines_of_names_are_read(folder):
    lines = ["network,1,1,2,2", "node,1,1,1,1", "hemi,lh,rh,lh,rh", ",,,,"]
    lines += [f"{k},{','.join(map(str, amounts(4)))}" for k in range(200)]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    assert _tried("a.csv", "job.yaml", Options()).problems == []


def test_the_example_of_training_has_dropout_and_ends_early(folder):
    write(folder / "a.csv", kind=RNG.choice(["a", "b", "c"], ROWS), x=amounts(), z=amounts())
    text = suggest("a.csv").text
    lines = text[text.index("#   train:") :].splitlines()
    example = yaml.safe_load("\n".join(line.removeprefix("#") for line in lines if line.startswith("#   ")))["train"]
    assert example["model"] == {"name": "tabular", "dropout": 0.1, "wide": True}
    assert example["early_stopping"] == {"patience": 16}
    assert "window" not in text


def test_of_few_positives_more_than_accuracy_is_measured(folder):
    write(folder / "a.csv", x=amounts(), z=amounts(), fraud=(np.arange(ROWS) % 10 == 0).astype(int))
    assert job("a.csv")["train"]["task"]["metrics"] == ["roc_auc", "average_precision"]
    assert job("a.csv")["label"]["classes"] == "auto"  # in order, 1 is the second


def test_the_rarer_of_two_classes_is_the_second(folder):
    loans = np.where(np.arange(ROWS) % 10 == 0, "bad", "good")
    write(folder / "a.csv", x=amounts(), z=amounts(), loan_class=loans)
    found = job("a.csv", label="loan_class")
    assert found["label"]["classes"] == ["good", "bad"]
    assert found["train"]["task"]["metrics"] == ["roc_auc", "average_precision"]


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_rows_of_a_file_of_many_batches_are_estimated_from_all_of_a_block(folder, suffix):
    row = "{k},{k}\n" if suffix == "csv" else '{{"x":{k},"z":{k}}}\n'
    rows = "".join(row.format(k=k % 7) for k in range(150_000))
    (folder / f"a.{suffix}").write_text("x,z\n" * (suffix == "csv") + rows)
    files = next(line for line in suggest(f"a.{suffix}").text.splitlines() if " files: " in line)
    assert 147_000 <= int(re.search(r"([\d,]+) rows", files)[1].replace(",", "")) <= 153_000


@pytest.mark.parametrize(("delimiter", "name"), [(",", "comma.txt"), (";", "semicolon.csv"), ("\t", "tab.tsv")])
def test_names_that_lack_that_of_the_rows(folder, delimiter, name):
    lines = [delimiter.join(('"date"', '"heat"', '"light"'))]
    lines += [
        delimiter.join((f'"{k + 1}"', f'"{day}"', str(k % 7), str(k % 5 + 0.5)))
        for k, day in enumerate(DAYS.astype(str))
    ]
    (folder / name).write_text("\n".join(lines) + "\n")
    tried = _tried(name, "job.yaml", Options())
    source = yaml.safe_load(tried.text)["source"]
    assert tried.problems == []
    assert source["csv"] == {"names": ["row", "date", "heat", "light"]}
    assert (source["time"], source["features"]) == ({"column": "date"}, ["heat", "light"])
