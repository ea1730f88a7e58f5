"""Rows of one time of an asset: one is made of them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from beamfeed.transforms.sources.timeseries.read import Chunk
from beamfeed.transforms.sources.timeseries.resample import reduce_steps

How = Literal["first", "last", "mean"]


def merge_duplicates(chunks: Iterator[Chunk], how: How) -> Iterator[Chunk]:
    """Chunks in order of time -> the same with one row of each time; positions count the rows that are left.

    Rows that are set aside stay, behind the others of their time. What is no number (labels, the split) is that of the
    first row, or with `last` of the last one.

    Args:
      chunks: of one asset, in order of time.
      how: which row stays; mean: of each feature, the mean of the values that are present.
    """
    held: Chunk | None = None
    position = 0
    for chunk in chunks:
        if held is not None:
            chunk = _join(held, chunk)
        # The rows of the last time may go on in the next chunk.
        open_row = int(np.searchsorted(chunk.time, chunk.time[-1]))
        # Of these no more than are needed: a sensor that always sends one time must not fill the memory.
        needed = slice(open_row, open_row + 1) if how == "first" else slice(-1, None) if how == "last" else None
        if chunk.wrong and max(chunk.wrong) >= open_row:
            needed = None
        held = chunk.take(needed or slice(open_row, None), 0)
        if open_row:
            done = _merge(chunk.take(slice(0, open_row), 0), how, position)
            held = replace(held, outside=np.zeros_like(held.outside))
            position += len(done)
            yield done
    if held is not None:
        yield _merge(held, how, position)


def _join(one: Chunk, other: Chunk) -> Chunk:
    both = one.take(slice(None), 0), other.take(slice(None), 0)
    splits = [chunk.split for chunk in both if chunk.split is not None]
    parts = [chunk.part for chunk in both if chunk.part is not None]
    return Chunk(
        other.path,
        np.concatenate([np.asarray(chunk.file_row) for chunk in both]),
        0,
        np.concatenate([chunk.time for chunk in both]),
        np.concatenate([chunk.values for chunk in both]),
        one.outside + other.outside,
        pa.concat_arrays(splits) if splits else None,
        tuple(pa.concat_arrays(columns) for columns in zip(*(chunk.labels for chunk in both), strict=True)),
        np.concatenate(parts) if parts else None,
        {**one.wrong, **{len(one) + row: why for row, why in other.wrong.items()}},
    )


def _merge(chunk: Chunk, how: How, position: int) -> Chunk:
    begins = np.diff(chunk.time, prepend=chunk.time[0] - 1) != 0
    if chunk.wrong:  # each stays by itself, behind the row that is made of the others
        chunk = chunk.take(np.lexsort((~chunk.right, chunk.time)), 0)
        begins |= ~chunk.right
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(chunk)) - 1
    merged = chunk.take(last if how == "last" else first, position)
    if how == "mean" and len(first) < len(chunk):
        merged = replace(merged, values=reduce_steps(chunk.values, first, "mean"))
    return merged
