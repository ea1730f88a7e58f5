"""Resampling and filling by plain loops, for the oracle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

NAN = float("nan")


@dataclass
class Row:
    """A row of an asset, or a step of its grid.

    Attributes:
      label: a number; NaN is missing.
      split: what decides its split.
      part: the number of its file among the asset's.
      gap: it does not continue the row before it.
      position: its number among the asset's rows, or the number of its step.
      wrong: why it is set aside; "" if it is not.
      timed: whether its time is its own.
      file: that it is in.
    """

    asset: str
    time: int
    values: np.ndarray
    label: float
    split: str | None = None
    part: int = 0
    gap: bool = False
    position: int = -1
    wrong: str = ""
    timed: bool = True
    file: str = ""


def resample(rows: list[Row], every: int, how: str, missing: dict[str, Any]) -> list[Row]:
    """One row for each step of the grid; holes of up to `limit` steps are steps without a value."""
    steps: dict[int, list[Row]] = {}
    for row in rows:
        steps.setdefault(row.time // every, []).append(row)
    limit = 0 if missing["fill"] == "drop" else missing["limit"]
    found: list[Row] = []
    for step, own in steps.items():
        values = np.array([one_of([row.values[i] for row in own], how) for i in range(len(own[0].values))], np.float32)
        gap = any(row.gap for row in own)
        if found and not gap:
            before = found[-1]
            hole = step - before.position - 1
            if 0 < hole <= limit:
                for k in range(before.position + 1, step):
                    empty = np.full(len(values), np.nan, np.float32)
                    found.append(Row(before.asset, k * every, empty, before.label, position=k))
        found.append(Row(own[0].asset, step * every, values, own[-1].label, gap=gap, position=step))
    return found


def one_of(values: list[float], how: str) -> float:
    """One value of those in a step; missing ones count for nothing."""
    there = [float(value) for value in values if math.isfinite(value)]
    if not there:
        return NAN
    if how == "mean":
        return sum(there) / len(there)
    return {"first": there[0], "last": there[-1], "min": min(there), "max": max(there)}[how]


def fill_missing(rows: list[Row], missing: dict[str, Any]) -> list[Row]:
    """Rows with missing values filled, never across a gap; those that still lack one are left out."""
    runs: list[list[Row]] = []
    for row in rows:
        if not runs or row.gap or row.position != runs[-1][-1].position + 1:
            runs.append([])
        runs[-1].append(row)
    for run in runs:
        for i in range(len(run[0].values)):
            column = [float(row.values[i]) if math.isfinite(row.values[i]) else NAN for row in run]
            for row, value in zip(run, fill_column(column, missing), strict=True):
                row.values[i] = np.float32(value)
    return [row for run in runs for row in run if not np.isnan(row.values).any()]


def fill_column(column: list[float], missing: dict[str, Any]) -> list[float]:
    """One feature of a run of rows, filled as the job says."""
    fill, limit = missing["fill"], missing["limit"]
    found = list(column)
    for i, value in enumerate(column):
        if not math.isnan(value):
            continue
        before = next((k for k in range(i, -1, -1) if not math.isnan(column[k])), None)
        behind = next((k for k in range(i, len(column)) if not math.isnan(column[k])), None)
        if fill == "forward" and before is not None and i - before <= limit:
            found[i] = column[before]
        elif fill == "linear" and before is not None and behind is not None and behind - before - 1 <= limit:
            low, high = column[before], column[behind]
            found[i] = low + (high - low) * ((i - before) / (behind - before))
        if math.isnan(found[i]) and (fill == "constant" or (fill != "drop" and missing["then"] == "constant")):
            found[i] = missing["value"]
    return found
