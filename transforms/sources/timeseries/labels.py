"""The labels of windows: from the labels of rows, or derived from where a window is in its asset."""

from collections.abc import Sequence

import numpy as np

from beamfeed.contract.config.label import Label
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import Windowing, WindowRuns


def label_windows(
    runs: WindowRuns, rows: Rows, labels: Sequence[Label], windowing: Windowing, last_position: int
) -> tuple[WindowRuns, np.ndarray]:
    """The windows whose labels are all known, and their values.

    Args:
      runs: the windows of a block of rows, with as many rows behind each as its labels look ahead.
      rows: of the block; `rows.labels` has a column for each label with a column, in order.
      labels: of the job, those that are values of a window; at least one.
      windowing: of the job.
      last_position: of the last row of the asset.

    Returns:
      the windows left, and float32 [windows, labels], the values of each.
    """
    start, position = runs.starts(windowing.stride)
    last = windowing.inputs - 1
    values = np.empty((len(start), len(labels)), np.float32)
    columns = iter(rows.labels.T)
    for k, label in enumerate(labels):
        if label.column is None:
            values[:, k] = last_position - (position + last)
        elif label.at == "any":
            values[:, k] = _highest(next(columns), windowing.inputs)[start] if len(start) else ()
        else:
            values[:, k] = next(columns)[start + last + label.reach]
        if label.cap is not None:
            np.minimum(values[:, k], np.float32(label.cap), out=values[:, k])
    is_known = np.asarray(~np.isnan(values).any(axis=1))
    return (runs, values) if is_known.all() else (runs.keep(is_known, windowing.stride), values[is_known])


def _highest(labels: np.ndarray, length: int) -> np.ndarray:
    """float32 [n - length + 1]: for each row the highest label present in the `length` rows from it on, or NaN.

    The rows are cut into pieces of that length. What is asked for is the highest of the rest of one piece and of the
    beginning of the next, and both are running maxima (van Herk 1992): the work does not grow with the length.
    """
    rows = len(labels)
    pieces = np.full((-(-rows // length), length), -np.inf, np.float32)
    pieces.reshape(-1)[:rows] = np.where(np.isnan(labels), -np.inf, labels)
    begun = np.maximum.accumulate(pieces, axis=1).reshape(-1)
    left = np.maximum.accumulate(pieces[:, ::-1], axis=1)[:, ::-1].reshape(-1)
    highest = np.maximum(left[: rows - length + 1], begun[length - 1 : rows])
    return np.where(np.isneginf(highest), np.float32(np.nan), highest)
