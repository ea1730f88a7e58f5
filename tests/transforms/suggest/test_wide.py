"""The first job file for files whose columns are times."""

from pathlib import Path

import numpy as np
import pytest

from beamfeed.contract.config.load import parse_job
from beamfeed.pipelines.job_check import check_job
from beamfeed.transforms.suggest.job_file import suggest
from beamfeed.transforms.suggest.options import Options

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, names: list[str], first: dict[str, list], rows: int = 12) -> None:
    rng = np.random.default_rng(0)
    lines = [[*first, *names]]
    lines += [[*(one[k] for one in first.values()), *rng.normal(size=len(names)).round(2)] for k in range(rows)]
    path.write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")


COUNTRIES = {"Country": [f"country {k}" for k in range(12)], "Code": [f"C{k}" for k in range(12)]}


@pytest.mark.parametrize(
    ("names", "wide", "time"),
    [
        ([f"{1 + k // 28}/{1 + k % 28}/20" for k in range(60)], "*/*/*", {"column": "date"}),
        ([str(1960 + k) for k in range(60)], ["19*", "20*"], {"column": "date", "format": "%Y"}),
        ([f"X{2000 + k}" for k in range(20)], "X*", {"column": "date", "format": "X%Y"}),
        ([f"{2010 + k // 12}-{1 + k % 12:02d}" for k in range(60)], "*-*", {"column": "date"}),
        ([f"X{2010 + k // 12}.{1 + k % 12:02d}" for k in range(60)], "X*.*", {"column": "date", "format": "X%Y.%m"}),
        ([f"{MONTHS[k % 12]}-{10 + k // 12}" for k in range(24)], None, {"column": "date", "format": "%b-%y"}),
        ([str(np.datetime64("2024-03-31") - k) for k in range(60)], "*-*-*", {"column": "date"}),  # the newest first
    ],
)
def test_how_the_columns_are_written(folder, names, wide, time):
    write(folder / "a.csv", names, COUNTRIES)
    text = suggest("a.csv").text
    found = parse_job(text)
    assert (found.source.kind, found.source.asset.column, found.source.features) == ("timeseries", "Country", ["value"])
    assert found.source.reshape.wide == (names if wide is None else wide)
    assert found.source.time.model_dump(exclude_none=True) == time
    assert "Left out: Code." in text
    checked = check_job(found)
    assert not checked.problems
    assert len(checked.rehearsal.assets) == 12


@pytest.mark.parametrize(
    ("names", "first", "asked"),
    [
        ([f"sales {2015 + k}" for k in range(5)], COUNTRIES, Options()),  # facts of some years
        ([f"{1 + k}/1/20" for k in range(12)], COUNTRIES, Options(kind="table")),
        ([f"f{k}" for k in range(20)], COUNTRIES, Options()),
        ([str(2000 + k) for k in range(20)], COUNTRIES | {"target": [0, 1] * 6}, Options(label="target")),
    ],
)
def test_other_tables_stay_tables(folder, names, first, asked):
    write(folder / "a.csv", names, first)
    assert parse_job(suggest("a.csv", options=asked).text).source.kind == "table"


def test_several_rows_of_an_asset_are_told(folder):
    places = {"Province": [f"p{k}" for k in range(12)], "Country": ["China"] * 3 + [f"c{k}" for k in range(9)]}
    write(folder / "a.csv", [str(1990 + k) for k in range(30)], places)
    assert parse_job(suggest("a.csv").text).source.asset.column == "Province"
    text = suggest("a.csv", options=Options(asset="Country")).text
    assert "CHECK THIS: several rows have one Country" in text.replace("\n  # ", " ")


@pytest.mark.parametrize("known", [20, 4])
def test_years_of_which_no_series_or_few_have_values(folder, known):
    years = [str(1960 + k) for k in range(30)]
    lines = [["Country", *years]]
    for k in range(12):
        lines.append([f"country {k}", *[""] * 5, *[round(k + y / 7 % 1, 2) if k < known else "" for y in range(25)]])
    (folder / "a.csv").write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    found = parse_job(suggest("a.csv").text)
    assert (found.source.kind, found.source.features, found.source.reshape.wide) == ("timeseries", ["value"], "19*")
