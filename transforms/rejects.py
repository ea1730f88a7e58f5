"""What is left out of a dataset, and why: one JSON line each in rejects/."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from beamfeed.contract.errors import JobFailed, visible
from beamfeed.contract.storage import FileStat

MOST_ROWS = 1000  # of a unit that are told one by one; all are counted


@dataclass(frozen=True, order=True)
class Reject:
    """Something that was set aside: where it is, and why.

    Attributes:
      of_row: whether it is a row of a file that goes on without it; else the whole asset is set aside.
      short: whether it has too few rows for a window.
    """

    asset: str | None  # None where a file could not even tell its assets
    file: str
    place: str  # such as "row 17", "column sensor_3", "file"
    reason: str
    of_row: bool = field(default=False, kw_only=True)
    short: bool = field(default=False, kw_only=True)


class BadInput(Exception):
    """A file that cannot be used; carries where and why."""

    def __init__(self, file: str, place: str, reason: str):
        super().__init__(file, place, reason)
        self.file, self.place, self.reason = file, visible(place), visible(reason)

    def __str__(self) -> str:
        return visible(f"{self.file}: {self.place}: {self.reason}")

    def reject(self, asset: str | None) -> Reject:
        return Reject(asset, self.file, self.place, self.reason)


def printable(path: str) -> str:
    """A path, of whose bytes those that are no text are as Python writes them."""
    return path.encode("utf-8", "backslashreplace").decode()


def check_name(path: str) -> None:
    """Raises BadInput if the name of a file is not text: nothing could be written of it."""
    if printable(path) != path:
        raise BadInput(printable(path), "file", "its name is not UTF-8")


def check_same(now: FileStat, listed: FileStat) -> None:
    """Ends the job if a file is not as it was when it was listed: parts of it may have been read as they were before.

    Raises:
      JobFailed
    """
    if now != listed:
        sizes = f"{listed.size:,} bytes, now {now.size:,}"
        difference = sizes if now.size != listed.size else "the same size, written later"
        raise JobFailed(f"{listed.path} changed while the job ran ({difference}); run it again when it is complete")


def to_jsonl(rejects: Iterable[Reject]) -> str:
    """The text of a rejects file: sorted, each reject once."""
    ordered = sorted(set(rejects), key=lambda r: (r.asset or "", r.file, r.place, r.reason))
    entries = ({key: getattr(reject, key) for key in ("asset", "file", "place", "reason")} for reject in ordered)
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
