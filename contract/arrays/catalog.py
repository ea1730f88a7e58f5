"""Named arrays, each in one file or in several one after the other, that stand side by side row by row."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, product
from typing import Literal

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import BadArray, NoSuchArray
from beamfeed.contract.arrays.stored import Stored, find_array
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat

THREADS = 16  # that look into files of a bucket

Role = Literal["input", "target", "weight", "key"]


@dataclass(frozen=True)
class ArraySpec:
    """An array as it is asked for.

    Attributes:
      name: of it.
      key: that tells of it in messages: `source.inputs.image`.
      files: in order.
      members: its names in files of several arrays, one after the other: first the rows of all files under the first.
        Of several names, a file need not have each.
    """

    name: str
    key: str
    files: tuple[FileStat, ...]
    members: tuple[str | None, ...] = (None,)


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


def find_arrays(specs: Sequence[ArraySpec]) -> list[NamedArray]:
    """The arrays that are asked for, in their order. Only the heads of the files are read.

    Raises:
      UserError: with the key and the file, if one cannot be used, or its files do not go together, or the arrays have
        not all the same number of rows.
    """
    places = [(spec, file, member) for spec in specs for member, file in product(spec.members, spec.files)]
    threads = THREADS if any(storage.is_remote(file.path) for _, file, _ in places) else 1
    with ThreadPoolExecutor(threads) as pool:
        stored = pool.map(lambda place: _look(*place), places)
        arrays = [
            _joined(spec, _present(spec, list(islice(stored, len(spec.files) * len(spec.members))))) for spec in specs
        ]
    _check_aligned(specs, arrays)
    return arrays


def _look(spec: ArraySpec, file: FileStat, member: str | None) -> Stored | UserError:
    """The array; or, where the file has none of that name, what to say if it should."""
    try:
        return find_array(file, spec.name, member)
    except NoSuchArray as missing:
        return UserError(f"{spec.key}: {file.path} {missing}")
    except BadArray as bad:
        raise UserError(f"{spec.key}: {file.path} {bad}") from None
    except OSError as error:
        raise UserError(f"{spec.key}: {file.path} cannot be read: {error.strerror or error}") from None


def _present(spec: ArraySpec, answers: Sequence[Stored | UserError]) -> list[Stored]:
    """The arrays that are there, by name and then by file; each file must have one, and each name be in one."""
    files = len(spec.files)
    by_name = [answers[at : at + files] for at in range(0, len(answers), files)]
    by_file = [answers[at::files] for at in range(files)]
    for of_one in (*by_name, *by_file):
        missing = [answer for answer in of_one if isinstance(answer, UserError)]
        if len(missing) == len(of_one):
            raise missing[0]
    return [answer for answer in answers if isinstance(answer, Stored)]


def _joined(spec: ArraySpec, stored: Sequence[Stored]) -> NamedArray:
    first, parts, row = stored[0], [], 0
    for array in stored:
        for trait, value, first_value in (
            ("values of the dtype", array.dtype, first.dtype),
            ("rows of the shape", list(array.shape[1:]), list(first.shape[1:])),
        ):
            if value != first_value:
                raise UserError(
                    f"{spec.key}: {array.file.path} has {trait} {value}, {first.file.path} {first_value}; "
                    "the files of an array must be alike"
                )
        if array.rows:
            parts.append(Part(array, row))
            row += array.rows
    if not parts:
        raise UserError(f"{spec.key}: {first.file.path} has no row")
    return NamedArray(spec.name, first.dtype, first.shape[1:], tuple(parts))


def _check_aligned(specs: Sequence[ArraySpec], arrays: Sequence[NamedArray]) -> None:
    if len({array.rows for array in arrays}) > 1:
        counts = ", ".join(f"{spec.key} has {array.rows:,}" for spec, array in zip(specs, arrays, strict=True))
        raise UserError(f"the arrays have not the same number of rows: {counts}; row by row they must go together")
