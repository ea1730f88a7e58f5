"""Formats of files, by their names; of a packed one by that of what is in it."""

from contextlib import suppress
from typing import Literal

from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.zipped import member_of

Format = Literal["parquet", "arrow", "json", "csv"]

_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet", ".pq": "parquet", ".parq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".jsonl": "json", ".ndjson": "json", ".json": "json",
}  # fmt: skip
_LINES = (".jsonl", ".ndjson")
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zip": "zip"}


def packed_by(path: str) -> str | None:
    """Arrow's name of what a text is compressed with, or zip; None if it is not."""
    return next((name for suffix, name in _PACKED.items() if path.lower().endswith(suffix)), None)


def format_of(path: str) -> Format:
    """The format of a file; what has no name that is known is taken for a CSV."""
    name = _unpacked(path)
    return next((format_ for suffix, format_ in _SUFFIXES.items() if name.endswith(suffix)), "csv")


def is_named_lines(path: str) -> bool:
    """Whether a file is JSON lines by its name."""
    return _unpacked(path).endswith(_LINES)


def _unpacked(path: str) -> str:
    """The name of a file in small letters; of a packed one that of what is in it."""
    packing = packed_by(path)
    name = path.lower()
    if packing == "zip":
        with suppress(BadInput):  # who opens it says so
            name = member_of(path).lower()
    elif packing:
        name = name.rpartition(".")[0]
    return name
