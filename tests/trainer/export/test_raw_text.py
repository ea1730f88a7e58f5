"""Text that the exported model reads, against what preprocessing makes of the same files."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.raw_values import RawColumn, RawValues, read_raw_values
from beamfeed.contract.errors import UserError
from beamfeed.trainer.export.raw_text import NO_TIME, RawText
from beamfeed.transforms.sources.readers import BAD, iter_batches
from beamfeed.transforms.sources.readers.time_text import BadTime, pattern_of, read_times
from beamfeed.transforms.sources.readers.values import NUMBER
from beamfeed.transforms.sources.table.resolve import resolve_schema
from beamfeed.transforms.sources.table.rows import TableRows, to_rows

FEATURES = {
    "x": "numeric", "kind": "categorical", "when": "date", "flag": "numeric",
    "both": {"type": "cross", "of": ["kind", "tag"], "hash": 9},
    "note": {"type": "text", "length": 4}, "yes": {"type": "categorical", "required": True},
    "code": {"type": "pass", "as": "text", "role": "input"}, "w": {"type": "pass", "as": "number", "role": "input"},
}  # fmt: skip
NAMES = ["x", "kind", "when", "flag", "tag", "note", "yes", "code", "w"]
PLAIN = {
    "x": "1.5",
    "kind": "a",
    "when": "2024-01-31",
    "flag": "true",
    "tag": "b",
    "note": "so it is",
    "yes": "True",
    "code": "c",
    "w": "2",
}
SPACE = st.sampled_from(["", "", "", " ", "  ", "\t", "\u00a0", "\u2003", " \u3000"])
WORDS = st.sampled_from(["", "?", "NA", "nan", "null", "-", "#N/A", "NaT", "none", "fehlt", "x", "Fehlt"])
DIGITS = st.text("0123456789", min_size=1, max_size=5)
NUMBERS = st.one_of(
    st.floats(width=32).map(repr), st.floats().map(str), st.integers(-10**20, 10**20).map(str), WORDS,
    st.builds("{}{}{}{}{}".format, st.sampled_from(["", "+", "-"]), DIGITS, st.sampled_from([".", ",", "'", " ", ""]),
              st.sampled_from(["", "000", "123", "5"]), st.sampled_from(["", ",25", ".25", "e5", "E-3", "e", "e400"])),
)  # fmt: skip
TEXTS = st.one_of(WORDS, st.sampled_from(["7", "7.0", "True", "FALSE", "1", "Ärger", "a b", "1e5", "2024-01-31"]))
BOOLS = st.one_of(WORDS, st.sampled_from(["True", "true", "TRUE", "0", "1", "False", "tRue", "2", "yes"]))
PERIODS = st.sampled_from(["Q1", "q2", "Q3", "Q4", "Q0", "Q5", "1", "07", "12", "13", "Jul", "sept."])
DATES = st.one_of(
    WORDS,
    st.datetimes().map(str),
    st.builds(
        "{:04d}{}{:02d}{}{:02d}{}{}{}".format,
        st.integers(1800, 2130), st.sampled_from("-/.x"), st.integers(0, 13), st.sampled_from("-/."),
        st.integers(0, 32),
        st.sampled_from(["", " 12:30", "T23:59:60", " 24:00", " 24:01", "T01:02:03.999", " 12:05 am", " 0:00 PM"]),
        st.sampled_from(["", "Z", "+01:00", " -0530", "+15:00", "+1"]), SPACE,
    ),
    st.builds("{}{}{}{}{}{}".format, st.integers(0, 32), st.sampled_from("-/. "),
              st.sampled_from(["1", "02", "12", "13", "Feb", "March", "sept", "xyz"]), st.sampled_from("-/. "),
              st.sampled_from(["2024", "23", "69", "1969", "12023"]), st.sampled_from(["", " 12:30", ", 1:05:06 PM"])),
    st.builds("{}{}{}".format, st.integers(1790, 2130), st.sampled_from(["", "-", "/", " "]), PERIODS),
    st.builds("{}{}{}".format, PERIODS, st.sampled_from(["", "-", "/", " ", ", "]), st.integers(1790, 2130)),
)  # fmt: skip
KINDS = {"x": NUMBERS, "w": NUMBERS, "flag": BOOLS, "yes": BOOLS, "when": DATES}


def quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def both_ways(folder: Path, rows: list[dict[str, str]], head: dict[str, str], **csv: object) -> TableRows:
    """Asserts that the graph reads rows of a CSV as preprocessing does, each value and what is wrong."""
    usual, path = folder / "usual.csv", folder / "odd.csv"
    for file, some in ((usual, []), (path, rows)):
        lines = [";".join(NAMES), *(";".join(quoted(row[name]) for name in NAMES) for row in [head] * 25 + some)]
        file.write_text("\n".join(lines) + "\n")
    job = Job.model_validate({
        "name": "t", "source": {"kind": "table", "files": str(usual), "csv": {"null_words": ["fehlt"], **csv}},
        "features": FEATURES, "output": {"path": "out"},
    })  # fmt: skip
    schema = resolve_schema(job, storage.match(str(usual), (".csv",)))
    assert schema.raw is not None
    raw = RawValues.model_validate_json(schema.raw.model_dump_json())
    batches = [batch for _, _, batch in iter_batches(str(path), schema, [*schema.names, BAD])]
    read = to_rows(str(path), 0, pa.Table.from_batches(batches).combine_chunks().to_batches()[0], schema, {})
    every = [head] * 25 + rows
    columns = {name: tf.constant([row[name] for row in every]) for name in NAMES}
    found, reasons = RawText(raw).read(columns)
    wrong = {at: reason.decode() for at, reason in enumerate(reasons.numpy()) if reason}
    assert wrong.keys() == read.wrong.keys()
    right = [at for at in range(len(every)) if at not in wrong]
    for name in NAMES:
        expected = read.columns.column(name)
        if pa.types.is_string(expected.type):
            assert [value.decode() for value in found[name].numpy()[right]] == [
                expected[at].as_py() or "" for at in right
            ]
        else:
            values = found[name].numpy()
            values = np.where(np.isfinite(values), values, np.nan) if name in "xw" else values
            np.testing.assert_array_equal(values[right], expected.to_numpy(zero_copy_only=False)[right])
    return read


def rows_of(padding: st.SearchStrategy[str]) -> st.SearchStrategy[list[dict[str, str]]]:
    cells = {name: st.builds("{}{}{}".format, padding, KINDS.get(name, TEXTS), padding) for name in NAMES}
    return st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=30)


@pytest.mark.slow
@settings(max_examples=60)
@given(
    rows=rows_of(SPACE),
    decimal=st.sampled_from([".", ","]),
    thousands=st.sampled_from([None, ".", ",", "'", " "]),
    padded=st.booleans(),
    date=st.sampled_from(["2024-01-31", "31.01.2024", "01/31/2024 10:00", "2010Q3", "Q3 2010"]),
)
def test_the_graph_reads_text_as_preprocessing_does(tmp_path_factory, rows, decimal, thousands, padded, date):
    thousands = None if thousands == decimal else thousands
    head = {**PLAIN, "x": PLAIN["x"].replace(".", decimal), "when": date}
    bare = ("flag", "yes")  # bools are known as such without white space alone
    head = {name: value if name in bare else f" {value}" for name, value in head.items()} if padded else head
    folder = tmp_path_factory.mktemp("spellings")
    both_ways(folder, rows, head, delimiter=";", decimal=decimal, thousands=thousands)


SPELLINGS = {
    "x": ["1", "+1", "-.5", "5.", "1e3", "1E-3", "1e39", "-1e400", "inf", "-Infinity", "nan", "1,5", "1.234,5",
          "1,234.5", "1'234", "1 234", "12,34", "0x1F", "1_0", " 7 ", "\u00a07\u2003", "?", " NA", "fehlt", "", "viel"],
    "when": [
        "2023-02-29", "2024-02-29", "1900-02-29", "2000-02-29", "2024-04-31", "2024-12-31", "2024-13-01", "2024-00-10",
        "2024-01-00", "1823-12-31", "1824-01-01", "2115-12-31", "2116-01-01", "2024-1-2", "20240131", "20240131T235959",
        "2024-01-31 24:00", "2024-01-31 24:01", "2024-01-31 23:60", "2024-01-31T23:59:60.999", "2024-01-31 12:05 am",
        "2024-01-31 12:05 PM", "2024-01-31 13:05 pm", "2024-01-31 00:05 a.m.", "1969-12-31 23:59:59.5", "31.01.2024",
        "29.02.2023", "1.2.69", "1.2.68", "3 Mar 2024", "31-Sept-23 1:02 pm", "30 feb 2024", "01/31/2024", "?", " ",
        "12/13/2024 10:00", "February 3, 2024", "NaT", "morgen", "\u00a02024-01-31", "2024-01-31 10:00-0130",
        "2024-01-31 10:00+15:00", "2024-02-30 10:00Z", "2024-01-31 10:00Z", "2010Q1", "2010-q4", "2010 Q5", "1799Q1",
        "2116Q1", "2010-07", "2010/13", "2010 sept.", "Q2 2010", "q3-1824", "Q1 1823", "7/2010", "Jul, 2010", "07 2010",
    ],
    "kind": ["a", " a", "a ", "\u00a0a", "A", "NA", " NA", "?", "na", "fehlt", "", " ", "7", "7.0", "Ärger", "1e5"],
    "yes": ["True", "TRUE", "1", "false", " true", "NA", "NULL", "#N/A", "nan", "", "ja"],
    "flag": ["true", "TRUE", "1", "0", " false", "1.0", "True ", "tRUE", "?", "", "yes"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("decimal", "thousands", "padded", "date"),
    [
        (".", None, False, "2024-01-31"), (",", ".", True, "31.01.2024"), (".", ",", True, "2024-01-31 10:00Z"),
        (",", None, False, "01/31/2024"), (".", "'", False, "31 Jan 2024"), (",", " ", True, "2024-01-31 00:00+01:00"),
        (".", None, True, "2010Q3"), (".", None, False, "Q3 2010"), (".", None, False, "2010-07"),
    ],
)  # fmt: skip
def test_each_spelling_is_read_as_preprocessing_does(tmp_path, decimal, thousands, padded, date):
    others = {"w": SPELLINGS["x"], "tag": SPELLINGS["kind"], "note": SPELLINGS["kind"], "code": SPELLINGS["kind"]}
    rows = [{**PLAIN, name: value} for name, values in (SPELLINGS | others).items() for value in values]
    rows = [{**row, "x": row["x"] if row["x"] != PLAIN["x"] else "1", "w": row["w"] or "2"} for row in rows]
    rows = [{**row, "when": row["when"] if row["when"] != PLAIN["when"] else date} for row in rows]
    head = {**PLAIN, "x": PLAIN["x"].replace(".", decimal), "when": date, "kind": " a" if padded else "a"}
    read = both_ways(tmp_path, rows, head, delimiter=";", decimal=decimal, thousands=thousands)
    missing = [place + 25 for place, row in enumerate(rows) if row["yes"] in ("NA", "NULL", "#N/A", "nan", "")]
    assert {read.wrong[place] for place in missing} == {"yes is missing"}


DAYS_OF_YEARS = st.builds(
    "{}-{:03d}{}".format, st.integers(1820, 2120), st.sampled_from([0, 1, 59, 60, 61, 200, 365, 366, 367, 999]),
    st.sampled_from(["", " 12:30", " 24:00", " 24:01"]),
)  # fmt: skip


@given(texts=st.lists(DAYS_OF_YEARS, max_size=30))
@settings(max_examples=20)
def test_days_of_the_year_are_read_as_preprocessing_does(texts):
    texts = ["2011-365 12:30", "2012-366 12:30", "2011-366 12:30", *texts]
    column = RawColumn(reads="time", trims=True, null_words=False, pattern=pattern_of("%Y-%j %H:%M"))
    raw = RawValues(null_words=[], true_words=[], false_words=[], decimal=".", number=NUMBER, columns={"when": column})
    found, reasons = RawText(raw).read({"when": tf.constant(texts)})
    expected = []
    for text in texts:
        try:
            expected.append(int(read_times(pa.array([text]), "%Y-%j %H:%M").local[0] // 10**9))
        except BadTime:
            expected.append(int(NO_TIME))
    assert found["when"].numpy().tolist() == expected
    assert [reason == b"" for reason in reasons.numpy()] == [seconds != NO_TIME for seconds in expected]
    days = [np.datetime64(day) for day in ("2011-12-31T12:30", "2012-12-31T12:30")]
    assert expected[:3] == [*(int(day.astype("datetime64[s]").astype(int)) for day in days), NO_TIME]


def test_files_that_are_written_in_several_ways_have_one_description(tmp_path):
    (tmp_path / "a.csv").write_text("x,kind\n" + "1.5,a\n" * 9)
    (tmp_path / "b.csv").write_text("x,kind\n" + '"1,234.5",b\n' * 9)
    (tmp_path / "c.csv").write_text("x,kind\n" + '"1,234.5",c\n' * 9)
    (tmp_path / "d.csv").write_text("x; kind\n" + "1,5; d\n" * 9)
    job = Job.model_validate({
        "name": "t", "source": {"kind": "table", "files": str(tmp_path)}, "output": {"path": "out"},
        "features": {"x": "numeric", "kind": "categorical"},
    })  # fmt: skip
    schema = resolve_schema(job, storage.match(str(tmp_path), (".csv",)))
    assert schema.raw is not None
    text = {"x": tf.constant(["1,234.5", "1.5", "1,5", " ? "]), "kind": tf.constant([" a", "NA", "a", " - "])}
    found, reasons = RawText(schema.raw).read(text)
    np.testing.assert_array_equal(found["x"], np.array([1234.5, 1.5, np.nan, np.nan], "f4"))
    assert found["kind"].numpy().tolist() == [b"a", b"", b"a", b""]
    assert reasons.numpy().tolist() == [b"", b"", b"x: '1,5' is not a number", b""]


def test_the_description_is_read_again_and_one_that_is_broken_is_told(tmp_path):
    path = tmp_path / "raw_values.json"
    assert read_raw_values(str(path)) is None
    path.write_text('{"null_words": 3}')
    with pytest.raises(UserError, match=r"raw_values\.json: is not of this version: .*; preprocess again"):
        read_raw_values(str(path))
