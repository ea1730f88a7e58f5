"""One picture of a dataset: the first record of a split over its rows, or how single rows are spread."""

from collections.abc import Sequence

import numpy as np

from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer import figures
from beamfeed.trainer.tools.field_statistics import statistics_of
from beamfeed.trainer.tools.show_record import Values, title_of

SHOWN = 8  # columns
HEIGHT = 1.1  # inches, of each


def draw(manifest: Manifest, split: str, records: Sequence[Values]) -> bytes:
    """A PNG.

    Args:
      manifest: of the dataset.
      split: that the records are from.
      records: some of them, at least one.
    """
    in_rows = manifest.windows.length > 1
    return draw_rows(manifest, split, records[0]) if in_rows else draw_spread(manifest, split, records)


def draw_rows(manifest: Manifest, split: str, record: Values) -> bytes:
    """The numbers of one record's rows over each other, of complex ones the magnitudes; the first window is shaded."""
    columns = [
        (
            field.columns[place] if field.columns else f"{field.name}[{place}]" if field.shape else field.name,
            np.abs(values) if values.dtype.kind == "c" else values,
        )
        for field in manifest.fields
        if field.per == "row" and field.dtype != "bytes" and not field.is_ragged
        for place, values in enumerate(np.array(record[field.name]).reshape(len(record[field.name]), -1).T)
    ]
    shown = columns[:SHOWN]
    figure = figures.figure(9, max(3.0, HEIGHT * len(shown) + 1))
    hidden = f" ({len(shown)} of {len(columns)} columns)" if len(columns) > len(shown) else ""
    figure.suptitle(f"{manifest.name}, {split}: {title_of(record, manifest) or 'a record'}{hidden}", fontsize="medium")
    all_axes = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(all_axes, shown, strict=True):
        axes.plot(values, color="black", linewidth=1)
        axes.axvspan(0, manifest.windows.length - 1, color="0.88", zorder=0)
        axes.set_ylabel(name, fontsize="small", rotation=0, ha="right", va="center")
        axes.tick_params(labelsize="small")
    all_axes[-1].set_xlabel(f"row of the record; grey: the first window of {manifest.windows.length}")
    return figures.png(figure)


def draw_spread(manifest: Manifest, split: str, records: Sequence[Values]) -> bytes:
    """Histograms of columns."""
    found = [one for one in statistics_of(records, manifest.fields) if one.histogram]
    shown = found[: 2 * SHOWN]
    rows = max(1, -(-len(shown) // 4))
    figure = figures.figure(11, 2.2 * rows + 0.6)
    hidden = f" ({len(shown)} of {len(found)} columns)" if len(found) > len(shown) else ""
    rows_seen = max((one.values for one in found), default=0)
    figure.suptitle(f"{manifest.name}, {split}, {rows_seen:,} rows{hidden}", fontsize="medium")
    places = figure.subplots(rows, 4, squeeze=False).ravel()
    for axes in places[len(shown) :]:
        axes.set_axis_off()
    for axes, one in zip(places, shown, strict=False):
        low, high = one.min or 0.0, one.max or 0.0
        edges = np.linspace(low, high if high > low else low + 1, len(one.histogram) + 1)
        axes.stairs(one.histogram, edges, fill=True, color="0.7", edgecolor="0.3")
        axes.set_title(one.name, fontsize="small")
        axes.tick_params(labelsize="x-small")
    return figures.png(figure)
