"""Counts of a unit in a file of the job's own: they may be of a million terms, and reports go through shuffles."""

import pickle
from collections.abc import Sequence

from beamfeed.contract import storage
from beamfeed.transforms.statistics.value_counts import ValueCounts


def write_counts(path: str, counts: Sequence[ValueCounts]) -> None:
    """Writes the counts of some features."""
    storage.write_bytes(path, pickle.dumps(list(counts)))


def read_counts(path: str) -> list[ValueCounts]:
    """The counts of a file, in the order in which they were written."""
    return pickle.loads(storage.read_bytes(path))  # noqa: S301 - which the job itself wrote


def gather_counts(counts: Sequence[ValueCounts], paths: Sequence[str]) -> tuple[ValueCounts, ...]:
    """The sums of counts and of those in files; one file at a time is in memory."""
    totals = list(counts)
    for path in paths:
        totals = [total + more for total, more in zip(totals, read_counts(path), strict=True)]
    return tuple(totals)
