"""What gives numbers of a dataset back in the units of the files, as far as that is known."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.transforms.reporting.features import Scales

LEAST_ROWS = 3  # that tell how a column was scaled
EXACT = 1e-4  # of the scaled values, that a line through them may miss
MOST_NAMES = 10_000


def scales_of(manifest: Manifest, stats: Mapping[str, Any], raw: RawRows | None, job: Job | None) -> Scales:
    """Of columns, the offset and the divisor: value = scaled * divisor + offset.

    Args:
      manifest: of the dataset.
      stats: what stats.json holds.
      raw: rows as the files have them, and as the dataset does; from these a line is drawn for each column.
      job: that wrote it; None where it is not known. It tells the scale of series.
    """
    if raw is not None:
        return _of_rows(manifest, raw)
    if job is None or "prepare" not in type(job.source).sections or manifest.adopted is not None:
        return {}
    scale = job.prepare.scale
    if scale.per != "fleet" or scale.flags != "scale" or scale.how not in ("standard", "minmax", "none"):
        return {}
    found = {}
    for name, one in (stats.get("features") or {}).items():
        if scale.how == "none":
            found[name] = (0.0, 1.0)
        elif all(isinstance(one.get(key), int | float) for key in ("mean", "std", "min", "max")):
            offset, divisor = (
                (one["mean"], one["std"]) if scale.how == "standard" else (one["min"], one["max"] - one["min"])
            )
            found[name] = (float(offset), float(divisor) or 1.0)
    return {name: found[name] for name in manifest.features if name in found}


def _of_rows(manifest: Manifest, raw: RawRows) -> Scales:
    rows, found = len(raw.places), {}
    for field in manifest.fields:
        scaled = raw.fields.get(field.name)
        if field.role != "input" or field.sizes or not field.columns or scaled is None or field.dtype == "bytes":
            continue
        values = np.asarray(scaled.to_numpy(zero_copy_only=False), float).reshape(rows, -1)
        for at, name in enumerate(field.columns):
            texts = raw.raw.get(name)
            if texts is None or len(texts) != rows or values.shape[1] != len(field.columns):
                continue
            line = line_of(values[:, at], np.array([_number(one) for one in texts.to_pylist()]))
            if line is not None:
                found[name] = line
    return found


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


def names_of_categories(dataset: str, manifest: Manifest) -> dict[str, list[str]]:
    """Of columns of categories what their numbers stand for, where the transform graph keeps their names as a file."""
    folder = storage.join(manifest.data_layout(dataset).transform_fn, "assets")
    found = {}
    for field in manifest.fields:
        for name, size in zip(field.columns or [field.name], field.sizes, strict=False):
            try:
                words = storage.read_text(storage.join(folder, f"{name}_terms.txt")).split("\n")
            except (OSError, ValueError):
                continue
            found[name] = [word.strip() or "(none)" for word in words[: min(size, MOST_NAMES)]]
    return found


def read_stats(dataset: str, manifest: Manifest) -> dict[str, Any]:
    """What stats.json holds; nothing where it cannot be read."""
    try:
        stats = json.loads(storage.read_text(manifest.data_layout(dataset).stats))
    except (OSError, ValueError):
        return {}
    return stats if isinstance(stats, dict) else {}
