"""The scores of the oddest assets over time, with what was flagged."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from beamfeed.contract import storage
from beamfeed.transforms.reporting.figures import COLORS, MARKED, QUIET, draw
from beamfeed.transforms.reporting.page import Pictures, Section, Table, Words

ASSETS = 8
POINTS = 600  # of a line
GAP, PARTS = 10, 40  # a pause is as many steps from row to row, and no less than such a part of the whole
INTERVALS = 25
MOST_ROWS = 4_000_000  # of an asset


@dataclass(frozen=True)
class Scores:
    """What `beamfeed score` wrote.

    Attributes:
      folder: where it is.
      told: what is told of it there.
    """

    folder: str
    told: Mapping[str, Any]

    def intervals(self) -> pa.Table:
        """The flagged intervals, the most unusual first."""
        with storage.open_input(storage.join(self.folder, "intervals.parquet")) as file:
            return pq.read_table(file)

    def rows(self, assets: list[str]) -> dict[str, tuple[Any, np.ndarray]]:
        """Of some assets the times and scores of their rows."""
        named, found = pa.array(assets, pa.string()), []
        for name in self.told["files"]:
            if not name.startswith("rows/"):
                continue
            with storage.open_input(storage.join(self.folder, name)) as file:
                for batch in pq.ParquetFile(file).iter_batches(65_536, columns=["asset", "time", "score"]):
                    some = batch.filter(pc.is_in(batch.column("asset"), named))
                    if some.num_rows:
                        found.append(some)
        of_asset: dict[str, tuple[Any, np.ndarray]] = {}
        if not found:
            return of_asset
        table = pa.Table.from_batches(found)
        for asset in assets:
            own = table.filter(pc.equal(table["asset"], asset)).slice(0, MOST_ROWS)
            of_asset[asset] = (own["time"].combine_chunks(), own["score"].to_numpy().astype(float))
        return of_asset


def timelines(scores: Scores) -> Section:
    """The flagged intervals as a table, and a line of scores for each of the assets with the highest peaks."""
    table, items = scores.intervals(), scores.told["items"]
    threshold = scores.told["threshold_used"]
    section = Section("The oddest assets")
    section.parts.append(
        Words(
            f"{items['intervals']:,} intervals of {items['assets']:,} assets are over the threshold {threshold:.3g}; "
            f"{items['rows']:,} rows were scored. A score of 3 is what one usual window in a thousand has. All: "
            f"{storage.join(scores.folder, 'intervals.csv')}"
        )
    )
    if not len(table):
        return section
    oddest = list(dict.fromkeys(table["asset"].to_pylist()))[:ASSETS]
    rows: list[tuple[object, ...]] = [
        (one["asset"], when(one["begin"]), when(one["end"]), one["rows"], one["peak"], one["by"], one["columns"])
        for one in table.slice(0, INTERVALS).to_pylist()
    ]
    head: tuple[str, ...] = ("asset", "begin", "end", "rows", "peak", "by", "columns whose errors rose most")
    if not any(row[-1] for row in rows):  # of many columns none is told
        head, rows = head[:-1], [row[:-1] for row in rows]
    more = f"The {INTERVALS} most unusual intervals" if len(table) > INTERVALS else "Flagged intervals"
    section.parts.append(Table(head, rows, more))
    pictures = []
    for asset, (times, values) in scores.rows(oddest).items():
        own = table.filter(pc.equal(table["asset"], asset))
        edges = [(_place(begin), _place(end)) for begin, end in zip(own["begin"], own["end"], strict=True)]
        x = _numbers(times)
        pictures.append(draw(partial(_line, x=x, values=values, edges=edges, threshold=threshold), asset, height=1.9))
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


def thinned(x: np.ndarray, values: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest value of each of so many stretches, in order: no peak is lost.

    Args:
      x: `[n]`, rising.
      values: float64 `[n]`, n above 0.
      points: that are left at most, twice.
    """
    if len(values) <= 2 * points:
        return x, values
    edges = np.linspace(0, len(values), points + 1).astype(int)
    at = []
    for first, end in itertools.pairwise(edges):
        part = np.nan_to_num(values[first:end], nan=0.0)
        at += sorted({first + int(part.argmin()), first + int(part.argmax())})
    return x[at], values[at]


def _line(axes: Any, x: np.ndarray, values: np.ndarray, edges: list[tuple[Any, Any]], threshold: float) -> None:
    step = np.median(np.diff(x)) if len(x) > 1 else None
    for begin, end in edges:
        axes.axvspan(begin, end if step is None else end + step, color=MARKED, alpha=0.25, linewidth=0)
    drawn, heights = thinned(x, values)
    if step is not None:  # nothing is drawn over a pause
        pauses = np.flatnonzero(np.diff(drawn) > np.maximum(GAP * step, (drawn[-1] - drawn[0]) / PARTS))
        drawn, heights = np.insert(drawn, pauses + 1, drawn[pauses]), np.insert(heights, pauses + 1, np.nan)
    axes.plot(drawn, heights, color=COLORS["train"], linewidth=0.8)
    axes.axhline(threshold, color=QUIET, linewidth=0.9, linestyle="--")
    axes.set_ylabel("score")
    if x.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=5)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
