"""Single windows as the dataset has them: lines, numbers, images, texts."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import is_encoded, is_raw_image
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.contract.dataset.times import time_text
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.reporting.figures import MANY, draw, short
from beamfeed.transforms.reporting.page import Chapter, Picture, Pictures, Quotes, Table, Words
from beamfeed.transforms.reporting.sample import BLOCKS, Sample, Window
from beamfeed.transforms.reporting.scales import Wording

SHOWN, IMAGES = 6, 18
LINES = 8  # of a window
ROWS = 30  # of a table of inputs
LEAST_SIDE = 4  # of numbers that are looked at as an image
SIDE = 128  # pixels of a thumbnail
WORDS = 24  # letters from which on a value is a text
MOST_PIXELS = 50_000_000  # of an image that is decoded


def samples(sample: Sample, manifest: Manifest, raw: RawRows | None, words: Wording) -> Chapter:
    """Some windows of each split, by chance; rows as the files have them, where the dataset keeps some.

    Args:
      sample: of the dataset.
      manifest: of it.
      raw: rows of the files.
      words: what numbers of the dataset mean.

    Raises:
      UserError, JobFailed: if a shard is damaged.
    """
    section = Chapter("Samples")
    if raw is not None:
        section.parts += _raw(raw)
    count = IMAGES if has_images(manifest) else SHOWN
    for split in [split for split, info in manifest.splits.items() if info.windows]:
        windows: list[Window] = []
        rng = np.random.default_rng(0)
        each = -(-count // max(1, min(BLOCKS, len(sample.places(split)))))
        for block in sample.blocks(split):
            of_block = int(count_windows(block.rows, manifest.windows.length, manifest.windows.stride).sum())
            windows += [window for _, window in sample.cut(block, rng.permutation(of_block)[:each].tolist())]
        chosen = [windows[at] for at in rng.permutation(len(windows))[:count]]
        shown = shown_columns(windows, manifest)
        drawn = [show(window, manifest, place_of(window, manifest), shown) for window in chosen]
        if drawn := [part for part in drawn if part is not None]:
            most = f", and the {len(shown)} columns that vary most" if len(shown) == LINES else ""
            scaled = ", as the model gets them" if shown else ""
            section.parts.append(Words(f"{manifest.noun}s of {split}, by chance{most}{scaled}".capitalize(), "plain"))
            section.parts.append(Pictures(drawn))
        elif raw is None or not section.parts:
            captions = [place_of(window, manifest) for window in chosen]
            section.parts.append(side_by_side(chosen, captions, manifest, words, f"Of {split}, by chance"))
    return section


def shown_columns(windows: Sequence[Window], manifest: Manifest) -> list[str]:
    """The columns that vary most within windows, in the order of the dataset; those that never do are left out."""
    varied: dict[str, float] = {}
    for window in windows:
        for field in manifest.fields:
            if field.role == "input" and field.name in window.values:
                for name, values in _lines(window.values[field.name], field):
                    varied[name] = varied.get(name, 0.0) + float(np.nan_to_num(np.std(values)))
    most = sorted(varied, key=lambda name: -varied[name])[:LINES]
    return [name for name in varied if name in most and varied[name] > 0]


def show(window: Window, manifest: Manifest, caption: str, columns: Sequence[str]) -> Picture | None:
    """A window: its image, or its rows as lines of these columns; None where it has neither."""
    inputs = [field for field in manifest.fields if field.role == "input" and field.name in window.values]
    for field in inputs if manifest.windows.length == 1 else ():
        if is_image(field):
            png = thumbnail(window.values[field.name], field)
            if png is not None:
                return Picture(png, caption, "image/png", small=True)
    lines = [(name, values) for field in inputs for name, values in _lines(window.values[field.name], field)
             if name in columns]  # fmt: skip
    if manifest.windows.length - manifest.rows_ahead > 1 and lines:
        return draw(lambda axes: _draw_lines(axes, lines), caption, height=2.1 + 0.14 * -(-len(lines) // 3))
    return None


def side_by_side(
    windows: Sequence[Window], captions: Sequence[str], manifest: Manifest, words: Wording, title: str
) -> Table:
    """Windows of one row as a table: a column for each, a line for each input."""
    lines: dict[str, list[object]] = {}
    for window in windows:
        for field in manifest.fields:
            if field.role == "input" and field.name in window.values:
                for name, value in _numbers(window.values[field.name], field):
                    lines.setdefault(name, []).append(words.of(name, value))
    more = f"; {len(lines) - ROWS:,} more inputs are not shown" if len(lines) > ROWS else ""
    rows = [(name, *values) for name, values in list(lines.items())[:ROWS] if len(values) == len(windows)]
    return Table(("input", *captions), rows, f"{title}{more}")


def place_of(window: Window, manifest: Manifest) -> str:
    """What names a window: its keys, its class, its time; where no time is known, its row in the record."""
    parts = []
    for field in manifest.fields:
        if field.role not in ("key", "target") or field.name not in window.values:
            continue
        if field.name == "last_time" or field.width > 1:
            continue
        value = window.values[field.name]
        first = value[0] if isinstance(value, list) else np.asarray(value).ravel()[0] if np.size(value) else ""
        if isinstance(first, bytes):
            parts.append(first.decode(errors="replace"))
        elif field.classes and 0 <= int(first) < len(field.classes):
            parts.append(f"{field.name} {field.classes[int(first)]}")
        elif field.time is not None:
            parts.append(f"from {time_text(int(first) if window.time is None else window.time, field.time)}")
        else:
            parts.append(f"{field.name} {first:.6g}" if field.name != "start" else "")
    if window.row is not None and window.time is None:
        parts.append(f"row {window.row:,} of its record")
    return ", ".join(part for part in parts if part)


def thumbnail(value: Any, field: Field) -> bytes | None:
    """A small PNG of an image; None where it cannot be decoded."""
    from PIL import Image

    try:
        if not is_encoded(field):
            array = _bytes_of(np.asarray(value).reshape([size or 1 for size in (*field.shape, 1)][:3]))
            image = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array)
        else:
            image = Image.open(io.BytesIO(value[0]))
            if image.width * image.height > MOST_PIXELS:
                return None
            image = image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB")
        image.thumbnail((SIDE, SIDE))
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=True)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return buffer.getvalue()


def _bytes_of(array: np.ndarray) -> np.ndarray:
    """uint8 of numbers of any range, from the least to the most."""
    if array.dtype == np.uint8:
        return array
    known = np.nan_to_num(array.astype(np.float64))
    return ((known - known.min()) / max(float(np.ptp(known)), 1e-30) * 255).astype(np.uint8)


def has_images(manifest: Manifest) -> bool:
    """Whether a window of a dataset is looked at as an image."""
    return manifest.windows.length == 1 and any(is_image(field) for field in manifest.fields if field.role == "input")


def is_image(field: Field) -> bool:
    """Whether a field holds images, or numbers in two dimensions that can be looked at as such."""
    if is_encoded(field) or is_raw_image(field):
        return True
    shape = [size or 0 for size in field.shape]
    is_plane = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    is_number = field.dtype not in ("bytes", "complex64", "complex128") and not field.sizes and not field.columns
    return is_plane and is_number and field.per == "row" and min(shape[:2]) >= LEAST_SIDE


def _lines(value: Any, field: Field) -> list[tuple[str, np.ndarray]]:
    """The numbers of a window's rows, by column."""
    if field.per != "row" or field.dtype == "bytes" or isinstance(value, list) or field.is_ragged:
        return []
    if np.ndim(value) <= len(field.shape):  # of one row
        return []
    values = np.abs(value) if np.iscomplexobj(value) else np.asarray(value, float)
    return list(zip(field.names, values.reshape(len(values), -1).T, strict=True))


def _numbers(value: Any, field: Field) -> list[tuple[str, Any]]:
    if isinstance(value, list) or not field.columns:
        return [(field.name, value)]
    return list(zip(field.columns, np.asarray(value).reshape(-1, len(field.columns)).T, strict=True))


def _draw_lines(axes: Any, lines: Sequence[tuple[str, np.ndarray]]) -> None:
    for (name, values), color in zip(lines, MANY, strict=False):
        axes.plot(values, color=color, linewidth=1, label=short(name))
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.45, -0.1), ncols=3, fontsize=6.5, columnspacing=1, handlelength=1.2
    )


def _raw(raw: RawRows) -> list[Any]:
    """Rows of the files, and texts in them."""
    columns = {name: [_plain(cell) for cell in values.to_pylist()]
               for name, values in raw.raw.items() if len(values) == len(raw.places)}  # fmt: skip
    texts = {name for name, values in columns.items() if max((len(str(cell)) for cell in values), default=0) > WORDS}
    quotes = [(f"{name}, {place}", value) for name in columns if name in texts
              for place, value in zip(raw.places[:SHOWN], columns[name], strict=False)]  # fmt: skip
    parts: list[Any] = [Quotes(quotes[: 2 * SHOWN])] if quotes else []
    shown = [name for name in columns if name not in texts][:LINES]
    if shown:
        rows = [(place, *(columns[name][at] for name in shown)) for at, place in enumerate(raw.places[:SHOWN])]
        more = f" ({len(shown)} of {len(columns)} columns)" if len(columns) > len(shown) else ""
        parts.append(Table(("row", *shown), rows, f"Rows as the files have them{more}"))
    return parts


def _plain(value: Any) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
