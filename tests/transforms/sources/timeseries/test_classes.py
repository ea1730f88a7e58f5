"""Classes of labels: their names, their order, and the type that a CSV column of them is read as."""

import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest

from beamfeed.contract.config.label import Label
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.transforms.sources.columns.labels import LabelColumn, class_names, in_order, resolve_labels
from beamfeed.transforms.sources.timeseries.classes import (
    SeenClasses,
)
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.verdict import SeriesVerdict, accepted_classes, find_unseen, set_aside

AUTO = (LabelColumn("state", pa.string(), (), auto=True),)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"10", "9", "-1"}, ("-1", "9", "10")),
        ({"1", "1.0", "0.5"}, ("0.5", "1", "1.0")),
        ({"ok", "10", "9"}, ("10", "9", "ok")),
        ({"2", "nan", "1", "0"}, ("0", "1", "2", "nan")),  # as text: "nan" has no place among numbers
        ({"inf", "3", "20"}, ("20", "3", "inf")),
    ],
)
def test_classes_have_one_order(names, expected):
    assert in_order(frozenset(names)) == expected


def test_the_order_does_not_hang_on_the_process():
    code = (
        "from beamfeed.transforms.sources.columns.labels import in_order; "
        "print(in_order(frozenset(['0', '1', '2', 'nan', '-3'])))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1


BOOL, NULL, INT, FLOAT, TEXT = pa.bool_(), pa.null(), pa.int64(), pa.float64(), pa.string()


@pytest.mark.parametrize(
    ("types", "classes", "expected"),
    [
        ([BOOL, NULL], None, BOOL),  # one file has no label at all
        ([BOOL, NULL], "auto", BOOL),
        ([NULL, NULL], "auto", TEXT),  # the first block of every file is empty: what comes may be anything
        ([NULL, INT], ["ok", "worn"], TEXT),
        ([INT, INT], "auto", INT),
        ([INT, INT], ["1", "2"], INT),
        ([INT, INT], ["001", "002"], TEXT),  # as they are written
        ([INT, FLOAT], "auto", FLOAT),
        ([BOOL, INT], "auto", TEXT),
        ([INT, TEXT], "auto", TEXT),
        ([INT, FLOAT], None, pa.float32()),
    ],
)
def test_the_type_that_a_csv_column_is_read_as(types, classes, expected):
    (column,) = resolve_labels([Label(column="state", classes=classes)], {"state": types})
    assert column.type == expected


def test_names_of_classes_are_as_short_as_the_numbers():
    assert class_names(pa.array([0.1, 2.0, None, float("nan")], pa.float32())).to_pylist() == ["0.1", "2", None, None]
    assert class_names(pa.array([0.1, 2.5], pa.float64())).to_pylist() == ["0.1", "2.5"]
    assert class_names(pa.array([True, None, False])).to_pylist() == ["true", None, "false"]
    assert class_names(pa.array(["nan", "", "x"])).to_pylist() == ["nan", None, "x"]


def verdict(name: str, training=(), elsewhere=()) -> SeriesVerdict:
    seen = SeenClasses((frozenset(training),), (dict.fromkeys(elsewhere, (f"{name}.csv", 3)),))
    return SeriesVerdict(SeriesAsset(name, (), "train"), None, classes=seen)


def test_numbers_are_no_classes_is_told_before_assets_are_blamed():
    many = [verdict("a", training=[str(i / 7) for i in range(1500)]), verdict("b", elsewhere=["0.123"])]
    with pytest.raises(JobFailed, match=r"more than 1000 values in training rows.*leave 'classes' out"):
        find_unseen([pair for one in many for pair in accepted_classes(one)], AUTO)


def test_what_was_seen_is_dropped_once_it_was_looked_at():
    found = set_aside(verdict("a", training=["x"]), {}, SeenClasses.zero(AUTO))
    assert found.classes == SeenClasses.zero(AUTO)
    assert replace(found, classes=None).rejects == ()


def test_an_empty_text_is_no_class():
    with pytest.raises(ValueError, match="an empty text is no name of a class"):
        Label(column="state", classes=["", "worn"])


def test_text_without_classes_is_told():
    with pytest.raises(UserError, match="numbers are needed, or classes: auto"):
        resolve_labels([Label(column="state")], {"state": [TEXT]})
