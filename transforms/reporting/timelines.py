"""The scores of the oddest assets over time, with what was flagged."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract import storage
from beamfeed.transforms.reporting.figures import COLORS, MARKED, QUIET, draw
from beamfeed.transforms.reporting.page import Chapter, Pictures, Table, Words
from beamfeed.transforms.scoring.spool import read_batches

ASSETS = 8
POINTS = 600  # of a line
GAP, PARTS = 10, 40  # a pause is as many steps from row to row, and no less than such a part of the whole
INTERVALS = 25


class Line:
    """The lowest and the highest of each stretch of rows that come a part at a time, in order: no peak is lost.

    A stretch has 1, 2, 4 ... rows, as many as make at most `points` stretches of all rows that came.

    Attributes:
      rows: that came.
      step: from one to the next, the median of the longest part; None of a single row.
      x: `[n]`, n at most twice the points.
      values: float64 `[n]`.
    """

    def __init__(self, points: int = POINTS):
        self._points, self._stretch, self._rows = points, 1, np.empty(0, np.int64)
        self.rows = self._longest = 0
        self.step: Any = None
        self.x, self.values = np.empty(0), np.empty(0)

    def add(self, x: np.ndarray, values: np.ndarray) -> None:
        """Adds the rows that follow: `x` `[n]`, rising, and their values `[n]`."""
        if len(x) > max(1, self._longest):
            self._longest, self.step = len(x), np.median(np.diff(x))
        rows = np.concatenate([self._rows, self.rows + np.arange(len(x))])
        times = np.concatenate([self.x, x]) if self.rows else x
        values = np.concatenate([self.values, values.astype(float)])
        self.rows += len(x)
        while self.rows > self._points * self._stretch:
            self._stretch *= 2
        stretch = rows // self._stretch
        order = np.lexsort((np.nan_to_num(values), stretch))
        edges = np.flatnonzero(np.diff(stretch, prepend=-1))
        chosen = np.unique(order[np.concatenate([edges, np.append(edges[1:], len(rows)) - 1])])
        self._rows, self.x, self.values = rows[chosen], times[chosen], values[chosen]


def lines_of(paths: Iterable[str], assets: list[str]) -> dict[str, Line]:
    """The scores of some assets over time, from files of scored rows."""
    named, lines = pa.array(assets, pa.string()), {asset: Line() for asset in assets}
    for batch in read_batches(paths, ["asset", "time", "score"]):
        for asset in pc.unique(batch["asset"].filter(pc.is_in(batch["asset"], named))):
            own = batch.filter(pc.equal(batch["asset"], asset))
            lines[asset.as_py()].add(_numbers(own["time"]), own["score"].to_numpy(zero_copy_only=False))
    return {asset: line for asset, line in lines.items() if line.rows}


def timelines(folder: str, description: Mapping[str, Any]) -> Chapter:
    """The flagged intervals as a table, and a line of scores for each of the assets with the highest peaks.

    Args:
      folder: that `beamfeed score` wrote.
      description: what `_export.json` says of it.
    """
    table, items = storage.read_table(storage.join(folder, "intervals.parquet")), description["items"]
    threshold = description["threshold_used"]
    section = Chapter("The oddest assets")
    section.parts.append(
        Words(
            f"{items['intervals']:,} intervals of {items['assets']:,} assets are over the threshold {threshold:.3g}; "
            f"{items['rows']:,} rows were scored. At a score of 3, a measure is as large as in one usual window of a "
            f"thousand. All: {storage.join(folder, 'intervals.csv')}"
        )
    )
    if not len(table):
        return section
    oddest = list(dict.fromkeys(table["asset"].to_pylist()))[:ASSETS]
    names = ["asset", "begin", "end", "rows", "peak", "by"]
    if any(table["columns"][:INTERVALS].to_pylist()):  # of many columns none is told
        names.append("columns")
    rows = [[when(interval[name]) for name in names] for interval in table.slice(0, INTERVALS).to_pylist()]
    head = ["columns whose errors rose most" if name == "columns" else name for name in names]
    more = f"The {INTERVALS} most unusual intervals" if len(table) > INTERVALS else "Flagged intervals"
    section.parts.append(Table(head, rows, more))
    pictures = []
    of_rows = [storage.join(folder, name) for name in description["files"] if name.startswith("rows/")]
    for asset, line in lines_of(of_rows, oddest).items():
        own = table.filter(pc.equal(table["asset"], asset))
        edges = [(_place(begin), _place(end)) for begin, end in zip(own["begin"], own["end"], strict=True)]
        pictures.append(draw(partial(_draw, line=line, edges=edges, threshold=threshold), asset, height=1.9))
    section.parts.append(Pictures(pictures))
    return section


def when(value: Any) -> Any:
    """A time as people read it, without a fraction of a second that is none."""
    return value.isoformat(" ", "seconds") if hasattr(value, "isoformat") else value


def _numbers(times: pa.Array) -> np.ndarray:
    if pa.types.is_timestamp(times.type):
        return times.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).astype("M8[us]")
    return np.asarray(times.to_numpy(zero_copy_only=False), float)


def _place(scalar: pa.Scalar) -> Any:
    return np.datetime64(scalar.as_py(), "us") if pa.types.is_timestamp(scalar.type) else float(scalar.as_py())


def _draw(axes: Any, line: Line, edges: list[tuple[Any, Any]], threshold: float) -> None:
    drawn, heights, step = line.x, line.values, line.step
    for begin, end in edges:
        axes.axvspan(begin, end if step is None else end + step, color=MARKED, alpha=0.25, linewidth=0)
    if step is not None:  # nothing is drawn over a pause
        pauses = np.flatnonzero(np.diff(drawn) > np.maximum(GAP * step, (drawn[-1] - drawn[0]) / PARTS))
        drawn, heights = np.insert(drawn, pauses + 1, drawn[pauses]), np.insert(heights, pauses + 1, np.nan)
    axes.plot(drawn, heights, color=COLORS["train"], linewidth=0.8)
    axes.axhline(threshold, color=QUIET, linewidth=0.9, linestyle="--")
    axes.set_ylabel("score")
    if drawn.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=5)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
