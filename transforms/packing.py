"""Descriptors of many small things, some in one element: by themselves, each would cost far more than what it says."""

import hashlib
import pickle
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

TOGETHER = 32  # items that are packed at a time: with more, little is gained, and those not yet packed take memory
BUCKETS = 512  # fewer than the 1,000 keys of which a Beam worker adds values up before it hands them on

T = TypeVar("T")


class Packed:
    """Items in order, held as compressed bytes; unpacked some at a time."""

    def __init__(self, items: Iterable[Any] = ()):
        self._packs: list[bytes] = []
        self._open: list[Any] = []
        self._length = 0
        for item in items:
            self.append(item)

    def append(self, item: Any) -> None:
        """Adds an item."""
        self._open.append(item)
        self._length += 1
        if len(self._open) == TOGETHER:
            self._close()

    def extend(self, other: "Packed") -> None:
        """Adds the items of another one, as they are packed."""
        self._close()
        other._close()
        self._packs += other._packs
        self._length += len(other)

    def __iter__(self) -> Iterator[Any]:
        for pack in self._packs:
            yield from pickle.loads(zlib.decompress(pack))  # noqa: S301
        yield from self._open

    def __len__(self) -> int:
        return self._length

    def __getstate__(self) -> tuple[list[bytes], int]:
        self._close()
        return self._packs, self._length

    def __setstate__(self, state: tuple[list[bytes], int]) -> None:
        self._packs, self._length = state
        self._open = []

    def _close(self) -> None:
        if self._open:
            self._packs.append(zlib.compress(pickle.dumps(self._open, pickle.HIGHEST_PROTOCOL), 1))
            self._open = []


def bucket_of(name: str) -> int:
    """The bucket, of BUCKETS, that an asset's descriptors meet in."""
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).digest()) % BUCKETS


def by_name(named: Iterable[tuple[str, Any]]) -> dict[str, list[Any]]:
    """What (name, item) say of each name."""
    items: dict[str, list[Any]] = defaultdict(list)
    for name, item in named:
        items[name].append(item)
    return items


def runs_of_small(
    items: Iterable[T], size: Callable[[T], int], most: int, count: int | None = None
) -> Iterator[list[T]]:
    """Runs of items, each of at most so many bytes and, where it is given, of so many items; or of one item."""
    small: list[T] = []
    total = 0
    for item in items:
        total += size(item)
        if small and (total > most or len(small) == count):
            yield small
            small, total = [], size(item)
        small.append(item)
    if small:
        yield small
