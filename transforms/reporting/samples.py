"""Single windows as the dataset has them: lines, numbers, images, texts."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import is_encoded, is_raw_image
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.contract.dataset.times import time_text
from beamfeed.transforms.reporting.figures import MANY, draw
from beamfeed.transforms.reporting.page import Picture, Pictures, Quotes, Section, Table, Words
from beamfeed.transforms.reporting.sample import Sample, Window

SHOWN, IMAGES = 6, 18
LINES = 8  # of a window
SIDE = 128  # pixels of a thumbnail
WORDS = 24  # letters from which on a value is a text
MOST_PIXELS = 50_000_000  # of an image that is decoded


def samples(sample: Sample, manifest: Manifest, raw: RawRows | None) -> Section:
    """Some windows of each split, by chance; of tables, rows as the files have them.

    Raises:
      UserError, JobFailed: if a shard is damaged.
    """
    section = Section("Samples")
    if raw is not None:
        section.parts += _raw(raw)
    has_images = any(map(_is_image, manifest.fields))
    count = IMAGES if has_images else SHOWN
    for split in [split for split, info in manifest.splits.items() if info.windows]:
        windows: list[Window] = []
        rng = np.random.default_rng(0)
        for block in sample.blocks(split):
            numbers = rng.integers(0, max(1, int(len(block.rows))), 3 if has_images else 1)
            windows += [window for _, window in sample.cut(block, set(numbers.tolist()))]
        chosen = [windows[at] for at in rng.permutation(len(windows))[:count]]
        parts = [show(window, manifest, place_of(window, manifest)) for window in chosen]
        if drawn := [part for part in parts if isinstance(part, Picture)]:
            section.parts.append(Words(f"{manifest.noun}s of {split}, by chance".capitalize(), "plain"))
            section.parts.append(Pictures(drawn))
        elif raw is None:
            section.parts += parts[:2]
    return section


def show(window: Window, manifest: Manifest, caption: str) -> Picture | Table:
    """A window: its image, its rows as lines, or its numbers."""
    inputs = [field for field in manifest.fields if field.role == "input" and field.name in window.values]
    for field in inputs:
        if _is_image(field):
            png = thumbnail(window.values[field.name], field)
            if png is not None:
                return Picture(png, caption, "image/png", small=True)
    lines = [(name, values) for field in inputs for name, values in _lines(window.values[field.name], field)]
    if manifest.windows.length - manifest.rows_ahead > 1 and lines:
        return draw(lambda axes: _draw_lines(axes, lines), caption)
    rows = [(name, _short(values)) for field in inputs for name, values in _numbers(window.values[field.name], field)]
    return Table(("input", "as the model gets it"), rows[:LINES], caption)


def place_of(window: Window, manifest: Manifest) -> str:
    """What names a window: its keys, its class, its time."""
    said = []
    for field in manifest.fields:
        if field.role not in ("key", "target") or field.name not in window.values:
            continue
        if field.name == "last_time" or field.width > 1:
            continue
        value = window.values[field.name]
        first = value[0] if isinstance(value, list) else np.asarray(value).ravel()[0] if np.size(value) else ""
        if isinstance(first, bytes):
            said.append(first.decode(errors="replace"))
        elif field.classes and 0 <= int(first) < len(field.classes):
            said.append(field.classes[int(first)])
        elif field.time is not None:
            said.append(f"record from {time_text(int(first), field.time)}")
        else:
            said.append(f"{field.name} {first:.6g}" if field.name != "start" else "")
    return ", ".join(one for one in said if one)


def thumbnail(value: Any, field: Field) -> bytes | None:
    """A small PNG of an image; None where it cannot be decoded."""
    from PIL import Image

    try:
        if is_raw_image(field):
            array = np.asarray(value).reshape(field.shape)
            image = Image.fromarray(array[:, :, 0] if field.shape[2] == 1 else array)
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


def _is_image(field: Field) -> bool:
    return is_encoded(field) or is_raw_image(field)


def _lines(value: Any, field: Field) -> list[tuple[str, np.ndarray]]:
    """The numbers of a window's rows, by column."""
    if field.per != "row" or field.dtype == "bytes" or isinstance(value, list) or field.is_ragged:
        return []
    values = np.abs(value) if np.iscomplexobj(value) else np.asarray(value, float)
    columns = values.reshape(len(values), -1).T
    names = field.columns or [f"{field.name}[{at}]" if len(columns) > 1 else field.name for at in range(len(columns))]
    return list(zip(names, columns, strict=True))


def _numbers(value: Any, field: Field) -> list[tuple[str, Any]]:
    if isinstance(value, list) or not field.columns:
        return [(field.name, value)]
    return list(zip(field.columns, np.asarray(value).reshape(-1, len(field.columns)).T, strict=True))


def _short(value: Any) -> str:
    flat = value if isinstance(value, list) else np.asarray(value).ravel().tolist()
    words = [one.decode(errors="replace") if isinstance(one, bytes) else f"{one:.4g}" for one in flat[:12]]
    return " ".join(words) + (" …" if len(flat) > 12 else "")


def _draw_lines(axes: Any, lines: Sequence[tuple[str, np.ndarray]]) -> None:
    """The columns that vary most, in the dataset's units."""
    varied = sorted(lines, key=lambda one: -np.nan_to_num(np.std(one[1])))[:LINES]
    few = len(varied) <= 4
    for (name, values), color in zip(varied, MANY, strict=False):
        axes.plot(values, color=color, linewidth=1, label=name[:18] if few else None)
    axes.set_xlabel("row" + ("" if few else f"; the {LINES} of {len(lines)} columns that vary most" * (
        len(lines) > LINES)))  # fmt: skip
    if few:
        axes.legend()


def _raw(raw: RawRows) -> list[Any]:
    """Rows of the files, and texts in them."""
    columns: Mapping[str, list[Any]] = {
        name: [_plain(one) for one in values.to_pylist()]
        for name, values in raw.raw.items()
        if len(values) == len(raw.places)
    }
    texts = {name for name, values in columns.items() if max((len(str(one)) for one in values), default=0) > WORDS}
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


