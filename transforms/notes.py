"""What a user should know of a dataset that was made: what took no part, and what was changed on the way."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from beamfeed.transforms.driver import Collection, Driver

MOST_NOTES = 50  # lines of a manifest
_NAMED = 3  # assets in a line


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
    total = sum((_Sum(note.count, 1, (note.asset,)) for note in notes), _Sum())
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
