"""Categories however files write them."""

import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.transforms.sources.table.source import Table
from tests.table_rows import read_rows

TEXT = "code,zip,flag\n7,7.0,True\n7.0,010,False\n1.10,1.0,true\n-3.00,x,\n"


def test_whole_numbers_are_one_category_and_passed_on_as_they_are(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    rows, wrong = read_rows(tmp_path / "a.csv", {"code": "categorical", "zip": {"type": "pass", "as": "text"}})
    assert not wrong
    assert rows == [("7", "7.0"), ("7", "010"), ("1.10", "1.0"), ("-3", "x")]


def test_words_for_nothing_are_whole_numbers_too(tmp_path):
    (tmp_path / "a.csv").write_text("code,x\n-999.0,1\n-999,2\n-1,3\n-1.0,4\n7.0,5\n")
    rows, _ = read_rows(tmp_path / "a.csv", {"code": "categorical"}, csv={"null_words": ["-999", "-1.0"]})
    assert rows == [(None,), (None,), (None,), (None,), ("7",)]


@pytest.mark.parametrize("first", ["True", "maybe"])
def test_new_files_are_read_as_those_of_the_dataset(tmp_path, first):
    """A column of all bools is no other than one with a word among them, where the dataset had such."""

    def table(name, text):
        (tmp_path / name).write_text(text)
        values = {"name": "t", "source": {"kind": "table", "files": str(tmp_path / name)},
                  "features": {"flag": "categorical", "x": "numeric"}, "output": {"path": "/nowhere"}}  # fmt: skip
        return Table.of(Job.model_validate(values), [storage.stat(str(tmp_path / name))])

    other = "maybe" if first == "True" else "True"
    then = table("then.csv", "flag,x\n" + f"{first},1\nFalse,2\n" * 20)
    now = table("now.csv", "flag,x\n" + f"{other},1\nFalse,2\n" * 20)
    assert then._schema.booleans != now._schema.booleans
    assert now.reading_as(then.raw_values)._schema.booleans == then._schema.booleans
    assert now.reading_as(None)._schema.booleans == now._schema.booleans
    assert now.reading_as(then.raw_values)._schema.categories == now._schema.categories == {"flag"}
    columns = {name: column.model_copy(update={"whole": False}) for name, column in then.raw_values.columns.items()}
    earlier = then.raw_values.model_copy(update={"columns": columns})  # of an earlier version
    assert not now.reading_as(earlier)._schema.categories
