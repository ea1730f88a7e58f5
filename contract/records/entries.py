"""What the lists of serialized Examples hold, as NumPy arrays: the way back from what `examples` finds."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.records.examples import Lists
from beamfeed.contract.records.pieces import Pieces, find_numbers, find_strings, join


def divided(counts: np.ndarray, width: int) -> np.ndarray:
    """How many values of this width so many entries are; a ValueError where a part of one is missing."""
    whole, rest = np.divmod(counts, width)
    if rest.any():
        raise ValueError(f"has {counts[rest > 0][0]} entries, not a multiple of {width}")
    return whole


def entries_of(lists: Lists, field: Field) -> tuple[np.ndarray | Pieces, np.ndarray]:
    """What the lists of a field hold, and how many numbers or strings are in each record's."""
    shape = [-1, *(size for size in field.shape if size is not None)]
    if field.listed == "float32":
        pieces = lists.pieces[field.name]
        counts = divided(pieces.sizes, 4)
        return _shaped(join(lists.buffer, pieces).view("<f4"), shape), counts
    if field.listed == "int64":
        numbers, counts = find_numbers(lists.buffer, lists.pieces[field.name])
        return _shaped(numbers, shape), counts
    strings, counts = find_strings(lists.buffer, lists.pieces[field.name])
    if field.spelled:
        return _class_numbers(lists.buffer, strings, field), counts
    if not field.is_raw:
        return strings, counts
    if (others := strings.sizes[strings.sizes != field.bytes]).size:
        raise ValueError(f"has {others[0]} bytes in place of {field.bytes}")
    dtype = np.dtype(field.dtype)
    return _shaped(join(lists.buffer, strings).view(dtype.newbyteorder("<")).astype(dtype, copy=False), shape), counts


def as_binary(buffer: np.ndarray, strings: Pieces) -> pa.LargeBinaryArray:
    """Strings as Arrow's, binary."""
    ends = np.concatenate([[0], np.cumsum(strings.sizes)])
    data = [None, pa.py_buffer(ends.astype(np.int64)), pa.py_buffer(join(buffer, strings))]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, data)


def _class_numbers(buffer: np.ndarray, names: Pieces, field: Field) -> np.ndarray:
    """The numbers of classes by their names, int64; a ValueError where there is no such class."""
    positions = pc.index_in(
        as_binary(buffer, names), pa.array([name.encode() for name in field.classes], pa.large_binary())
    )
    if positions.null_count:
        unknown = as_binary(buffer, names).filter(positions.is_null())[0].as_py()
        raise ValueError(f"has no class {unknown!r}")
    numbers: np.ndarray = positions.to_numpy().astype(np.int64)
    return numbers


def _shaped(numbers: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Numbers in this shape; a ValueError where they do not fill it."""
    width = int(np.prod(shape[1:]))
    if len(numbers) % width:
        raise ValueError(f"has {len(numbers)} entries, not a multiple of {width}")
    return numbers.reshape(shape)
