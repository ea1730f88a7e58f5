"""A quote that is never closed costs its row, wherever it stands; values in quotes that hold lines read as they are."""

import gzip
import random

import pyarrow as pa
import pytest
from table_rows import read_rows

from beamfeed.transforms.sources.readers import blocks
from beamfeed.transforms.sources.readers.clean import clean
from beamfeed.transforms.sources.readers.dialect import Dialect
from beamfeed.transforms.sources.readers.encoding import BadText
from beamfeed.transforms.sources.readers.parse import parse

FEATURES = {"id": "numeric", "x": "numeric", "note": "categorical"}
PLACES = ["first", "middle", "last"]


def make_rows(rows: int, chance: random.Random, *, long: bool) -> list[tuple[float, float, str]]:
    """Rows whose text may be plain, quoted, empty in quotes, or of many lines, some of them with delimiters."""
    words = ["plain", "with, a comma", 'with "quotes"', "two\nlines", "1, 2\n3, 4\nand more, of it\n\nend", ""]
    if long:
        words.append("\n".join(f"line {i}, of a review" for i in range(300)))
    return [(float(i), i + 0.5, chance.choice(words) or f"n{i}") for i in range(rows)]


def write_rows(
    rows: list[tuple[float, float, str]], opened: dict[int, str], *, delimiter: str = ",", end: str = "\n"
) -> tuple[bytes, list[int]]:
    """A text and the lines of its rows; by number the rows with an open quote, and the column that it stands in."""
    lines, at = [delimiter.join(["id", "note", "x", "more"])], [2]
    for i, (number, x, note) in enumerate(rows):
        quoted = '"' + note.replace('"', '""') + '"' if any(c in note for c in ',;"\n') else note
        cells = [f"{number:g}", quoted, f"{x:g}", "z"]
        if i in opened:
            cells[1] = "note"
            place = {"first": 0, "middle": 1, "last": 3}[opened[i]]
            cells[place] = '"' + cells[place]
        lines.append(delimiter.join(cells))
        at.append(at[-1] + lines[-1].count("\n") + 1)
    return (end.join(lines) + end).encode(), at[:-1]


@pytest.mark.parametrize("seed", range(30))
def test_open_quotes_anywhere_cost_their_rows_and_no_others(tmp_path, monkeypatch, seed):
    chance = random.Random(seed)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", chance.choice([700, 3000, 1 << 20]))
    legal = chance.random() < 0.7
    count = chance.choice([30, 400])
    rows = make_rows(count, chance, long=blocks.BLOCK_BYTES > 3000)
    rows = rows if legal else [(number, x, f"n{number:g}") for number, x, _ in rows]
    opened = {chance.randrange(count): chance.choice(PLACES) for _ in range(chance.randint(1, 4) if legal else 1)}
    if not legal:
        opened = {chance.randrange(count): chance.choice(PLACES)}
    text, lines = write_rows(rows, opened, delimiter=chance.choice(",;"), end=chance.choice(["\n", "\n", "\r\n"]))
    packed = chance.random() < 0.3
    path = tmp_path / ("a.csv.gz" if packed else "a.csv")
    path.write_bytes(gzip.compress(text) if packed else text)
    found, wrong = read_rows(path, FEATURES)
    assert len(found) == count
    assert {row: place for row, (place, _) in wrong.items()} == {row: f"line {lines[row]}" for row in opened}
    assert all("a quote is opened and never closed" in reason for _, reason in wrong.values())
    for i, (row, expected) in enumerate(zip(found, rows, strict=True)):
        if i not in opened:
            assert row == (expected[0], expected[1], expected[2].replace("\r", ""))


def test_a_quote_that_is_closed_much_later_by_chance(tmp_path):
    rows = [f"{i},{i}.5,{chr(34) if i in (20, 60) else ''}n{i}{' 5' + chr(34) if i == 60 else ''}" for i in range(90)]
    (tmp_path / "a.csv").write_text("id,x,note\n" + "\n".join(rows[:60]) + '\n60,60.5,n60 5"\n' + "\n".join(rows[61:]))
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert (len(found), list(wrong)) == (90, [20])


def test_reviews_of_hundreds_of_lines_read_as_they_are(tmp_path):
    reviews = ["\n".join(f"{line}, stars, and {line} more" for line in range(400)), "1,2\n3,4\n5,6\n", "one line"] * 20
    text = "id,x,note\n" + "".join(f'{i},{i}.5,"{review}"\n' for i, review in enumerate(reviews))
    (tmp_path / "a.csv").write_text(text)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert not wrong
    assert [row[2] for row in found] == reviews


@pytest.mark.parametrize("row", [0, 1, 5, 8_999, 9_999])
@pytest.mark.parametrize("column", PLACES)
def test_one_open_quote_in_a_file_without_others(tmp_path, row, column):
    rows = [(float(i), i + 0.25, f"n{i}") for i in range(10_000)]
    text, lines = write_rows(rows, {row: column})
    (tmp_path / "a.csv").write_bytes(text)
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert len(found) == 10_000
    assert {at: place for at, (place, _) in wrong.items()} == {row: f"line {lines[row]}"}


@pytest.mark.parametrize("row", ['"w,"0.5","z"', '"w","0.5,"z"', '"w","0.5","z', 'w,"0.5,z', '"w,0.5,"z"'])
def test_a_first_row_with_an_open_quote_is_no_line_of_units(tmp_path, row):
    rows = [row, *(f'"n{i}","{i}.5","z"' for i in range(1, 30))]
    (tmp_path / "a.csv").write_text("note,x,more\n" + "\n".join(rows) + "\n")
    found, wrong = read_rows(tmp_path / "a.csv", {"note": "categorical", "x": "numeric"})
    assert (len(found), [place for place, _ in wrong.values()]) == (30, ["line 2"])


def test_a_line_of_units_in_quotes_is_still_none_of_the_rows(tmp_path):
    rows = [f'"n{i}","{i}.5","z"' for i in range(30)]
    (tmp_path / "a.csv").write_text('note,x,more\n"word","in ""inches""",""\n' + "\n".join(rows) + "\n")
    found, wrong = read_rows(tmp_path / "a.csv", {"note": "categorical", "x": "numeric"})
    assert (len(found), wrong) == (30, {})


def test_rows_of_texts_before_one_with_an_open_quote_are_no_units(tmp_path):
    rows = ['"n0","z"', '"n1","z"', '"n2,"z"', *(f'"n{i}","z"' for i in range(3, 30))]
    (tmp_path / "a.csv").write_text("note,more\n" + "\n".join(rows) + "\n")
    found, wrong = read_rows(tmp_path / "a.csv", {"note": "categorical", "more": "categorical"})
    assert (len(found), [place for place, _ in wrong.values()]) == (30, ["line 4"])


@pytest.mark.parametrize("zeros", [4, 300])
def test_a_line_of_zero_bytes_is_no_open_quote(tmp_path, zeros):
    rows = [f'{i},{i}.5,"n{i}"' for i in range(80_000)]  # the beginning of a file with zero bytes would be no text
    rows.insert(79_000, "\0" * zeros)
    (tmp_path / "a.csv").write_text("id,x,note\n" + "\n".join(rows) + "\n")
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    told = "\\0" * min(zeros, 50) + ("..." if zeros > 50 else "")
    assert (len(found), wrong) == (80_001, {79_000: ("line 79002", f"expected 3 columns, got 1: {told}")})
    dialect = Dialect(("id", "x", "note"))
    for row, reason in (("\0" * zeros, "expected 3 columns, got 1"), ('1,2,"' + "n" * zeros, "a quote is opened")):
        text = clean(f"1,2,3\n{row}\n".encode(), dialect, first=False)
        with pytest.raises(BadText, match=reason) as error:
            parse(text, dialect, {"note": pa.string()}).check()
        assert error.value.line == 2


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_of_delimiters_in_a_value_is_text_and_else_no_row(tmp_path, end):
    note = f"a{end},,{end}{end},,{end}b, c"
    text = end.join(["id,x,note", f'1,1.5,"{note}"', ",,", '2,2.5,"n"', ",,", ",,", ""])
    (tmp_path / "a.csv").write_bytes(text.encode())
    assert read_rows(tmp_path / "a.csv", FEATURES) == ([(1, 1.5, note), (2, 2.5, "n")], {})


@pytest.mark.parametrize("damage", ["\0" * 40, "\0" * 2000, "50,1.5,\0\0\0", "50,1.5,a\x1cb"])
def test_bytes_that_no_text_has_cost_their_row(tmp_path, damage):
    rows = [f"{i},{i}.5,note {i}" for i in range(300)]
    (tmp_path / "a.csv").write_text("\n".join(["id,x,note", *rows[:50], damage, *rows[51:]]) + "\n")
    found, wrong = read_rows(tmp_path / "a.csv", FEATURES)
    assert len(found) == 300
    assert [row for at, row in enumerate(found) if at != 50] == [
        (i, i + 0.5, f"note {i}") for i in range(300) if i != 50
    ]
    assert wrong.get(50, ("line 52", ""))[0].startswith("line 52")
    assert list(wrong) == ([50] if "\0" in damage else [])


def test_names_of_two_lines_are_no_row_where_no_column_is_a_number(tmp_path):
    (tmp_path / "a.csv").write_text('"comment\ntext",label\nfoo,yes\nbar,no\n')
    rows, wrong = read_rows(tmp_path / "a.csv", {"label": "categorical"})
    assert (rows, wrong) == ([("yes",), ("no",)], {})
    rows, wrong = read_rows(tmp_path / "a.csv", {"b": "categorical"}, csv={"names": ["a", "b"], "header": True})
    assert (rows, wrong) == ([("yes",), ("no",)], {})


def test_a_name_of_two_lines_is_that_of_its_column(tmp_path):
    (tmp_path / "a.csv").write_text('id,"x\n(m)",x(m),note\n1,2.5,3.5,a\n2,4.5,5.5,b\n')
    rows, wrong = read_rows(tmp_path / "a.csv", {"x\n(m)": "numeric"})
    assert not wrong
    assert rows == [(2.5,), (4.5,)]
