"""Another format is a file with a reader, and a line in the look-up."""

import json

import numpy as np
import pyarrow as pa
from series import read_file

from beamfeed.contract.config.sources.formats import FORMATS, Format
from beamfeed.transforms.sources.readers import divides, look_at, peek
from beamfeed.transforms.sources.readers.excerpt import choose_parts, stored_groups
from beamfeed.transforms.sources.readers.expected import Columns, Group, Look, TextOptions
from beamfeed.transforms.sources.readers.lookup import READERS, Reader

ANYTHING = Columns([], {}, TextOptions())


def table_of(path):
    with open(path) as file:
        return pa.table(json.load(file))


def look_at_columns(path, options):
    return Look(table_of(path).schema)


def batches_of(path, expected, names, groups, last_rows):
    table = table_of(path)
    expected.check(path, table.schema)
    for group in groups_of(path, expected) if groups is None else groups:
        rows = table.slice(group.row, group.rows).select([name for name in names if name in table.column_names])
        yield group, group.row, rows.combine_chunks().to_batches()[0]


def groups_of(path, expected):
    rows = table_of(path).num_rows
    return [Group(row, min(2, rows - row), row) for row in range(0, rows, 2)]


def test_a_format_by_one_file_and_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(FORMATS, "columns", Format((".columns",)))
    monkeypatch.setitem(READERS, "columns", Reader(look_at_columns, batches_of, groups_of))
    path = tmp_path / "a.columns"
    path.write_text(json.dumps({"t": [1, 2, 3, 4, 5], "x": [0.5, None, 2.5, 3.5, 4.5]}))
    assert look_at(str(path)).schema.names == ["t", "x"]
    found = read_file(path, "t", features=["x"])
    assert found.ticks.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(found.values[:, 0], np.array([0.5, np.nan, 2.5, 3.5, 4.5], "f4"))
    assert [group.rows for group in stored_groups(str(path), ANYTHING)] == [2, 2, 1]
    assert divides(str(path), ANYTHING)
    assert peek(str(path), ["x", "t"], TextOptions()) == ["0.5 1"]


def rows_of_text(path):
    with open(path) as file:
        rows = [dict(pair.split("=") for pair in line.split()) for line in file]
    return pa.table({"t": [int(row["t"]) for row in rows], "x": [float(row["x"]) for row in rows]})


def text_batches(path, expected, names, groups, last_rows):
    table = rows_of_text(path)
    columns = {name: table[name].cast(expected.csv_types[name]) for name in names if name in table.column_names}
    batch = pa.table(columns).combine_chunks().to_batches()[0]
    yield Group(0, batch.num_rows, 0), 0, batch


def test_a_text_likewise(tmp_path, monkeypatch):
    """Lines such as "t=1 x=0.5"."""
    monkeypatch.setitem(FORMATS, "pairs", Format((".pairs",), is_text=True))
    reader = Reader(
        look=lambda path, options: Look(rows_of_text(path).schema),
        batches=text_batches,
        cut=lambda path, options: None,
    )
    monkeypatch.setitem(READERS, "pairs", reader)
    path = tmp_path / "a.pairs"
    path.write_text("t=1 x=0.5\nt=2 x=1.5\n")
    assert look_at(str(path)).schema.names == ["t", "x"]
    series = read_file(path, "t", features=["x"])
    assert series.ticks.tolist() == [1, 2]
    np.testing.assert_array_equal(series.values[:, 0], np.array([0.5, 1.5], "f4"))
    assert not divides(str(path), ANYTHING)
    assert choose_parts(str(path), 99, ANYTHING, 10) is None
    assert peek(str(path), ["x", "t"], TextOptions()) == ["0.5 1", "1.5 2"]
