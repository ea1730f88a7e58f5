"""Formats of files of rows, and the suffixes that name them: the one look-up."""

from dataclasses import dataclass
from typing import ClassVar

from beamfeed.contract.config.sources.base import SourceSection


@dataclass(frozen=True)
class Format:
    """What is known of a format without opening a file.

    Attributes:
      suffixes: of its files, in small letters.
      named: suffixes of files that are read where they are named, or where a folder has none of the others: beside
        data, such files mostly describe them.
      aliases: suffixes of files that are read where a job names them, and not taken from a folder.
      is_text: whether columns have no types, and files may be packed.
    """

    suffixes: tuple[str, ...]
    named: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    is_text: bool = False


FORMATS = {
    "parquet": Format((".parquet", ".pq", ".parq")),
    "arrow": Format((".arrow", ".feather", ".ipc")),
    "avro": Format((".avro",)),
    "csv": Format((".csv", ".tsv", ".txt"), aliases=(".data", ".dat", ".tab", ".asc", ".prn", ".log"), is_text=True),
    "json": Format((".jsonl", ".ndjson"), named=(".json",), is_text=True),
}
PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # with Arrow's names of them
ZIP = ".zip"

_SUFFIXES = tuple(suffix for format_ in FORMATS.values() for suffix in format_.suffixes)
_NAMED = tuple(suffix for format_ in FORMATS.values() for suffix in format_.named)
_TEXTS = tuple(suffix for format_ in FORMATS.values() if format_.is_text for suffix in format_.suffixes)


class FilesOfRows(SourceSection):
    """A source whose files hold rows of columns."""

    suffixes: ClassVar[tuple[str, ...]] = (*_SUFFIXES, *(text + packed for text in _TEXTS for packed in PACKED))
    other_suffixes: ClassVar[tuple[str, ...]] = (
        *_NAMED,
        *(text + packed for text in _NAMED for packed in PACKED),
        ZIP,
        *(text + ZIP for text in (*_TEXTS, *_NAMED)),
    )

    @classmethod
    def suffix_text(cls) -> str:
        return f"{' '.join((*_SUFFIXES, *_NAMED))}, text also with {' '.join((*PACKED, ZIP))}"
