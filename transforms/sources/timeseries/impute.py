"""Imputes missing values, never across a gap."""

import numpy as np

from beamfeed.contract.config.prepare import Missing
from beamfeed.transforms.sources.timeseries.rows import Rows


def reach(missing: Missing) -> int:
    """How many rows away a filled value may come from."""
    return missing.limit + 1 if missing.fill in ("forward", "linear") else 0


def impute(rows: Rows, missing: Missing) -> tuple[np.ndarray, np.ndarray]:
    """Fills NaN as the job says; a line between neighbours counts in rows, not in time.

    Returns:
      values float32 [n, features] without NaN in valid rows, and valid bool [n]:
      False for the rows to drop.
    """
    values = rows.values
    absent = np.isnan(values)
    if not absent.any():
        return values, np.ones(len(rows), bool)
    values = values.copy()
    run = np.cumsum(rows.gap | (np.diff(rows.position, prepend=rows.position[:1] - 1) != 1))
    for column in np.flatnonzero(absent.any(axis=0)):
        if missing.fill == "forward":
            _forward(values[:, column], absent[:, column], run, missing.limit)
        elif missing.fill == "linear":
            _linear(values[:, column], absent[:, column], run, missing.limit)
    if missing.fill == "constant" or (missing.fill != "drop" and missing.then == "constant"):
        np.copyto(values, np.float32(missing.value), where=np.isnan(values))
    return values, ~np.isnan(values).any(axis=1)


def _neighbours(absent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row, the index of the last present row up to it (-1: none) and of the next (n: none)."""
    index = np.arange(len(absent))
    before = np.maximum.accumulate(np.where(absent, -1, index))
    behind = np.minimum.accumulate(np.where(absent, len(absent), index)[::-1])[::-1]
    return before, behind


def _forward(values: np.ndarray, absent: np.ndarray, run: np.ndarray, limit: int) -> None:
    before, _ = _neighbours(absent)
    rows = np.flatnonzero(absent)
    source = before[rows]
    use = (source >= 0) & (rows - source <= limit) & (run[rows] == run[source])
    values[rows[use]] = values[source[use]]


def _linear(values: np.ndarray, absent: np.ndarray, run: np.ndarray, limit: int) -> None:
    before, behind = _neighbours(absent)
    rows = np.flatnonzero(absent)
    left, right = before[rows], behind[rows]
    use = (left >= 0) & (right < len(values))
    rows, left, right = rows[use], left[use], right[use]
    use = (right - left - 1 <= limit) & (run[left] == run[right])
    rows, left, right = rows[use], left[use], right[use]
    low, high = values[left].astype(np.float64), values[right].astype(np.float64)
    values[rows] = low + (high - low) * ((rows - left) / (right - left))
