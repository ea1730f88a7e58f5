"""Parts of a large file, spread over it, for a look at what it holds."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from beamfeed.contract import storage
from beamfeed.transforms.sources.readers.expected import Expected, Group
from beamfeed.transforms.sources.readers.formats import has_types
from beamfeed.transforms.sources.readers.lookup import reader_of
from beamfeed.transforms.sources.readers.trouble import naming_the_file

PARTS = 8  # of a file
Item = TypeVar("Item")
_END = 4 << 20  # bytes at the end of a text, where lines may stand that are no rows


def stored_groups(path: str, expected: Expected) -> list[Group] | None:
    """The groups of rows, as a file tells them without its rows being read; None where these must be read for that.

    Raises:
      BadInput: if the file cannot be read, or does not hold what is expected.
    """
    with naming_the_file(path):
        groups = reader_of(path).groups
        return None if groups is None else groups(path, expected)


def choose_parts(path: str, size: int, expected: Expected, most: int) -> list[tuple[Group, int]] | None:
    """Groups of a file, each with how many of its first rows are to be read; None where it can be read only as a whole.

    The rows of a text are not counted before they are read: a group has -1 of them, and its first row is the byte that
    it starts at.

    Args:
      path: of the file.
      size: of it, in bytes.
      expected: what it must hold.
      most: how many bytes are to be read.
    """
    groups = stored_groups(path, expected)
    if groups is not None:
        rows = max(1, sum(group.rows for group in groups) * most // max(1, size))
        chosen = spread(groups, PARTS)
        return [(group, min(group.rows, -(-rows // len(chosen)))) for group in chosen]
    cut = None if has_types(path) else reader_of(path).cut(path, expected.text)
    if cut is None:
        return None
    part = most // PARTS
    end = size - (_END if cut.skip_last else 0)
    if end < most:
        return None
    parts = []
    with storage.open_input(path) as file:
        for place in map(int, np.linspace(0, end - part, PARTS)):
            data = file.read_at(part, place)
            first, last = data.find(b"\n") + 1 if place else 0, data.rfind(b"\n") + 1  # of its whole lines
            if first >= last or (cut.quote and _splits_values(data[first:last], cut.quote)):
                return None
            parts.append((Group(place + first, -1, place + first, last - first), -1))
    return parts


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them, evenly spread over all: the first and the last are among them."""
    places = np.unique(np.linspace(0, len(items) - 1, min(most, len(items))).round().astype(int))
    return [items[place] for place in places.tolist()]


def _splits_values(lines: bytes, quote: str) -> bool:
    """Whether a value in quotes may go on from one line to the next, so that they cannot be cut between lines."""
    mark = quote.encode()
    return mark in lines and any(line.count(mark) % 2 for line in lines.split(b"\n"))
