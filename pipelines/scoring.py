"""The windows of an asset -> the scores of its rows; the flagged intervals, and the columns that rose in them."""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.duration import NANOSECONDS
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.fields import Time
from beamfeed.contract.dataset.times import ticks_of
from beamfeed.transforms.reporting.tables import ERROR, Batch, Predictions, matrix, numbers_of
from beamfeed.transforms.scoring.alarms import intervals, pairs_of
from beamfeed.transforms.scoring.rows import ScoredRows, Windows, score_rows
from beamfeed.transforms.scoring.spool import read_batches
from beamfeed.transforms.scoring.usual import Measured, Usual, compare

MEASURES = ("score", "pca_q", "pca_t2", "nearest")  # of predictions, as far as they have them
PCA_T2, LATENT, LATENT_T2 = "pca_t2", "latent", "latent_t2"
MOST_LATENT = 256  # numbers, of which a covariance is made
TRAINS = "trains"  # the column that says which windows of the dataset do
SHOWN = 3  # columns that are named for an interval


@dataclass
class Scoring:
    """How predictions are scored.

    Attributes:
      measures: columns of windows, and `LATENT_T2` behind them.
      length: rows of a window.
      args: options.
      max_gap: between two rows of a window, in the numbers of `ticks`, at most; None: as long as it may be.
      fleet: what is usual in training.
      threshold: over which a row is flagged; what usual rows have in common may be just at it.
      flagged: the flagged intervals.
    """

    measures: list[str]
    length: int
    args: argparse.Namespace
    max_gap: float | None = None
    fleet: Usual | None = None
    threshold: float = np.inf
    flagged: list[dict[str, Any]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        """Those of predictions that measures are made of."""
        return [LATENT if name == LATENT_T2 else name for name in self.measures]

    def values(self, windows: Batch) -> np.ndarray:
        """Measures and latent numbers, float64 `[n, parts + numbers]`."""
        return np.concatenate([numbers_of(windows, name) for name in self.columns], axis=1)

    def measured(self, values: np.ndarray) -> Measured:
        """The windows of `values`."""
        parts = len(self.measures) - (LATENT_T2 in self.measures)
        return Measured(values[:, :parts], values[:, parts:])

    def parts(self, known: pa.Table, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values of windows of the dataset that train, and of the others."""
        trains = np.asarray(known[TRAINS].to_numpy(), bool)
        return values[trains], values[~trains]

    def rows_of(self, windows: pa.Table, values: np.ndarray, own: np.ndarray, held: np.ndarray) -> Iterator[ScoredRows]:
        """The rows of an asset.

        Args:
          windows: of it.
          values: theirs.
          own: of its windows of training.
          held: of its windows of the dataset that do not train.
        """
        if len(windows):
            assert self.fleet is not None
            rarities = compare(self.measured(values), self.measured(own), self.measured(held), self.fleet)
            starts, times, ends = windows["start"].to_numpy(), ticks(windows["time"]), ticks(windows["until"])
            scored = Windows(starts, times, ends, rarities)
            yield from score_rows(scored, self.length, self.args.rows, self.args.smooth, self.max_gap)

    def rows_of_training(self, known: pa.Table) -> Iterator[ScoredRows]:
        """The rows of an asset's windows of training."""
        own, held = self.parts(known, self.values(known))
        yield from self.rows_of(known.select(["start", "time", "until"]).filter(known[TRAINS]), own, own, held)

    def flag(self, asset: str, rows: ScoredRows) -> np.ndarray:
        """Which rows are in flagged intervals, bool `[rows]`; notes these intervals."""
        flagged = np.zeros(len(rows.time), bool)
        over = rows.scores[:, 0] > self.threshold
        for first, end in intervals(over, self.args.least, self.args.gap).tolist():
            flagged[first:end] = True
            peak = first + int(np.nanargmax(rows.scores[first:end, 0]))  # rows that a gap joined may have none
            by = [self.measures[at] for at in np.flatnonzero(rows.scores[peak, 1:] > self.threshold)]
            self.flagged.append(
                {
                    "asset": asset, "begin": rows.time[first], "end": rows.time[end - 1], "rows": end - first,
                    "peak": rows.scores[peak, 0], "peak_time": rows.time[peak], "by": ",".join(by) or "together",
                    "first": rows.first + first, "last": rows.first + end - 1,
                }
            )  # fmt: skip
        return flagged


def ticks(times: pa.ChunkedArray) -> np.ndarray:
    """Times as float64, timestamps in microseconds."""
    numbers = times.cast(pa.int64()) if pa.types.is_timestamp(times.type) else times
    return np.asarray(numbers.to_numpy(), np.float64)


def measures_in(schema: pa.Schema) -> list[str]:
    """What tells how unusual a window is.

    Where a model has an encoder, T squared of its latent numbers stands for that of components: it can be told of each
    asset.

    Args:
      schema: of predictions.
    """
    measures = [name for name in MEASURES if name in schema.names]
    kind = schema.field(LATENT).type if LATENT in schema.names else pa.null()
    if pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type) and kind.list_size <= MOST_LATENT:
        return [*(name for name in measures if name != PCA_T2), LATENT_T2]
    return measures


def max_gap_of(job: TrainingJob, kind: pa.DataType) -> float | None:
    """`prepare.max_gap` in the numbers of `ticks`; None where the job has none.

    Args:
      job: of the dataset.
      kind: of the times of its predictions.
    """
    if job.prepare.max_gap is None:
        return None
    unit = getattr(getattr(job.source, "time", None), "unit", None)
    time: Time = "instant" if pa.types.is_timestamp(kind) else "duration" if pa.types.is_floating(kind) else "number"
    size = {"instant": NANOSECONDS["us"], "duration": NANOSECONDS["s"], "number": 1}[time]
    gap = ticks_of(job.prepare.max_gap, time, "prepare.max_gap", unit) / size
    return math.ceil(gap) if time == "instant" else gap  # timestamps were cut down to whole ones


def times_of(values: Sequence[float] | np.ndarray, kind: pa.DataType) -> pa.Array:
    """The way back."""
    numbers = np.asarray(values, np.float64)
    if pa.types.is_floating(kind):
        return pa.array(numbers)
    return pa.array(np.round(numbers).astype(np.int64)).cast(kind)


def interval_table(scoring: Scoring, target: Predictions, usual: Predictions, kind: pa.DataType) -> pa.Table:
    """The flagged intervals, the most unusual first, each with the columns whose errors rose most."""
    flagged = sorted(scoring.flagged, key=lambda interval: -interval["peak"])
    columns = target.errors()
    shares = [""] * len(flagged)
    if columns and flagged:
        shares = contributions(flagged, columns, target, usual, scoring.length)
    return pa.table(
        {
            "asset": pa.array([interval["asset"] for interval in flagged], pa.string()),
            **{name: times_of([interval[name] for interval in flagged], kind) for name in ("begin", "end")},
            "rows": pa.array([interval["rows"] for interval in flagged], pa.int64()),
            "peak": pa.array([interval["peak"] for interval in flagged], pa.float64()),
            "peak_time": times_of([interval["peak_time"] for interval in flagged], kind),
            "by": pa.array([interval["by"] for interval in flagged], pa.string()),
            "columns": pa.array(shares, pa.string()),
        }
    )


def contributions(
    flagged: Sequence[dict[str, Any]], columns: Sequence[str], target: Predictions, usual: Predictions, length: int
) -> list[str]:
    """Of each interval, the columns with the largest share of what errors are above those of training."""
    sums, count = np.zeros(len(columns)), 0
    for batch in read_batches(usual.files("train"), columns):
        sums, count = sums + matrix(batch, columns).sum(axis=0), count + batch.num_rows
    usual_errors = sums / max(1, count)
    errors, windows = np.zeros((len(flagged), len(columns))), np.zeros(len(flagged))
    firsts, lasts = (np.array([interval[edge] for interval in flagged]) for edge in ("first", "last"))
    by_asset: dict[str, list[int]] = {}
    for number in np.argsort(firsts).tolist():
        by_asset.setdefault(flagged[number]["asset"], []).append(number)
    named = pa.array(list(by_asset), pa.string())
    for batch in read_batches(target.files(), ["asset", "start", *columns]):
        rows = batch.filter(pc.is_in(batch.column("asset"), named))
        if not rows.num_rows:
            continue
        starts, values = rows.column("start").to_numpy(), matrix(rows, columns)
        encoded = rows.column("asset").dictionary_encode()
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            mine, numbers = np.flatnonzero(encoded.indices.to_numpy() == code), np.array(by_asset[name])
            at, touched = pairs_of(starts[mine], length, firsts[numbers], lasts[numbers])
            np.add.at(errors, numbers[touched], values[mine[at]])
            np.add.at(windows, numbers[touched], 1)
    above = np.maximum(errors / np.maximum(1, windows)[:, None] - usual_errors, 0)
    shares = above / np.maximum(above.sum(axis=1, keepdims=True), 1e-30)
    names = [name.removeprefix(ERROR) for name in columns]
    return [
        ", ".join(f"{names[at]} {row[at]:.0%}" for at in np.argsort(-row, kind="stable")[:SHOWN] if row[at] >= 0.005)
        for row in shares
    ]
