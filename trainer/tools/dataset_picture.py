"""One picture of a dataset: the first record of a split over its rows, how single rows are spread, or images."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import is_encoded, is_raw_image
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer import figures
from beamfeed.trainer.review.inputs_seen import draw_grid
from beamfeed.trainer.tools.field_statistics import statistics_of
from beamfeed.trainer.tools.show_record import Values, class_of, short, title_of

SHOWN = 8  # columns
HEIGHT = 1.1  # inches, of each
IMAGES = 16
LETTERS = 24  # of a title


def draw(manifest: Manifest, split: str, records: Sequence[Values]) -> bytes:
    """A PNG.

    Args:
      manifest: of the dataset.
      split: that the records are from.
      records: some of them, at least one.
    """
    in_rows = manifest.windows.length > 1
    if images := [field for field in manifest.fields if is_encoded(field) or is_raw_image(field)]:
        return draw_images(manifest, split, records, images[0])
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
    shown, length = columns[:SHOWN], manifest.windows.length - manifest.rows_ahead
    figure = figures.figure(9, max(3.0, HEIGHT * len(shown) + 1))
    hidden = f" ({len(shown)} of {len(columns)} columns)" if len(columns) > len(shown) else ""
    figure.suptitle(f"{manifest.name}, {split}: {title_of(record, manifest) or 'a record'}{hidden}", fontsize="medium")
    all_axes = figure.subplots(max(1, len(shown)), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (name, values) in zip(all_axes, shown, strict=False):  # of texts alone none is drawn
        axes.plot(values, color="black", linewidth=1)
        axes.axvspan(0, length - 1, color="0.88", zorder=0)
        axes.set_ylabel(name, fontsize="small", rotation=0, ha="right", va="center")
        axes.tick_params(labelsize="small")
    all_axes[-1].set_xlabel(f"row of the record; grey: the first window of {length}")
    return figures.png(figure)


def draw_spread(manifest: Manifest, split: str, records: Sequence[Values]) -> bytes:
    """Histograms of columns."""
    drawable = [column for column in statistics_of(records, manifest.fields) if column.histogram]
    shown = drawable[: 2 * SHOWN]
    rows = max(1, -(-len(shown) // 4))
    figure = figures.figure(11, 2.2 * rows + 0.6)
    hidden = f" ({len(shown)} of {len(drawable)} columns)" if len(drawable) > len(shown) else ""
    rows_seen = max((column.values for column in drawable), default=0)
    figure.suptitle(f"{manifest.name}, {split}, {rows_seen:,} rows{hidden}", fontsize="medium")
    places = figure.subplots(rows, 4, squeeze=False).ravel()
    for axes in places[len(shown) :]:
        axes.set_axis_off()
    for axes, column in zip(places, shown, strict=False):
        low, high = column.min or 0.0, column.max or 0.0
        edges = np.linspace(low, high if high > low else low + 1, len(column.histogram) + 1)
        axes.stairs(column.histogram, edges, fill=True, color="0.7", edgecolor="0.3")
        axes.set_title(column.name, fontsize="small")
        axes.tick_params(labelsize="x-small")
    return figures.png(figure)


def draw_images(manifest: Manifest, split: str, records: Sequence[Values], field: Field) -> bytes:
    """The first images, as they are stored, each with its label, or what names it."""
    rows = [(record, place) for record in records for place in range(len(record[field.name]))][:IMAGES]
    titles = [_title(record, place, manifest) for record, place in rows]
    figure = figures.figure(9, 9)
    figure.suptitle(f"{manifest.name}, {split}: {field.name}", fontsize="medium")
    draw_grid(figure, [_image(record[field.name][place], field) for record, place in rows], titles)
    return figures.png(figure)


def _image(value: np.ndarray, field: Field) -> np.ndarray:
    """A stored value as uint8 `[height, width, channels]`."""
    if is_raw_image(field):
        return value.reshape([size or 1 for size in field.shape])
    image = tf.io.decode_image(value[0], expand_animations=False).numpy()
    return image if image.shape[2] in (1, 3) else image[:, :, : 1 if image.shape[2] == 2 else 3]


def _title(record: Values, place: int, manifest: Manifest) -> str:
    """The label of an image, or else its name, in a few letters."""
    targets = [field for field in manifest.fields if field.role == "target" and field.per == "row"]
    keys = [field for field in manifest.fields if field.role == "key" and field.per == "row"]
    for field in [*targets, *keys][:1]:
        value = record[field.name][place]
        return (class_of(value, field) or short(value, field))[-LETTERS:]
    return ""
