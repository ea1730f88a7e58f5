"""Rows of files, by ranges: no file is read whole, and nothing is unpickled."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import BadArray, read_head
from beamfeed.contract.arrays.stored import NPZ, ZARR, Stored, dataset_of, open_hdf5, open_npz, open_zarr
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.messages import file_for
from beamfeed.transforms.sources.readers import naming_the_file

COPY_BYTES = 8 << 20  # of a packed array that are unpacked at a time


def read_rows(stored: Stored, start: int, end: int) -> np.ndarray:
    """The rows [start, end) of an array in a file: `[end - start, *shape]`, in the byte order of this machine.

    Raises:
      BadInput: if the file no longer holds them.
    """
    path = stored.file.path
    with naming_the_file(path):
        try:
            if path.endswith(ZARR):
                opened = open_zarr(path)
                rows = np.asarray((opened[stored.member] if stored.member else opened)[start:end])
            elif stored.offset is None:
                with open_hdf5(path) as opened:
                    rows = dataset_of(opened, stored.member)[start:end]
            elif stored.is_ranged:
                first, size = stored.offset + start * stored.row_bytes, (end - start) * stored.row_bytes
                (values,) = _ranges(stored, [first], size)
                rows = values.reshape(end - start, *stored.shape[1:])
            else:  # its first axis changes fastest: a range for each number of a row
                width = math.prod(stored.shape[1:])
                item = stored.row_bytes // width
                offsets = [stored.offset + (column * stored.rows + start) * item for column in range(width)]
                columns = np.stack(list(_ranges(stored, offsets, (end - start) * item)))
                turned = columns.reshape(*reversed(stored.shape[1:]), end - start)
                rows = np.ascontiguousarray(turned.transpose())
        except BadArray as bad:
            raise BadInput(path, stored.member or "file", str(bad)) from None
    if rows.dtype.kind == "b":  # whatever is not 0 is true; NumPy takes a byte of 2 for a true that is not true
        rows = rows.view(np.uint8) != 0
    return rows.astype(rows.dtype.newbyteorder("="), copy=False)


def _ranges(stored: Stored, offsets: Sequence[int], size: int) -> Iterator[np.ndarray]:
    """The values in so many bytes from each of some places of a file on."""
    with storage.open_input(stored.file.path) as file:
        for offset in offsets:
            data = file.read_at(size, offset)
            if len(data) != size:
                raise BadInput(stored.file.path, "file", f"is cut off after {offset + len(data):,} bytes")
            yield np.frombuffer(data, stored.descr)


def is_packed(stored: Stored) -> bool:
    """Whether an array is in a .npz that has to be unpacked."""
    return stored.offset is None and stored.file.path.lower().endswith(NPZ)


def unpacked_bytes(stored: Stored, rows: int) -> int:
    """How many bytes of a packed array are to be unpacked for its first rows."""
    split = stored.fortran and len(stored.shape) > 1  # then each row is all over the array
    return (stored.rows if split else rows) * stored.row_bytes


def unpack(stored: Stored, scratch: str, rows: int) -> Stored:
    """Copies the first rows of a packed array of a .npz into a folder, a piece at a time; returns where they lie there.

    No more is written than the head tells of, however much the file would give.

    Raises:
      BadInput: if it cannot be unpacked.
    """
    path = stored.file.path
    assert is_packed(stored)
    copy = file_for(scratch, f"{path}\n{stored.member}", ".npy")
    size, total = 0, unpacked_bytes(stored, rows)
    complete = total == stored.rows * stored.row_bytes

    def chunks() -> Iterator[bytes]:
        nonlocal size
        with open_npz(path) as (archive, _), archive.open(f"{stored.member}.npy") as inside:
            read_head(inside.read)
            while data := inside.read(min(COPY_BYTES, total - size)):
                size += len(data)
                yield data
            if complete and size == total and inside.read(1):
                raise BadArray("has more values than its header says")

    with naming_the_file(path):
        try:
            storage.write_chunks(copy, chunks())
        except BadArray as bad:
            raise BadInput(path, stored.member, str(bad)) from None
    if size < total:
        raise BadInput(path, stored.member, f"is cut off after {size:,} bytes of values")
    return replace(stored, file=storage.stat(copy), member="", offset=0)
