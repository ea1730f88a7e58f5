"""Lines of units are told from rows without a number: no row is lost, and no unit becomes a row."""

import bz2
import resource

import pytest
from table_rows import read_rows

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import read_schema

ROWS = [(0.5 + i, "Bob", "Rome") for i in range(20)]
TEXT = "".join(f"{name},{city},{amount}\n" for amount, name, city in ROWS)
NAMES = ["name", "city", "amount"]
FEATURES = {"amount": "numeric", "name": "categorical", "city": "categorical"}


@pytest.mark.parametrize("first", ["Anna,Paris,", "Anna,Paris,NA", "Anna,Paris,?", "Anna,,", ",Paris,"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_first_row_whose_numbers_are_missing_is_a_row(tmp_path, first, times):
    (tmp_path / "a.csv").write_text("name,city,amount\n" + f"{first}\n" * times + TEXT)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert (len(found), wrong) == (20 + times, {})
    assert [cell for cell in found[0][1:] if cell] == [cell for cell in first.split(",")[:2] if cell]
    assert found[times:] == ROWS


def test_so_it_is_in_a_file_without_names(tmp_path):
    (tmp_path / "a.csv").write_text("Anna,Paris,\n" + TEXT)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES, csv={"header": False, "names": NAMES})
    assert (len(found), found[0][1:], wrong) == (21, ("Anna", "Paris"), {})


@pytest.mark.parametrize("months", ["2020-{:02}", "{}/2020", "2020Q{}", "Q{} 2020"])
@pytest.mark.parametrize("value", ["", "oops"])
def test_a_first_month_is_no_line_of_units(tmp_path, months, value):
    rows = [f"{months.format(i)},{i}" for i in (1, 2, 3, 4)] * 5
    rows[0] = f"{months.format(1)},{value}"
    (tmp_path / "a.csv").write_text("t,v\n" + "\n".join(rows) + "\n")
    found, wrong = read_rows(tmp_path / "a.csv", {"t": "categorical", "v": "numeric"})
    assert (len(found), list(wrong)) == (20, [0] if value else [])


@pytest.mark.parametrize("units", [["text,,m"], [",,[m]"], ["-,-,m"], ["-,-,-"], [",,m", "Anna,Paris,max"]])
def test_lines_of_units_are_no_rows(tmp_path, units):
    (tmp_path / "a.csv").write_text("name,city,amount\n" + "".join(f"{line}\n" for line in units) + TEXT)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert (found, wrong) == (ROWS, {})


def test_what_a_spreadsheet_writes_before_the_rows_is_none_of_them(tmp_path):
    (tmp_path / "a.csv").write_text("Report,,\n" + TEXT)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES, csv={"header": False, "names": NAMES})
    assert (found, wrong) == (ROWS, {})
    (tmp_path / "a.csv").write_text("Report,of Rome,\nname,city,amount\n" + TEXT)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert (found, wrong) == (ROWS, {})


def test_a_text_of_so_many_columns_that_they_would_take_all_memory_is_not_read(tmp_path):
    line = b"1," * 168_749 + b"1\n"
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress(line * 5))  # some hundred bytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(BadInput, match="has 168,750 columns; of a text at most 65,536 are read"):
        read_schema(str(tmp_path / "a.csv.bz2"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # it took 2 GB
