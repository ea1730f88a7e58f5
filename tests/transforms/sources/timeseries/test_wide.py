"""Files whose columns are times: a row holds a series, and gives what a file of one row for each time would."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from fleets import Fleet, split_of
from series import schema_of

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.errors import UserError
from beamfeed.pipelines.job_check import check_job
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.readers import BAD
from beamfeed.transforms.sources.timeseries.schema import Wide
from beamfeed.transforms.sources.timeseries.wide import iter_rows, melt

DAYS = [str(np.datetime64("2024-01-30") + day) for day in range(40)]
ASSETS = [f"machine {k}" for k in range(6)]


def us(day: str) -> str:
    year, month, number = day.split("-")
    return f"{int(month)}/{int(number)}/{year[2:]}"


def values() -> np.ndarray:
    """float32 [assets, days]; some are missing."""
    rng = np.random.default_rng(0)
    found = rng.normal(size=(len(ASSETS), len(DAYS))).round(3).astype("f4")
    found[rng.random(found.shape) < 0.05] = np.nan
    return found


def wide_table(names: list[str], found: np.ndarray) -> pa.Table:
    columns = {name: pa.array(found[:, k], from_pandas=True) for k, name in enumerate(names)}
    return pa.table({"machine": ASSETS, "place": ["a", "b"] * 3, **columns})


def long_table(found: np.ndarray) -> pa.Table:
    days = [np.datetime64(day, "us") for day in DAYS] * len(ASSETS)
    names = [name for name in ASSETS for _ in DAYS]
    return pa.table({"machine": names, "day": days, "level": pa.array(found.reshape(-1), from_pandas=True)})


def use(fleet: Fleet, wide: str | list[str] | None, **source: object) -> Fleet:
    reshape = {} if wide is None else {"reshape": {"wide": wide}}
    fleet.job["source"] |= {"asset": {"column": "machine"}, "time": {"column": "day"}, "features": ["level"]}
    fleet.job["source"] |= reshape | source
    fleet.job["prepare"] = {"missing": {"fill": "linear", "limit": 2, "then": "drop"}, "max_gap": "3d"}
    fleet.job["split"] = split_of(ASSETS)
    return fleet


def write(fleet: Fleet, name: str, table: pa.Table) -> None:
    if name.endswith(".csv"):
        pa.csv.write_csv(table, fleet.files / name)
    else:
        pq.write_table(table, fleet.files / name, row_group_size=4)


@pytest.mark.parametrize(("name", "said"), [("a.csv", us), ("a.parquet", str)])
def test_windows_are_those_of_a_long_file(new_fleet, name, said):
    found = values()
    long, wide = use(new_fleet("long"), None), use(new_fleet("wide"), "*/*/*" if said is us else "20*")
    write(long, "a.parquet", long_table(found))
    write(wide, name, wide_table([said(day) for day in DAYS], found))
    assert long.preprocess() == wide.preprocess() == 0
    for split in ("train", "eval", "test"):
        expected, got = long.windows(split), wide.windows(split)
        assert expected
        assert got.keys() == expected.keys()
        for asset, windows in expected.items():
            assert got[asset].keys() == windows.keys()
            for start, window in windows.items():
                np.testing.assert_array_equal(got[asset][start], window)


def test_cuts_are_in_the_zone_of_the_times(new_fleet):
    long, wide = use(new_fleet("long"), None), use(new_fleet("wide"), "20*")
    write(long, "a.parquet", long_table(values()))
    write(wide, "a.parquet", wide_table(DAYS, values()))
    for fleet in (long, wide):
        fleet.job["source"]["time"]["zone"] = "Europe/Berlin"
        fleet.job["split"] = {"by": "time", "eval_from": "2024-02-15", "test_from": "2024-02-28"}
        assert fleet.preprocess() == 0
    for split in ("train", "eval", "test"):
        expected, got = long.windows(split), wide.windows(split)
        assert expected
        assert {asset: windows.keys() for asset, windows in got.items()} == {
            asset: windows.keys() for asset, windows in expected.items()
        }


def test_check_foretells_the_run_and_lists_no_time_as_left_out(fleet):
    write(use(fleet, "*/*/*"), "a.csv", wide_table([us(day) for day in DAYS], values()))
    del fleet.job["train"]
    checked = check_job(parse_job(fleet.write_job().read_text()))
    assert not checked.problems
    assert checked.rehearsal.overview.left_out == ("place",)
    assert checked.rehearsal.overview.times.first == "2024-01-30 00:00:00"
    assert fleet.preprocess() == 0
    assert {name: one.windows for name, one in checked.manifest.splits.items()} == {
        name: one.windows for name, one in fleet.manifest.splits.items()
    }


def test_a_bad_value_costs_the_row_of_the_file(fleet):
    write(use(fleet, "*/*/*"), "a.csv", wide_table([us(day) for day in DAYS], np.ones((6, 40), "f4")))
    path = fleet.files / "a.csv"
    lines = path.read_text().splitlines()
    cells = lines[3].split(",")
    cells[5], cells[9] = "oops", "again"
    lines[3] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    assert fleet.preprocess() == 0
    (reject,) = {(one["asset"], one["place"], one["reason"]) for one in fleet.rejects() if "oops" in one["reason"]}
    assert reject[:2] == ("machine 2", "line 4, column 2/2/24")
    assert "'oops' is not a number" in reject[2]
    kept = {name for split in ("train", "eval", "test") for name in fleet.windows(split)}
    assert kept == {*ASSETS} - {"machine 2"}


def test_files_may_have_other_times_and_one_without_any_is_set_aside(fleet):
    found = values()
    names = [us(day) for day in DAYS]
    use(fleet, "*/*/*")
    first, second = wide_table(names[:20], found[:, :20]), wide_table(names[20:], found[:, 20:])
    write(fleet, "a.csv", first)
    write(fleet, "b.csv", second)
    write(fleet, "c.csv", pa.table({"machine": ["x"], "place": ["y"], "level of it": [1.5]}))
    fleet.job["limits"] = {"max_rejected_fraction": 0.9}
    checked = check_job(parse_job(fleet.write_job().read_text()))
    assert [str(one.reason) for one in checked.rehearsal.rejects] == [
        "no column matches source.reshape.wide; the file has machine, place, level of it"
    ]


def test_names_that_are_years_count_or_are_times(fleet):
    names = [str(1980 + k) for k in range(40)]
    write(use(fleet, ["19*", "20*"]), "a.csv", wide_table(names, values()))
    del fleet.job["prepare"]["max_gap"]
    checked = check_job(parse_job(fleet.write_job().read_text()))
    assert (checked.rehearsal.overview.times.first, checked.rehearsal.overview.times.step) == ("1980", "1")
    fleet.job["source"]["time"] = {"column": "day", "format": "%Y"}
    checked = check_job(parse_job(fleet.write_job().read_text()))
    assert checked.rehearsal.overview.times.first == "1980-01-01 00:00:00"


def test_columns_that_count_and_a_label_of_the_row(fleet):
    names = [f"v{k}" for k in range(40)]
    use(fleet, "v*", time={"from": "row"})
    fleet.job["label"] = {"column": "place", "classes": "auto", "at": "end"}
    del fleet.job["prepare"]["max_gap"]
    del fleet.job["train"]
    write(fleet, "a.csv", wide_table(names, np.ones((6, 40), "f4")))
    assert fleet.preprocess() == 0
    for split in ("train", "eval", "test"):
        for asset, labels in fleet.labels(split).items():
            assert {*labels.values()} == {ASSETS.index(asset) % 2}


def mistake(text: str) -> str:
    with pytest.raises(UserError) as caught:
        check_job(parse_job(text))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("wide", "source", "message"),
    [
        ("*-*-*", {}, "source.reshape.wide: no column matches '*-*-*' (the files have: machine, place, 1/30/24"),
        ("*", {}, "source.reshape.wide: column place: its name is no time"),
        ("*/*/*", {"features": ["place"]}, "source.features: 'place' is a column of the files; with reshape it is a"),
        ("*/*/*", {"features": ["a*"]}, "features is what it is called: ['a*'] is not allowed, it must be one name"),
        ("*/*/*", {"asset": {"from": "path"}}, "reshape.wide needs asset: {column: NAME}, which says whose series"),
        ("*/*/*", {"asset": {"column": "tmp"}}, "source.asset.column: 'tmp' is not a column of the files"),
        ("*/*/*", {"time": {"column": ["a", "b"]}}, "makes one column of times, time.column names 2; give one name"),
    ],
)
def test_mistakes_are_one_line(fleet, wide, source, message):
    write(use(fleet, wide, **source), "a.csv", wide_table([us(day) for day in DAYS], values()))
    assert message in mistake(fleet.write_job().read_text())


def test_rows_stand_in_the_order_of_the_columns():
    wide = Wide(("t*",), (), "t", "x", pa.string(), TimeUnits("integer"))
    rows = pa.record_batch({"t1": [1.0, 3.0], "name": ["a", "b"], "t2": [2.0, None]})
    made = melt(rows, ["t1", "t2"], ["name", "t", "x"], wide, pa.array([7, 9]))
    assert made.column("name").to_pylist() == ["a", "a", "b", "b"]
    assert made.column("t").to_pylist() == [7, 9, 7, 9]
    np.testing.assert_array_equal(made.column("x").to_numpy(), np.array([1, 2, 3, np.nan], "f4"))


def test_a_large_file_is_read_by_parts(tmp_path: Path):
    rows, columns = 400, 5000
    names = [f"{1000 + k}" for k in range(columns)]
    block = pa.array(np.zeros(rows, "f4"))
    table = pa.table({"machine": [f"m{k}" for k in range(rows)]} | dict.fromkeys(names, block))
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=200)
    source = {"features": ["x"], "asset": {"column": "machine"}, "reshape": {"wide": "[1-9]*"}}
    schema = schema_of(tmp_path / "a.parquet", "t", **source)
    most = total = 0
    for _, at, batch in iter_rows(str(tmp_path / "a.parquet"), schema, [*schema.names, BAD]):
        assert at == total
        most, total = max(most, batch.nbytes), total + batch.num_rows
    assert total == rows * columns
    assert most < 4 << 20  # of 60 MB
