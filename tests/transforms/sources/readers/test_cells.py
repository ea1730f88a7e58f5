import pytest

from beamfeed.transforms.sources.readers.cells import Unsure, find_numbers, kind_of
from beamfeed.transforms.sources.readers.dialect import Numbers


@pytest.mark.parametrize(
    ("kind", "cells"),
    [
        ("number", "1 -1.5 +1,5 .5 1e5 1.234,5 1'234 inf true FALSE 1\u00a0234,5 5."),
        ("time", "2024-01-31 2024-01-31T10:00 31.01.2024 1/31/24 10:00 10:00:00.5 20240131T101112 31-Jan-2024"),
        ("null", "NA - #N/A NaN n.a. #WERT! ?"),
        ("text", "abc °C [s] x1 1_0 5d 12% A1:B2"),
    ],
)
def test_kinds(kind, cells):
    assert {cell: kind_of(cell) for cell in cells.split(" ")} == dict.fromkeys(cells.split(" "), kind)
    assert kind_of("Jan 31, 2024 10:00 PM") == kind_of("31.01.2024 10:00:00,5") == "time"
    assert kind_of(" ") == "null"
    assert kind_of("-999", ["-999"]) == "null"


@pytest.mark.parametrize(
    ("cells", "delimiter", "expected"),
    [
        (["1", "2"], ";", None),
        (["1", "2.5"], ";", Numbers(".")),
        (["1", "2,5"], ";", Numbers(",")),
        (["1.234", "2,5"], ";", Numbers(",")),
        (["1.234,5", "2"], ";", Numbers(",", ".")),
        (["1,234.5", "1,234"], "\t", Numbers(".", ",")),
        (["1.234.567"], ";", Numbers(",", ".")),
        (["1 234,5"], ";", Numbers(",", " ")),
        (["1\u202f234"], ";", Numbers(".", " ")),
        (["1'234.5"], ";", Numbers(".", "'")),
        (["1'234"], ";", Numbers(".", "'")),
        (["0.123", "1.234"], ";", Numbers(".")),
        (["0,123", "1,234"], ";", Numbers(",")),
        (["1234.567", "1.234"], ";", Numbers(".")),
        (["1.234e3"], ";", Numbers(".")),
        (["1.234"], ",", Numbers(".")),
        (["1,234.50", "1.5"], ",", Numbers(".", ",")),
        (["-0,5", "1.2.3", "12.34.5", "1,2,3", "a,b"], ";", Numbers(",")),
    ],
)
def test_how_numbers_are_written(cells, delimiter, expected):
    assert find_numbers(cells, delimiter, "auto", "auto") == expected


@pytest.mark.parametrize(
    ("cells", "delimiter", "message"),
    [
        (["1.234", "999"], ";", r"'1.234' may have thousands or decimals; source.csv.decimal says which"),
        (["1,234"], "\t", "'1,234' may have thousands or decimals"),
        (["1,234"], ",", "'1,234' may have thousands or decimals"),
        (["1.234", "1,234"], ";", "'1.234' and '1,234' may have thousands or decimals"),
        (["1.5", "1,5"], ";", "'1.5' and '1,5' are numbers of two kinds"),
    ],
)
def test_what_could_be_read_in_two_ways_is_not_guessed(cells, delimiter, message):
    with pytest.raises(Unsure, match=message):
        find_numbers(cells, delimiter, "auto", "auto")


def test_what_the_user_gave_is_not_guessed():
    assert find_numbers(["1.234"], ";", ".", "auto") == Numbers(".")
    assert find_numbers(["1,5", "1,5"], ";", ".", "auto") == Numbers(".")
    assert find_numbers(["1.234.567"], ";", ".", "auto") == Numbers(".")
    assert find_numbers(["1.234,5"], ";", "auto", None) == Numbers(",")
    assert find_numbers(["1.234"], ";", "auto", ".") == Numbers(",", ".")
    assert find_numbers(["1.234"], ";", ",", ".") == Numbers(",", ".")
    assert find_numbers(["1"], ";", "auto", " ") == Numbers(".", " ")
