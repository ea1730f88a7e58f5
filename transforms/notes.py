"""What a user should know of a dataset that was made: what took no part, and what was changed on the way."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from beamfeed.transforms.driver import Collection, Driver

MOST_NOTES = 50  # lines of a manifest
LACKING = "without a window in"  # a split; begins the note of assets that have none
UNLABELLED, UNUSED = "rows without a label, left out", "rows in no split, left out"
_NAMED = 3  # assets in a line


_LINE = re.compile(  # as `to_line` and `add_lines` write it
    r"(?P<text>.*): (?:(?P<count>[\d,]+) in )?(?P<least>at least )?(?P<assets>\d+) assets? "
    r"\((?P<names>.*?)(?: and (?:\d+ )?more)?\)",
    re.DOTALL,
)


@dataclass(frozen=True, order=True)
class Note:
    """Something that is true of an asset.

    Attributes:
      text: the same words for all assets of which it is true.
      asset: its name.
      count: of what `text` speaks of, such as rows; 0 where only assets are counted.
    """

    text: str
    asset: str
    count: int = 0


def counts_of(asset: str, counts: Mapping[str, int]) -> tuple[Note, ...]:
    """The notes of an asset that tell how many there are of something, by the words for it."""
    return tuple(Note(text, asset, count) for text, count in sorted(counts.items()) if count)


@dataclass(frozen=True)
class _Sum:
    count: int = 0
    assets: int = 0
    names: tuple[str, ...] = ()  # the first ones
    least: bool = False  # there may be more assets

    def __add__(self, other: "_Sum") -> "_Sum":
        names = tuple(sorted({*self.names, *other.names})[:_NAMED])
        return _Sum(self.count + other.count, self.assets + other.assets, names, self.least or other.least)

    def beside(self, other: "_Sum") -> "_Sum":
        """The sum, where both may speak of the same assets."""
        added, names = self + other, {*self.names, *other.names}
        if len(self.names) == self.assets and len(other.names) == other.assets:  # all are named
            return replace(added, assets=len(names))
        return replace(added, assets=max(self.assets, other.assets, len(names)), least=True)


def to_line(text: str, notes: Iterable[Note]) -> str:
    """The line that sums up the notes that say the same; each asset has one of them."""
    return _line(text, sum((_Sum(note.count, 1, (note.asset,)) for note in notes), _Sum()))


def add_lines(before: Sequence[str], new: Sequence[str], *, apart: bool = True) -> list[str]:
    """The lines of two runs: those that say the same become one, others stay, each once.

    Args:
      before: of the first run.
      new: of the other.
      apart: whether the runs were on different assets.
    """
    sums: dict[str, _Sum] = {}
    for line in (*before, *new):
        matched = _LINE.fullmatch(line)
        if matched is None:
            sums.setdefault(line, _Sum())
            continue
        names = tuple(matched["names"].split(", "))
        count = int((matched["count"] or "0").replace(",", ""))
        this = _Sum(count, int(matched["assets"]), names, bool(matched["least"]))
        earlier = sums.get(matched["text"], _Sum())
        sums[matched["text"]] = earlier + this if apart else earlier.beside(this)
    return [_line(text, total) if total.assets else text for text, total in sums.items()]


def _line(text: str, total: _Sum) -> str:
    more = total.assets - len(total.names)
    assets = f"{'at least ' * total.least}{total.assets} asset{'s' if total.assets != 1 else ''}"
    number = "" if total.least else f"{more} "
    named = ", ".join(total.names) + (f" and {number}more" if more or total.least else "")
    return f"{text}: {f'{total.count:,} in ' if total.count else ''}{assets} ({named})"


def sum_up(driver: Driver, notes: Collection) -> Collection:
    """Collection of Note -> collection of lines, one for those that say the same."""
    same = driver.group("SameWords", notes, lambda note: note.text)
    return driver.map("ToLine", same, lambda words: to_line(*words))


def most_notes(lines: Sequence[str]) -> list[str]:
    """As many lines as a manifest holds; the last one says how many there are besides."""
    if len(lines) <= MOST_NOTES:
        return list(lines)
    return [*lines[: MOST_NOTES - 1], f"and {len(lines) - MOST_NOTES + 1} more"]
