"""Files as spreadsheets and loggers write them: what must come out of each, at no more than a few keys."""

import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from series import read_file

from beamfeed.transforms.sources.readers.expected import TextOptions
from beamfeed.transforms.sources.readers.text import find_dialect

ODD = Path(__file__).parent / "odd"
VALUES = [[20.5, 1013.25], [None, 998.7], [21, 1000]]
TENS = [datetime(2024, 2, 1, 0, minute, tzinfo=UTC) for minute in (0, 10, 20)]  # ten minutes from one to the next
SECONDS = [datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC) for second in (0, 1, 2)]
COUNT = [0, 1, 2]
FLOATS = [0, 10**9, 2 * 10**9]


def at(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)


# File, `source.time`, what else of `source`, times, and what is told of how the file is written.
FILES = [
    ("german.csv", "Zeit", {"csv": {"skip_last": 1}, "features": ["Temp [°C]", "Druck"]}, TENS,
     "delimiter ';', decimal ',', thousands '.', encoding cp1252, 3 lines before the names, "
     "1 line between the names and the rows"),
    ("us.csv", "Time", {}, [at(2024, 1, 31, 23, 59), at(2024, 2, 1, 0, 9), at(2024, 2, 1, 0, 19)], "thousands ','"),
    ("unicode_text.txt", "Time", {"features": ["Temp", "Druck *"]}, TENS,
     "delimiter tab, decimal ',', encoding utf-16-le"),
    ("hash_in_quotes.csv", "t", {}, COUNT, "comments after '#'"),
    ("hash_names.csv", "t", {}, COUNT, ""),
    ("all_hash_names.csv", "t", {}, COUNT, ""),
    ("rows_in_comments.csv", "t", {}, COUNT, "comments after '#'"),
    ("bom.csv", "t", {}, COUNT, ""),
    ("units.csv", {"column": "Time", "unit": "s"}, {}, SECONDS, "2 lines between the names and the rows"),
    ("comments.csv", "t", {}, COUNT, "2 lines before the names, comments after '#'"),
    ("numpy.txt", "t", {}, FLOATS, "delimiter white space, comments after '#'"),
    ("pipes.TXT", "t", {}, COUNT, "delimiter '|'"),
    ("sep.csv", "t", {}, COUNT, "delimiter ';', decimal ',', 1 line before the names"),
    ("trailing.csv", "t", {}, COUNT, ""),
    ("trailing_rows.csv", "t", {}, COUNT, "delimiter ';'"),
    ("no_names.csv", "f0", {"features": ["f1", "f2"]}, COUNT, "no line of names"),
    ("no_names.csv", "t", {"csv": {"names": ["t", "Temp", "Pressure"]}}, COUNT, "no line of names"),
    ("white_space.txt", "t", {}, [0, 10**9, 12 * 10**9], "delimiter white space"),
    ("two_columns.csv", ["Date", "Time"], {}, [*TENS[:2], at(2024, 2, 13, 23, 59, 59)], "delimiter ';', decimal ','"),
    ("zones.csv", "Time", {}, TENS, ""),
    ("fractions.csv", "Time", {}, [TENS[0], at(2024, 2, 1, 0, 0, 0, 500_000), at(2024, 2, 1, 0, 0, 1)], ""),
    ("swiss.csv", "t", {}, COUNT, "delimiter ';', thousands \"'\""),
    ("french.csv", "t", {}, COUNT, "delimiter ';', decimal ',', thousands ' '"),
    ("old_mac.csv", "t", {}, COUNT, ""),
    ("quoted.csv", "t", {}, COUNT, ""),
    ("padded.csv", "t", {}, COUNT, ""),
    ("comma_both.csv", "t", {}, COUNT, "decimal ','"),
    ("compact.csv", {"column": "Time", "format": "%Y%m%d%H%M%S"}, {}, TENS, "delimiter ';'"),
    ("compact.csv", {"column": "Time", "format": "%Y%m%d%H%M%S", "zone": "Europe/Berlin"}, {},
     [at(2024, 1, 31, 23, minute) for minute in (0, 10, 20)], "delimiter ';'"),
    ("japanese.csv", {"column": "時刻", "format": "%Y年%m月%d日 %H:%M"}, {"csv": {"encoding": "shift_jis"}}, TENS,
     "encoding shift_jis"),
    ("inches.csv", "t", {"csv": {"quote": None}}, COUNT, "delimiter ';'"),
    ("lines.jsonl", "t", {}, COUNT, ""),
    ("quoted_numbers.ndjson", "Time", {}, TENS, ""),
    ("duplicate.csv", "t", {}, COUNT, ""),
    ("preamble.csv", "t", {}, COUNT, "delimiter ';', 4 lines before the names"),
    ("latin_footer.txt", "Uhrzeit", {"csv": {"skip_last": 1}}, TENS, "delimiter tab, encoding cp1252"),
    ("nulls.csv", "t", {"csv": {"null_words": ["-9999"]}}, [*COUNT, 3], ""),
]  # fmt: skip


@pytest.mark.parametrize("case", FILES, ids=lambda case: case[0])
def test_what_comes_out(case):
    name, time, source, times, told = case
    found = read_file(ODD / name, time, **{"features": ["Temp", "Pressure"], **source})
    expected = [when if isinstance(when, int) else int(when.timestamp() * 10**6) * 1000 for when in times]
    assert found.ticks.tolist() == expected
    values = np.array([*VALUES, [None, None]][: len(expected)], float).astype("f4")
    np.testing.assert_array_equal(found.values, values)
    assert [line for line in found.remarks if line.startswith("source.csv")] == (
        [f"source.csv: {told}"] if told else []
    )


def test_rows_that_count_themselves():
    found = read_file(ODD / "one_column.csv", {"from": "row"}, features=["Temp"])
    assert found.ticks.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(found.values[:, 0], np.array([20.5, np.nan, 21], "f4"))
    found = read_file(ODD / "swiss.csv", {"from": "row", "unit": "m"}, features=["Temp"])
    assert found.ticks.tolist() == [0, 60 * 10**9, 120 * 10**9]


@pytest.mark.parametrize("packing", ["gz", "bz2", "zst"])
@pytest.mark.parametrize("name", ["german.csv", "unicode_text.txt", "lines.jsonl"])
def test_packed_files(tmp_path, name, packing):
    import pyarrow as pa

    path = tmp_path / f"{name}.{packing.upper()}"
    with pa.CompressedOutputStream(str(path), {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}[packing]) as out:
        out.write((ODD / name).read_bytes())
    time = {"g": "Zeit", "u": "Time", "l": "t"}[name[0]]
    source = {"features": ["Temp*", "[DP]r*"], "csv": {"skip_last": int(name[0] == "g")}}
    plain, packed = read_file(ODD / name, time, **source), read_file(path, time, **source)
    assert packed.ticks.tolist() == plain.ticks.tolist()
    np.testing.assert_array_equal(packed.values, plain.values)


def test_a_file_that_was_mended_is_read_as_it_is_now(tmp_path):
    """In the same process, as in a notebook or a pool of workers; also where its size stays."""
    path = tmp_path / "a.csv"
    names = []
    for mtime, header in enumerate(("t,a,b", "t,b,a")):
        path.write_text(f"{header}\n1,2,3\n")
        os.utime(path, ns=(mtime, mtime))
        names.append(find_dialect(str(path), TextOptions()).names)
    assert names == [("t", "a", "b"), ("t", "b", "a")]
