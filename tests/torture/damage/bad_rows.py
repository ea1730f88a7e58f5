"""One bad row, in every format: it costs itself alone."""

from random import Random
from typing import Any

from ..fleet import Fleet, Part
from .kind import ROWS, damage, some_feature, some_part, spoil, with_csv
from .text import CSV, with_arrow
from .times import a_time_is_missing


@damage(format=CSV, features=[2, 3], last=True, kinds=ROWS)
def a_cell_of_text(fleet: Fleet, chance: Random) -> None:
    """Text where a number should be costs its row, and the reject names the line and what stands there."""
    part, (i, _) = some_part(fleet, chance), some_feature(fleet, chance)
    place = 1 + (fleet.plan.naming == "column") + i
    word = chance.choice(["oops", "OFF", "<0.1", "1.5 bar"])
    _spoil_line(fleet, chance, part, rf"line.*{word}", lambda cells: [*cells[:place], word, *cells[place + 1 :]], True)


@damage(format=CSV, naming=["stem", "pattern"], last=True, kinds=ROWS)
def a_short_line(fleet: Fleet, chance: Random) -> None:
    """A line with too few cells costs its row; no window goes over it."""
    part = some_part(fleet, chance, 4)
    _spoil_line(fleet, chance, part, "line.*expected", lambda cells: cells[: chance.randrange(1, len(cells))])


@damage(format=CSV, naming=["stem", "pattern"], last=True, kinds=ROWS)
def a_long_line(fleet: Fleet, chance: Random) -> None:
    """A line with too many cells costs its row; no window goes over it."""
    part = some_part(fleet, chance, 4)
    _spoil_line(fleet, chance, part, "line.*expected", lambda cells: [*cells, "7", "8"])


@damage(format=CSV, naming=["stem", "pattern"], last=True, kinds=ROWS)
def several_bad_lines(fleet: Fleet, chance: Random) -> None:
    """Lines of too many cells, one behind the other and at both ends of a file, cost their rows."""
    for part in (some_part(fleet, chance, 12), some_part(fleet, chance, 12)):
        at = chance.randrange(max(1, len(part) - 2))
        for row in {0, at, min(at + 1, len(part) - 1), len(part) - 1}:
            _spoil_line(fleet, chance, part, "line.*expected", lambda cells: [*cells, "7", "8"], row=row)


@damage(format=CSV, naming=["stem", "pattern"], last=True, kinds=ROWS)
def a_quote_opened_anywhere(fleet: Fleet, chance: Random) -> None:
    """A quote that is never closed costs its row, in any row, column and dialect; cells in quotes stay."""
    parts = (some_part(fleet, chance), some_part(fleet, chance))
    quote_all, newline, delimiter = chance.random() < 0.5, chance.choice(["\n", "\r\n"]), chance.choice(",;\t|")
    for part in fleet.parts:
        written = part.form.get("csv", {})  # a dialect of another damage stays
        plain = not written and not part.mend
        with_csv(part, quote_all=quote_all, **({"newline": newline, "delimiter": delimiter} if plain else {}))

    def opened(cells: list[str]) -> list[str]:
        place = chance.randrange(len(cells))
        bare = [cell.strip('"') for cell in cells]
        return [*bare[:place], '"' + bare[place], *bare[place + 1 :]]

    for part in parts:
        _spoil_line(fleet, chance, part, "line.*quote is opened", opened)


@damage(format=CSV, features=[2, 3], last=True, kinds=ROWS)
def a_broken_byte(fleet: Fleet, chance: Random) -> None:
    """A byte 0xff in a number costs its row."""
    part, (i, _) = some_part(fleet, chance), some_feature(fleet, chance)
    place = 1 + (fleet.plan.naming == "column") + i
    utf8 = part.form.get("csv", {}).get("encoding", "utf-8") == "utf-8"
    cell = "1\udcff" if utf8 else "1x"

    def broken(cells: list[str]) -> list[str]:
        return [*cells[:place], cell, *cells[place + 1 :]]

    _spoil_line(fleet, chance, part, "line.*(0xff|number)", broken, True)


def _spoil_line(
    fleet: Fleet, chance: Random, part: Part, reason: str, change: Any, timed: bool = False, row: int | None = None
) -> None:
    if len(part):
        at = chance.randrange(len(part)) if row is None else row

        def write(cells: list[str]) -> str:  # in the dialect that the file has in the end
            return part.form.get("csv", {}).get("delimiter", ",").join(change(cells))

        spoil(part, at, reason, timed=timed, write=write)


@damage(format="jsonl", naming=["stem", "pattern"], last=True, kinds=ROWS)
def a_bad_line_of_json(fleet: Fleet, chance: Random) -> None:
    """A line of JSON that is cut, or no object, costs its row."""
    for part in (some_part(fleet, chance, 4), some_part(fleet, chance, 4)):
        bad = chance.choice([lambda line: line[: len(line) // 2], lambda line: "[1, 2]", lambda line: "17",
                             lambda line: line[:-1], lambda line: '"' + line, lambda line: "}{"])  # fmt: skip
        _spoil_json(chance, part, "line.*JSON", bad)


@damage(format=["json", "jsonl"], naming=["stem", "pattern"], last=True, kinds=ROWS)
def a_bad_value_in_json(fleet: Fleet, chance: Random) -> None:
    """A list, an object or a text where JSON should have a number costs its row, in lines and in an array of rows."""
    part, (_, name) = some_part(fleet, chance, 4), some_feature(fleet, chance)
    value = chance.choice(["[1]", "{}", '"oops"'])
    reason = f"{name}.*(a single value is needed|not a number)"
    _spoil_json(chance, part, reason, lambda line: f'{line[:-1]}, "{name}": {value}}}', timed=True)


@damage(format="json", naming=["stem", "pattern"], last=True, kinds=ROWS)
def a_row_of_a_json_array_that_is_none(fleet: Fleet, chance: Random) -> None:
    """A number or a list among the objects of a JSON array costs its row."""
    part, value = some_part(fleet, chance, 4), chance.choice(["17", "[1, 2]", '"end"'])
    _spoil_json(chance, part, "not a JSON object", lambda line: value)


def _spoil_json(chance: Random, part: Part, reason: str, change: Any, *, timed: bool = False) -> None:
    if len(part) > 1:
        at = chance.randrange(1, len(part))  # a file that begins with something else is something else
        spoil(part, at, reason, timed=timed, write=lambda lines: change(lines[0]))


@damage(format="parquet", naming=["stem", "pattern"], last=True)
def a_bad_row_of_arrow(fleet: Fleet, chance: Random) -> None:
    """A row without a time in a file of Arrow costs its row."""
    a_time_is_missing(fleet, chance)
    with_arrow(fleet, chance)
