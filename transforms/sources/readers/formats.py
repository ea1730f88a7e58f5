"""Formats of files, by their names."""

from typing import Literal

Format = Literal["parquet", "arrow", "json", "csv"]

_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet", ".pq": "parquet", ".parq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".jsonl": "json", ".ndjson": "json",
}  # fmt: skip
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def packed_by(path: str) -> str | None:
    """Arrow's name of what a text is compressed with; None if it is not."""
    return next((name for suffix, name in _PACKED.items() if path.lower().endswith(suffix)), None)


def format_of(path: str) -> Format:
    """The format of a file; what has no name that is known is taken for a CSV."""
    name = path.lower()
    if packed_by(name):
        name = name.rpartition(".")[0]
    return next((format_ for suffix, format_ in _SUFFIXES.items() if name.endswith(suffix)), "csv")
