"""What a user should know of a dataset that was made: what took no part, and what was changed on the way."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from beamfeed.transforms.driver import Collection, Driver

MOST_NOTES = 50  # lines of a manifest
_NAMED = 3  # assets in a line


_LINE = re.compile(  # as `to_line` writes it
    r"(?P<what>.*): (?:(?P<count>[\d,]+) in )?(?P<assets>\d+) assets? \((?P<names>.*?)(?: and \d+ more)?\)", re.DOTALL
)


@dataclass(frozen=True, order=True)
class Note:
    """Something that is true of an asset.

    Attributes:
      what: the same words for all assets of which it is true.
      asset: its name.
      count: of what `what` speaks of, such as rows; 0 where only assets are counted.
    """

    what: str
    asset: str
    count: int = 0


@dataclass(frozen=True)
class _Sum:
    count: int = 0
    assets: int = 0
    names: tuple[str, ...] = ()  # the first ones

    def __add__(self, other: "_Sum") -> "_Sum":
        names = tuple(sorted({*self.names, *other.names})[:_NAMED])
        return _Sum(self.count + other.count, self.assets + other.assets, names)


def to_line(what: str, notes: Iterable[Note]) -> str:
    """The line that sums up the notes that say the same; each asset has one of them."""
    return _line(what, sum((_Sum(note.count, 1, (note.asset,)) for note in notes), _Sum()))


def add_lines(before: Sequence[str], new: Sequence[str]) -> list[str]:
    """The lines of two runs on different assets: those that say the same become one, others stay, each once."""
    sums: dict[str, _Sum] = {}
    for line in (*before, *new):
        found = _LINE.fullmatch(line)
        if found is None:
            sums.setdefault(line, _Sum())
            continue
        names = tuple(found["names"].split(", "))
        count = int((found["count"] or "0").replace(",", ""))
        sums[found["what"]] = sums.get(found["what"], _Sum()) + _Sum(count, int(found["assets"]), names)
    return [_line(what, total) if total.assets else what for what, total in sums.items()]


def _line(what: str, total: _Sum) -> str:
    more = total.assets - len(total.names)
    assets = f"{total.assets} asset{'s' if total.assets != 1 else ''}"
    named = ", ".join(total.names) + (f" and {more} more" if more else "")
    return f"{what}: {f'{total.count:,} in ' if total.count else ''}{assets} ({named})"


def sum_up(driver: Driver, notes: Collection) -> Collection:
    """Collection of Note -> collection of lines, one for those that say the same."""
    same = driver.group("SameWords", notes, lambda note: note.what)
    return driver.map("ToLine", same, lambda words: to_line(*words))


def most_notes(lines: Sequence[str]) -> list[str]:
    """As many lines as a manifest holds; the last one says how many there are besides."""
    if len(lines) <= MOST_NOTES:
        return list(lines)
    return [*lines[: MOST_NOTES - 1], f"and {len(lines) - MOST_NOTES + 1} more"]
