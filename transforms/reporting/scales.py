"""What numbers of a dataset mean: their units in the files, and the names of categories, as far as these are known."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.transforms.scoring.stored import terms_of

LEAST_ROWS = 3  # that tell how a column was scaled
EXACT = 1e-4  # of the scaled values, that a line through them may miss
NOTHING, UNSEEN = "(none)", "(unseen)"
LONG = 40  # words of a text
Scales = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Wording:
    """What numbers of a dataset mean.

    Attributes:
      scales: of columns, the offset and divisor that give the units of the files back.
      names: of columns of categories, what their numbers stand for.
    """

    scales: Mapping[str, tuple[float, float]]
    names: Mapping[str, Sequence[str]]

    def of(self, name: str, value: Any) -> str:
        """A value in words."""
        flat: Any = value if isinstance(value, list) else np.asarray(value).ravel()
        if name in self.names:
            terms = self.names[name]
            used = [terms[int(number)] if 0 <= int(number) < len(terms) else "?" for number in np.trim_zeros(flat, "b")]
            if len(flat) > 1:
                return " ".join(used[:LONG]) + " …" * (len(used) > LONG)
            return "".join(used) or terms[0]
        offset, divisor = self.scales.get(name, (0.0, 1.0))
        shown = [entry.decode(errors="replace") if isinstance(entry, bytes) else f"{entry * divisor + offset:.5g}"
                 for entry in flat[:12]]  # fmt: skip
        return " ".join(shown) + " …" * (len(flat) > 12)


def scales_of(manifest: Manifest, stats: Mapping[str, Any], raw: RawRows | None, job: Job | None) -> Scales:
    """Of columns, the offset and the divisor: value = scaled * divisor + offset.

    Args:
      manifest: of the dataset.
      stats: what stats.json holds.
      raw: rows as the files have them, and as the dataset does; from these a line is drawn for each column.
      job: that wrote it; None where it is not known. It tells the scale of series.
    """
    if raw is not None:
        return _of_rows(manifest, raw, stats.get("features") or {})
    if job is None or "prepare" not in type(job.source).sections or manifest.adopted is not None:
        return {}
    scale = job.prepare.scale
    if scale.per != "fleet" or scale.flags != "scale" or scale.how not in ("standard", "minmax", "none"):
        return {}
    features = stats.get("features") or {}
    if scale.how == "none":
        return {name: (0.0, 1.0) for name in manifest.features if name in features}
    lines = {name: _lines(features[name]).get(scale.how) for name in manifest.features if name in features}
    return {name: (line[0], line[1] or 1.0) for name, line in lines.items() if line is not None}


def _lines(stats: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Offset and divisor of a column by how it may be scaled, from what statistics tell of it; none of no numbers."""
    if not all(isinstance(stats.get(key), int | float) for key in ("mean", "std", "min", "max")):
        return {}
    mean, std, low, high = (float(stats[key]) for key in ("mean", "std", "min", "max"))
    return {"standard": (mean, std), "minmax": (low, high - low)}


def _of_rows(manifest: Manifest, raw: RawRows, features: Mapping[str, Any]) -> Scales:
    rows, by_column = len(raw.places), {}
    for field in manifest.fields:
        scaled = raw.fields.get(field.name)
        if field.role != "input" or field.sizes or not field.columns or scaled is None or field.dtype == "bytes":
            continue
        values = np.asarray(scaled.to_numpy(zero_copy_only=False), float).reshape(rows, -1)
        for at, name in enumerate(field.columns):
            texts = raw.raw.get(name)
            if texts is None or len(texts) != rows or values.shape[1] != len(field.columns):
                continue
            of_files = np.array([_number(text) for text in texts.to_pylist()])
            line = known_line(values[:, at], of_files, features.get(name, {})) or line_of(values[:, at], of_files)
            if line is not None:
                by_column[name] = line
    return by_column


def known_line(scaled: np.ndarray, values: np.ndarray, stats: Mapping[str, Any]) -> tuple[float, float] | None:
    """The same by what statistics tell: mean and deviation, or least and most; None where neither fits."""
    known = np.isfinite(values) & np.isfinite(scaled)
    for offset, divisor in _lines(stats).values() if known.any() else ():
        missed = np.abs(scaled[known] * divisor + offset - values[known]).max()
        if divisor > 0 and missed <= EXACT * divisor + EXACT * abs(offset):
            return offset, divisor
    return None


def line_of(scaled: np.ndarray, values: np.ndarray) -> tuple[float, float] | None:
    """Offset and divisor that make all of one the other; None where no line does, or too few values differ."""
    known = np.isfinite(values) & np.isfinite(scaled)
    scaled, values = scaled[known], values[known]
    if len(np.unique(scaled)) < LEAST_ROWS:
        return None
    divisor, offset = np.polyfit(scaled, values, 1)
    missed = np.abs(scaled * divisor + offset - values).max()
    return (float(offset), float(divisor)) if missed <= EXACT * np.ptp(values) else None


def _number(value: Any) -> float:
    try:
        return float(value.decode() if isinstance(value, bytes) else value)
    except (TypeError, ValueError):
        return float("nan")


def names_of_categories(dataset: str, manifest: Manifest) -> dict[str, Sequence[str]]:
    """Of columns of categories what their numbers stand for, where the transform graph keeps their names as a file."""
    layout = manifest.data_layout(dataset)
    by_column: dict[str, Sequence[str]] = {}
    for field in manifest.fields:
        for name, size in zip(field.columns or [field.name], field.sizes, strict=False):
            with suppress(OSError):
                terms = terms_of(layout, name, size, NOTHING, UNSEEN)
                if len(terms) == size:
                    by_column[name] = terms
    return by_column
