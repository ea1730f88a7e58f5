"""Preprocesses rows: they are scaled, resampled, imputed and cut into windows and segments, in a stream."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from beamfeed.contract.config.label import Label
from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.sources.descriptors import Work
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.sources.timeseries.ahead import ScaleRows, by_name, keep_known, scale_beside
from beamfeed.transforms.sources.timeseries.duplicates import merge_duplicates
from beamfeed.transforms.sources.timeseries.impute import impute
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import Chunk, read_chunks, read_sorted, to_rows
from beamfeed.transforms.sources.timeseries.records import record_block
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.spec import PreprocessSpec
from beamfeed.transforms.sources.timeseries.windowing import (
    ALL,
    Owned,
    Windowing,
    WindowRuns,
    cut_segments,
    find_windows,
    iter_blocks,
)
from beamfeed.transforms.statistics.scaling import Scaling


@dataclass(frozen=True)
class SeriesWork(Work[SeriesAsset]):
    """The windows of a split that begin at some positions of an asset, and the rows that they need.

    Attributes:
      owned: the positions.
      scaling: the asset's own, where each has one.
    """

    owned: Owned = ALL
    scaling: Scaling | None = None


@dataclass(frozen=True)
class FoundWindows:
    """A block of rows, and the windows of it.

    Attributes:
      rows: n rows of the asset.
      values: float32 [n, features], their filled values.
      runs: the windows.
      labels: by name, of each window its value, or of each row what is to be forecast.
    """

    rows: Rows
    values: np.ndarray
    runs: WindowRuns
    labels: Mapping[str, np.ndarray]

    def ends_before(self, last: int, windowing: Windowing) -> bool:
        """Whether the first window holds none of the `last` rows of the block."""
        return int(self.runs.row[0]) + windowing.length + windowing.ahead <= len(self.rows) - last


def preprocess_unit(work: SeriesWork, spec: PreprocessSpec, scaler: ScaleRows | None) -> Iterator[RecordBlock]:
    """Streams a unit, a block at a time; memory holds no more than one. `scaler` is as of `find_all`.

    Raises:
      BadInput: if a file no longer is as it was when it was checked.
    """
    unit = work.unit
    chunks = in_order(unit.asset, spec, unit.start, unit.end)
    for block in find_all(chunks, unit.asset, work.split, spec, work.owned, scaler):
        segments = cut_segments(block.runs, spec.windowing)
        if len(segments):
            yield record_block(unit.asset.name, block.rows, block.values, segments, block.labels)


def in_order(asset: SeriesAsset, spec: PreprocessSpec, start: int = 0, end: int | None = None) -> Iterator[Chunk]:
    """The rows of an asset in order of time; [start, end) of them where it divides, else all."""
    if asset.divides:
        return read_chunks(asset, spec.schema, start, end)
    chunks = read_sorted(asset, spec.schema) if asset.sort else read_chunks(asset, spec.schema)
    method = spec.job.prepare.duplicates
    return merge_duplicates(chunks, method) if asset.merge and method != "reject" else chunks


def find_all(
    chunks: Iterator[Chunk], asset: SeriesAsset, name: SplitName, spec: PreprocessSpec, owned: Owned = ALL,
    scaler: ScaleRows | None = None,
) -> Iterator[FoundWindows]:  # fmt: skip
    """The windows of a split, a block at a time.

    Args:
      chunks: rows of the asset, in order of time.
      asset: whose rows.
      name: of the split.
      spec: of the job.
      owned: the positions that windows may begin at.
      scaler: of the values; left out, they stay as they are, which makes no difference to where windows are.
    """
    windowing, job, features = spec.windowing, spec.job, len(spec.schema.features)
    in_split = to_rows(chunks, asset, name, job.split, spec.max_gap, spec.schema.labels)
    rows: Iterator[Rows] = (
        replace(block, values=scale_beside(block.values, scaler, spec.ahead)) for block in in_split if len(block)
    )
    if spec.every is not None:
        assert job.prepare.resample is not None
        limit = 0 if job.prepare.missing.fill == "drop" else job.prepare.missing.limit
        rows = resample_stream(rows, spec.every, job.prepare.resample.how, limit)
    for block, range_ in iter_blocks(rows, windowing, owned):
        raw, block = block.values[:, features:], replace(block, values=block.values[:, :features])
        values, valid = impute(block, job.prepare.missing)
        runs, labels = find_windows(block, valid, windowing, range_), by_name(raw, spec.ahead)
        if spec.ahead:
            is_filled = np.isnan(block.values).any(axis=1) if job.prepare.missing.fill == "linear" else None
            runs = keep_known(runs, raw, is_filled, spec.ahead, windowing)
        if spec.own_labels:
            runs, told = label_windows(runs, block, spec.own_labels, windowing, spec.last_position(asset))
            for label, column in zip(spec.own_labels, told.T, strict=True):
                labels[label.name] = column.astype(np.float32 if label.classes is None else np.int64)
        if len(runs.row):
            yield FoundWindows(block, values, runs, labels)


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
