"""Named arrays, each in one file or in several one after the other, that stand side by side row by row."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import BadArray
from beamfeed.contract.arrays.stored import Stored, find_array
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat

THREADS = 16  # that look into files of a bucket

Role = Literal["input", "target", "weight", "key"]


@dataclass(frozen=True)
class Wanted:
    """An array as it is asked for.

    Attributes:
      name: of it.
      key: that tells of it in messages: `source.inputs.image`.
      files: in order.
      member: its name in files of several arrays.
    """

    name: str
    key: str
    files: tuple[FileStat, ...]
    member: str | None = None


@dataclass(frozen=True)
class Part:
    """The rows of an array that are in one file; the array's row `first` is the file's first."""

    stored: Stored
    first: int

    @property
    def end(self) -> int:
        """The array's row after its last."""
        return self.first + self.stored.rows


@dataclass(frozen=True)
class NamedArray:
    """An array, over all its files.

    Attributes:
      name: of it.
      dtype: as `npy.dtype_name` has it.
      shape: of a row.
      parts: in order of the rows.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    parts: tuple[Part, ...]

    @property
    def rows(self) -> int:
        """How many it has."""
        return self.parts[-1].end

    @property
    def row_bytes(self) -> int:
        """Of one row in the files, at most."""
        return max(part.stored.row_bytes for part in self.parts)


def find_arrays(wanted: Sequence[Wanted]) -> list[NamedArray]:
    """The arrays that are asked for, in their order. Only the heads of the files are read.

    Raises:
      UserError: with the key and the file, if one cannot be used, or its files do not go together, or the arrays have
        not all the same number of rows.
    """
    asked = [(one, file) for one in wanted for file in one.files]
    threads = THREADS if any(storage.is_remote(file.path) for _, file in asked) else 1
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda pair: _look(*pair), asked))
    arrays, at = [], 0
    for one in wanted:
        arrays.append(_joined(one, found[at : at + len(one.files)]))
        at += len(one.files)
    _check_aligned(wanted, arrays)
    return arrays


def _look(wanted: Wanted, file: FileStat) -> Stored:
    try:
        return find_array(file, wanted.name, wanted.member)
    except BadArray as bad:
        raise UserError(f"{wanted.key}: {file.path} {bad}") from None
    except OSError as error:
        raise UserError(f"{wanted.key}: {file.path} cannot be read: {error.strerror or error}") from None


def _joined(wanted: Wanted, found: Sequence[Stored]) -> NamedArray:
    first, parts, row = found[0], [], 0
    for one in found:
        for what, mine, others in (("dtype", one.dtype, first.dtype),
                                   ("shape", list(one.shape[1:]), list(first.shape[1:]))):  # fmt: skip
            if mine != others:
                row_of = "rows of the shape" if what == "shape" else "values of the dtype"
                raise UserError(
                    f"{wanted.key}: {one.file.path} has {row_of} {mine}, {first.file.path} {others}; "
                    "the files of an array must be alike"
                )
        if one.rows:
            parts.append(Part(one, row))
            row += one.rows
    if not parts:
        raise UserError(f"{wanted.key}: {first.file.path} has no row")
    return NamedArray(wanted.name, first.dtype, first.shape[1:], tuple(parts))


def _check_aligned(wanted: Sequence[Wanted], arrays: Sequence[NamedArray]) -> None:
    if len({array.rows for array in arrays}) > 1:
        told = ", ".join(f"{one.key} has {array.rows:,}" for one, array in zip(wanted, arrays, strict=True))
        raise UserError(f"the arrays have not the same number of rows: {told}; row by row they must go together")
