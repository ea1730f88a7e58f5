"""The error of each asset."""

import csv
import io
import math
from collections.abc import Mapping

import numpy as np

from beamfeed.contract.dataset.review import AssetError

WORST = 10  # assets that are told of
TENTH = 10  # one asset of so many is among "the worst tenth"
WORSE = 2.0  # times the mean loss of the others


def errors_by_asset(losses: np.ndarray, assets: np.ndarray) -> list[AssetError]:
    """The assets, those with the highest mean loss first.

    Args:
      losses: float64 `[windows]`.
      assets: strings `[windows]`.
    """
    names, of = np.unique(assets.astype(str), return_inverse=True)
    windows, sums = np.bincount(of), np.bincount(of, losses)
    worst = np.full(len(names), -np.inf)
    np.maximum.at(worst, of, losses)
    errors = [
        AssetError(asset=name, windows=int(count), loss=finite(total / count), worst=finite(most))
        for name, count, total, most in zip(names, windows, sums, worst, strict=True)
    ]
    return sorted(errors, key=lambda error: (-math.inf if error.loss is None else -error.loss, error.asset))


def finite(value: float) -> float | None:
    """The number; None where it is none, as JSON knows neither infinity nor NaN."""
    return float(value) if math.isfinite(value) else None


def most_of_error(errors: list[AssetError]) -> tuple[list[str], float] | None:
    """The tenth of the assets (at least one) that makes most of the whole loss, and its part of it.

    None where that says nothing: of fewer than three assets, of losses that are not all above 0, or where their windows
    are no worse than others, but more.
    """
    if len(errors) < 3 or any(error.loss is None or error.loss < 0 for error in errors):
        return None
    by_sum = sorted(errors, key=lambda error: _sum([error]), reverse=True)
    count = max(1, len(errors) // TENTH)
    most, others = by_sum[:count], by_sum[count:]
    windows, of_others = (sum(error.windows for error in part) for part in (most, others))
    if _sum(most) / windows <= WORSE * _sum(others) / of_others:
        return None
    return [error.asset for error in most], _sum(most) / _sum(errors)


def _sum(errors: list[AssetError]) -> float:
    return sum((error.loss or 0.0) * error.windows for error in errors)


def assets_csv(by_split: Mapping[str, list[AssetError]]) -> str:
    """The table of all splits, by the split's name."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("split", "asset", "windows", "loss", "worst"))
    for split, errors in by_split.items():
        table.writerows((split, error.asset, error.windows, _text(error.loss), _text(error.worst)) for error in errors)
    return text.getvalue()


def _text(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.8g}"
