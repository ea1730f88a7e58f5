"""What a user wants to know of files before they are preprocessed."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """When the rows of all assets are.

    Attributes:
      first, last: as the files would write them.
      step: what is mostly between two rows of an asset; None where no asset has two rows.
      pauses: how often more than `pause` is between two rows.
      pause: in words.
      longest: the longest time between two rows.
      repeats: rows that have the time of the row before.
      decreases: rows that are earlier than the row before.
    """

    first: str
    last: str
    step: str | None
    pauses: int
    pause: str
    longest: str | None
    repeats: int
    decreases: int


@dataclass(frozen=True)
class Lacking:
    """How many of the values of a column, or an array, training rows do not have."""

    name: str
    missing: int
    values: int


@dataclass(frozen=True)
class Overview:
    """What a source tells of the files that it reads.

    Attributes:
      columns: that are read, each once.
      left_out: columns of the first file that are not.
      missing: of each column that a model gets something of.
      training_rows: how many these are.
      times: of series.
      row_bytes: of a row of the files, where that is known.
    """

    columns: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    missing: tuple[Lacking, ...] = ()
    training_rows: int = 0
    times: Times | None = None
    row_bytes: int | None = None
