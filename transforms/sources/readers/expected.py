"""What a reader is told of the files of a job, and the runs of rows that they divide into."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.sources.csv import Csv
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers.dialect import NULL_WORDS, Dialect, Numbers
from beamfeed.transforms.sources.readers.formats import format_of

BATCH_ROWS = 65_536
BATCH_BYTES = 8 << 20  # of a batch, by four bytes a value
WORDS_BYTES = 128 << 20  # of a batch, if each row had the longest word of each dictionary: 2 KB of 65,536 rows
VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}  # which few functions of Arrow take
TEXTS = frozenset((pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), *VIEWS))


@dataclass(frozen=True)
class Group:
    """Rows that can be read without those before them: a row group of Parquet, a block of text.

    Attributes:
      row: the file's row that it starts with.
      rows: how many there are.
      place: where it is: the number of a row group, or the byte that a block starts at.
      size: bytes of a block of text.
      lines: of the file before that block.
    """

    row: int
    rows: int
    place: int
    size: int = 0
    lines: int = 0


@dataclass(frozen=True)
class Look:
    """What the beginning of a file tells.

    Attributes:
      schema: the names and types of its columns.
      dialect: how it is written, if it is a CSV.
    """

    schema: pa.Schema
    dialect: Dialect | None = None


@dataclass(frozen=True)
class Cut:
    """How a text can be cut between lines.

    Attributes:
      quote: around values that may hold ends of lines.
      skip_last: lines at the end that are no rows.
    """

    quote: str | None = None
    skip_last: int = 0


@dataclass(frozen=True)
class TextOptions:
    """What is known of how the text files of a job are written.

    Attributes:
      keys: what the user says.
      needed: names of columns that the job needs; a line with some of them names the columns.
      features: names and globs of the columns whose numbers tell how numbers are written; without any, all do.
      numbers: how they are written in the other files, for a file that does not tell.
      texts: names of columns whose values are names, also where these look like numbers in quotes.
      lenient: whether a file may have rows that cannot be read.
      number_columns: names of columns that the job reads as numbers.
    """

    keys: Csv = field(default_factory=Csv)
    needed: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    numbers: Numbers | None = None
    texts: tuple[str, ...] = ()
    lenient: bool = False
    number_columns: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.keys.model_dump_json(), self.needed, self.features, self.numbers, self.texts))

    def null_words(self, path: str) -> tuple[str, ...]:
        """The words of a file that stand for a missing value: of a CSV, those of any and those that the user says."""
        return (*NULL_WORDS, *self.keys.null_words) if format_of(path) == "csv" else ()


class Expected(Protocol):
    """What every file of a job must hold."""

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing or of the wrong type."""

    @property
    def names(self) -> list[str]:
        """The columns, each once, in the order they are read."""

    @property
    def optional(self) -> Collection[str]:
        """Those of them that a file may lack: their values are missing then."""

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        """The types that the columns of a text are parsed as."""

    @property
    def text(self) -> TextOptions:
        """How texts are written."""


@dataclass(frozen=True)
class Columns:
    """Columns that are read of files, whatever else is in these: see `Expected`."""

    names: list[str]
    csv_types: dict[str, pa.DataType]
    text: TextOptions
    optional: frozenset[str] = frozenset()

    def check(self, path: str, schema: pa.Schema) -> None:
        """Raises BadInput if a column is missing, or there twice."""
        require_columns(path, self.names, schema.names, self.optional)


def require_columns(
    path: str, names: Sequence[str], present: Sequence[str], optional: Collection[str] = (), hint: str = ""
) -> None:
    """Raises BadInput if a file lacks one of the columns, or has one of them twice.

    Args:
      path: of the file.
      names: of the columns.
      present: of all columns of the file.
      optional: which of them it may lack.
      hint: how the file was read, where that may be the reason.
    """
    counts = Counter(present)
    for name in names:
        if counts[name] > 1:
            raise BadInput(path, f"column {name}", f"is there {counts[name]} times")
        if not counts[name] and name not in optional:
            has = ", ".join(column for column in present if column)[:200]
            raise BadInput(path, f"column {name}", f"is missing; the file has {has}{f' ({hint})' if hint else ''}")


def batch_rows(columns: int) -> int:
    """How many rows of so many columns are read at a time, so that a batch's memory does not grow with its width."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES // (4 * max(1, columns))))


def longest_word(dictionary: pa.Array) -> int:
    """Bytes of the longest word."""
    return pc.max(pc.binary_length(dictionary)).as_py() or 0


def word_bytes(column: pa.Array) -> int:
    """Bytes of the longest word that each row of a column may have; 0 where texts have no dictionary.

    A dictionary holds a word once, and a row says with a few bits that it has it: a file of a kilobyte could so have
    batches of gigabytes.
    """
    if is_text_dictionary(column.type):
        return longest_word(column.dictionary)
    return column.type.byte_width if pa.types.is_fixed_size_binary(column.type) else 0


def is_text_dictionary(type_: pa.DataType) -> bool:
    """Whether values of a type are words of a dictionary, texts or bytes."""
    return pa.types.is_dictionary(type_) and type_.value_type in TEXTS
