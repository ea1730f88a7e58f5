"""The keys of `source` that say how files are written and when their rows are."""

import pytest
from job_text import complaint

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.sources.timeseries import TimeseriesSource

JOB = """
name: test
source: {kind: timeseries, files: [a, b], time: {column: t}, features: [x]}
windows: {length: 3}
output: {path: /tmp/x}
"""


def test_files_are_one_or_a_list():
    assert parse_job(JOB).source.patterns == ("a", "b")
    assert parse_job(JOB, ["source.files=a"]).source.patterns == ("a",)


def test_characters_may_be_words():
    source = parse_job(JOB, ["source.csv={delimiter: tab, thousands: ' ', quote: null, encoding: Latin1}"]).source
    assert isinstance(source, TimeseriesSource)
    csv = source.csv
    assert (csv.delimiter, csv.thousands, csv.quote, csv.encoding, csv.decimal) == (
        "\t",
        " ",
        None,
        "iso8859-1",
        "auto",
    )
    assert parse_job(JOB, [r"source.csv.delimiter='\t'"]).source.csv.delimiter == "\t"  # type: ignore[attr-defined]


def test_time_columns():
    for value, columns in (("t", ("t",)), ("[d, c]", ("d", "c"))):
        assert parse_job(JOB, [f"source.time.column={value}"]).source.time.columns == columns  # type: ignore[attr-defined]
    assert parse_job(JOB, ["source.time={from: row, unit: s}"]).source.time.columns == ()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("source.files=[]", "source.files: [] is not allowed"),
        ("source.files=''", "source.files: '' is not allowed, it must be a file, a glob or a folder"),
        ("source.files=[a, '']", "source.files: '' is not allowed"),
        ("source.csv.delimiter=ab", "source.csv.delimiter: 'ab' is not allowed, a delimiter is one ASCII character"),
        ("source.csv.quote=auto", "source.csv.quote: 'auto' is not allowed"),
        ("source.csv.decimal=x", "source.csv.decimal: 'x' is not allowed, it must be auto, '.' or ','"),
        ("source.csv.thousands=x", "source.csv.thousands: 'x' is not allowed, it must be auto, '.', ',', ' '"),
        ("source.csv={decimal: ',', thousands: ','}", "source.csv: decimal and thousands are both ','"),
        ("source.csv={delimiter: '|', quote: '|'}", "source.csv: quote and delimiter are both '|'"),
        ("source.csv.encoding=nope", "source.csv.encoding: 'nope' is not an encoding, such as utf-8"),
        ("source.csv.skip_lines=-1", "source.csv.skip_lines: -1 is not allowed, it must be a whole number, 0 or more"),
        ("source.csv.header=maybe", "source.csv.header: 'maybe' is not allowed"),
        ("source.csv.comment=''", "source.csv.comment: '' is not allowed"),
        ("source.csv.names=[a, b, a]", "source.csv: names: 'a' is there twice"),
        ("source.csv.delimeter=';'", "source.csv.delimeter: unknown key; did you mean 'delimiter'?"),
        ("source.time={}", "source.time: give either 'column: <name>' or 'from: row'"),
        ("source.time={column: t, from: row}", "source.time: give either 'column: <name>' or 'from: row'"),
        ("source.time={from: row, zone: UTC}", "source.time: zone does not go with 'from: row', which is no time"),
        ("source.time.column=[a]", "source.time.column: ['a'] is not allowed, it must be a name, two: [DATE, TIME]"),
        ("source.time.column=[a, a]", "source.time.column: ['a', 'a'] is not allowed"),
        ("source.time.format=day", "source.time.format: 'day' holds no %"),
        ("source.time.format='%Q'", "source.time.format: '%Q' holds %Q, which is not known"),
        ("source.time={column: t, unit: s, format: '%Y'}", "source.time: give either unit, for numbers, or format"),
        (
            "source.time.zone=Europe/Berln",
            "source.time.zone: 'Europe/Berln' is not a time zone; did you mean 'Europe/Berlin'?",
        ),
        ("source.missing_columns=maybe", "source.missing_columns: 'maybe' is not allowed (allowed: reject, missing)"),
    ],
)
def test_a_mistake_is_one_line(override, message):
    (line,) = complaint(JOB, override).splitlines()
    assert message in line
    assert line.startswith("--set ")


@pytest.mark.parametrize(
    ("path", "stem"),
    [
        ("a/m1.parquet", "m1"),
        ("m1.CSV", "m1"),
        ("m1.v2.csv.GZ", "m1.v2"),
        ("m1.dat", "m1.dat"),
        ("gs://b/m.jsonl.zst", "m"),
    ],
)
def test_the_stem_of_a_file(path, stem):
    assert TimeseriesSource.stem(path) == stem
