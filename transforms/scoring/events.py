"""Known events, such as failures: a table of `asset`, `begin` and `end`, as `score` writes flagged intervals."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyarrow import csv

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.numbers import whole_numbers

COLUMNS = ("asset", "begin", "end")


def read_events(path: str, kind: pa.DataType, option: str) -> dict[str, np.ndarray]:
    """The events of each asset, float64 `[events, 2]`: the times of the first and the last row; timestamps in us.

    Args:
      path: a CSV or Parquet file.
      kind: of times in predictions.
      option: that names the file.

    Raises:
      UserError: if it is no such table, or an event ends before it begins.
    """
    try:
        with storage.open_input(path) as file:
            if path.endswith((".parquet", ".pq")):
                table = pq.read_table(file)
            else:
                texts = csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.string()))
                table = csv.read_csv(file, convert_options=texts)
    except (OSError, pa.ArrowInvalid) as error:
        raise UserError(f"{option}: {path}: {str(error).splitlines()[0]}") from None
    for name in COLUMNS:
        if (count := table.column_names.count(name)) != 1:
            has = f"{count} columns" if count else "no column"
            raise UserError(f"{option}: {path} has {has} {name!r}; it must have {', '.join(COLUMNS)}")
    edges = np.stack([_ticks(table[name], kind, f"{option}: {path}: {name}") for name in COLUMNS[1:]], axis=1)
    if (wrong := np.flatnonzero(~(edges[:, 0] <= edges[:, 1]))).size:
        row = int(wrong[0])
        begin, end = (table[name][row].as_py() for name in COLUMNS[1:])
        raise UserError(f"{option}: {path}: event {row + 1}: end must not be before begin, and is {end} with {begin}")
    names = table["asset"].cast(pa.string()).combine_chunks()
    assets = whole_numbers(pc.utf8_trim_whitespace(names)).dictionary_encode()  # as where assets are a column
    codes = assets.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(assets.dictionary)), side="right")
    begins = np.searchsorted(codes[order], np.arange(len(assets.dictionary)))
    return {
        name: merged(edges[order[begin:end]])
        for name, begin, end in zip(assets.dictionary.to_pylist(), begins, ends, strict=True)
    }


def merged(edges: np.ndarray) -> np.ndarray:
    """Events `[n, 2]` by rising time, those that overlap as one."""
    edges = edges[np.argsort(edges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(edges[:, 1])
    first = np.flatnonzero(np.concatenate([[True], edges[1:, 0] > ends[:-1]]))
    return np.stack([edges[first, 0], ends[np.append(first[1:], len(edges)) - 1]], axis=1)


def _ticks(times: pa.ChunkedArray, kind: pa.DataType, place: str) -> np.ndarray:
    to = kind if pa.types.is_timestamp(kind) else pa.float64()
    try:
        ticks = _cast(times, to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        row = next(row for row in range(len(times)) if not _can_cast(times[row : row + 1], to))
        expected = "a time, such as 2024-03-01 12:00:00" if pa.types.is_timestamp(to) else "a number"
        raise UserError(f"{place}: must be {expected}, and is {times[row].as_py()!r} in row {row + 1}") from None
    if ticks.null_count:
        raise UserError(f"{place}: is missing in row {pc.index(ticks.is_null(), True).as_py() + 1}")
    return np.asarray(ticks.to_numpy(), np.float64)


def _cast(times: pa.ChunkedArray, to: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_string(times.type):
        times = pc.if_else(pc.equal(times, ""), None, times)
    if pa.types.is_timestamp(to) and pa.types.is_string(times.type):
        times = pc.cast(times, pa.timestamp("us"), safe=False)
    times = times.cast(to, safe=False)
    return times.cast(pa.int64()).cast(pa.float64()) if pa.types.is_timestamp(to) else times


def _can_cast(times: pa.ChunkedArray, to: pa.DataType) -> bool:
    try:
        _cast(times, to)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
