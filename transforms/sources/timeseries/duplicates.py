"""Rows of one time of an asset: one is made of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from beamfeed.transforms.sources.timeseries.read import Chunk
from beamfeed.transforms.sources.timeseries.resample import reduce_steps

How = Literal["first", "last", "mean"]


def merge_duplicates(chunks: Iterator[Chunk], method: How) -> Iterator[Chunk]:
    """Chunks in order of time -> the same with one row of each time; positions count the rows that are left.

    Rows that are set aside stay, behind the others of their time. What is no number (labels, the split) is that of the
    first row, or with `last` of the last one.

    Args:
      chunks: of one asset, in order of time.
      method: which row stays; mean: of each feature, the mean of the values that are present.
    """
    pending: Chunk | None = None
    position = 0
    for chunk in chunks:
        if pending is not None:
            chunk = _join(pending, chunk)
        # The rows of the last time may go on in the next chunk.
        open_row = int(np.searchsorted(chunk.time, chunk.time[-1]))
        # Of these no more than are needed: a sensor that always sends one time must not fill the memory.
        part = slice(open_row, open_row + 1) if method == "first" else slice(-1, None) if method == "last" else None
        if chunk.wrong and max(chunk.wrong) >= open_row:
            part = None
        pending = chunk.take(part or slice(open_row, None), 0)
        if open_row:
            done = _merge(chunk.take(slice(0, open_row), 0), method, position)
            pending = replace(pending, outside=np.zeros_like(pending.outside))
            position += len(done)
            yield done
    if pending is not None:
        yield _merge(pending, method, position)


def _join(left: Chunk, right: Chunk) -> Chunk:
    chunks = left.take(slice(None), 0), right.take(slice(None), 0)
    splits = [chunk.split for chunk in chunks if chunk.split is not None]
    parts = [chunk.part for chunk in chunks if chunk.part is not None]
    return Chunk(
        right.path,
        np.concatenate([chunk.file_row for chunk in chunks]),
        0,
        np.concatenate([chunk.time for chunk in chunks]),
        np.concatenate([chunk.values for chunk in chunks]),
        left.outside + right.outside,
        pa.concat_arrays(splits) if splits else None,
        tuple(pa.concat_arrays(columns) for columns in zip(*(chunk.labels for chunk in chunks), strict=True)),
        np.concatenate(parts) if parts else None,
        {**left.wrong, **{len(left) + row: why for row, why in right.wrong.items()}},
    )


def _merge(chunk: Chunk, method: How, position: int) -> Chunk:
    begins = np.diff(chunk.time, prepend=chunk.time[0] - 1) != 0
    if chunk.wrong:  # each stays by itself, behind the row that is made of the others
        chunk = chunk.take(np.lexsort((~chunk.right, chunk.time)), 0)
        begins |= ~chunk.right
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(chunk)) - 1
    merged = chunk.take(last if method == "last" else first, position)
    if method == "mean" and len(first) < len(chunk):
        merged = replace(merged, values=reduce_steps(chunk.values, first, "mean"))
    return merged
