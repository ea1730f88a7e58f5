"""What comparing two sides gives, as a table: a row for each column, the largest drift first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from beamfeed.transforms.scoring.drift import Drift, Side, compare, with_missing
from beamfeed.transforms.scoring.sides import Found
from beamfeed.transforms.scoring.stored import Seen

TOLD_VALUES = 20  # of those that one side alone has
_NEAR = 1e-5  # of a range: by so much an end of it may be off
_VALUES = pa.list_(pa.struct([("value", pa.string()), ("share", pa.float64())]))
_SIDE = {"rows": pa.int64()} | dict.fromkeys(("missing", "mean", "std", "low", "high"), pa.float64())
SCHEMA = pa.schema(
    {
        "column": pa.string(),
        "drift": pa.bool_(),
        "psi": pa.float64(),
        "noise": pa.float64(),
        "distance": pa.float64(),
        "changes": pa.list_(pa.string()),
        **{f"reference_{name}": kind for name, kind in _SIDE.items()},
        **{f"current_{name}": kind for name, kind in _SIDE.items()},
        "new": _VALUES,
        "gone": _VALUES,
        "edges": pa.list_(pa.float64()),
        "labels": pa.list_(pa.string()),
        "reference_shares": pa.list_(pa.float64()),
        "current_shares": pa.list_(pa.float64()),
    }
)


def compare_sides(reference: Found, current: Found, seen: Sequence[Mapping[str, Seen]]) -> list[Drift]:
    """The drift of all columns that both have.

    Args:
      reference: what was, and
      current: what is.
      seen: of both, by column the rows with their missing values, where these were filled in later.
    """
    drifts = []
    for one, other in _pairs(reference, current):
        for drift in compare(one, other):
            told = [side.get(drift.name) for side in seen]
            if drift.name in one.columns.numbers and told[0] is not None and told[1] is not None:
                drift = with_missing(drift, (told[0].rows, told[1].rows), (told[0].missing, told[1].missing))
            drifts.append(drift)
    return drifts


def _pairs(reference: Found, current: Found) -> Iterator[tuple[Any, Any]]:
    """Summaries that have columns in common, each with the one it has most in common with."""
    for one in reference.summaries:
        others = [(len({*one.columns.names} & {*two.columns.names}), two) for two in current.summaries]
        most, best = max(others, key=lambda pair: pair[0], default=(0, None))
        if most:
            yield one, best


def seen_in(found: Found) -> dict[str, Seen]:
    """By column the rows of new files with their missing values."""
    moments = found.seen
    if moments is None:
        return {}
    names = found.summaries[0].columns.numbers
    return {
        name: Seen(moments.rows, moments.rows - moments.count[at], moments.low[at], moments.high[at])
        for at, name in enumerate(names)
    }


def changes(drift: Drift) -> list[str]:
    """What is not as it was, as people read it; the most telling first."""
    one, other = drift.reference, drift.current
    told = []
    if not other.rows or not one.rows:
        return ["no rows to compare"]
    if drift.kinds is not None:
        return ["{} in the reference, {} now".format(*drift.kinds)]
    if math.isnan(drift.psi):
        return ["too many different values to compare"]
    if not math.isnan(one.mean) and not math.isnan(other.mean):
        step = one.std or abs(one.mean) or 1.0
        if abs(other.mean - one.mean) >= 0.1 * step:
            deviations = f" ({(other.mean - one.mean) / one.std:+.2g} deviations)" if one.std else ""
            told.append(f"mean {_figure(one.mean, step)} -> {_figure(other.mean, step)}{deviations}")
        if one.std and not 0.8 <= other.std / one.std <= 1.25:
            told.append(f"deviation {one.std:.3g} -> {other.std:.3g}")
    if abs(other.missing - one.missing) >= 0.005:
        told.append(f"missing {one.missing:.3g} -> {other.missing:.3g}")
    told += _of_values(drift)
    span = max(one.high - one.low, abs(one.high), abs(one.low))
    if other.low < one.low - _NEAR * span or other.high > one.high + _NEAR * span:
        ends = (0.0 if abs(end) < _NEAR * span else end for end in (one.low, one.high, other.low, other.high))
        told.append("range {:.4g}..{:.4g} -> {:.4g}..{:.4g}".format(*ends))
    return told


def _figure(value: float, step: float) -> str:
    """A number to a hundredth of what it usually differs by."""
    places = 2 - math.floor(math.log10(step))
    return f"{value:.{places}f}" if 0 <= places <= 9 else f"{value:.4g}"


def _of_values(drift: Drift) -> list[str]:
    told = []
    for what, values in (("new", drift.new), ("gone", drift.gone)):
        if values:
            first = ", ".join(f"{value[:40]!r} {share:.2g}" for value, share in values[:2])
            told.append(f"{what} {first}" + (f" and {len(values) - 2:,} more" if len(values) > 2 else ""))
    moved = [abs(b - a) for a, b in drift.shares.T[: len(drift.labels)]]
    if moved and max(moved) >= 0.02:
        at = moved.index(max(moved))
        if drift.labels[at] not in {value for value, _ in (*drift.new[:2], *drift.gone[:2])}:
            told.append(f"{drift.labels[at][:40]!r} {drift.shares[0, at]:.2g} -> {drift.shares[1, at]:.2g}")
    return told


def table_of(drifts: Sequence[Drift], threshold: float, alone: Sequence[tuple[str, str]]) -> pa.Table:
    """Columns as in SCHEMA.

    Args:
      drifts: of columns on both sides.
      threshold: from which on one drifts.
      alone: columns on one side, and on which.
    """
    ordered = sorted(drifts, key=lambda one: (not one.over(threshold), -_sortable(one.psi), one.name))
    rows = [
        {
            "column": one.name,
            "drift": one.over(threshold),
            **{name: _known(getattr(one, name)) for name in ("psi", "noise", "distance")},
            "changes": changes(one),
            **{f"reference_{name}": value for name, value in _side(one.reference).items()},
            **{f"current_{name}": value for name, value in _side(one.current).items()},
            **{name: [dict(zip(("value", "share"), item, strict=True)) for item in getattr(one, name)[:TOLD_VALUES]]
               for name in ("new", "gone")},
            "edges": one.edges.tolist(),
            "labels": list(one.labels),
            "reference_shares": one.shares[0].tolist(),
            "current_shares": one.shares[1].tolist(),
        }
        for one in ordered
    ]  # fmt: skip
    rows += [{"column": name, "drift": False, "changes": [where]} for name, where in alone]
    return pa.Table.from_pylist(rows, SCHEMA)


def _side(side: Side) -> dict[str, Any]:
    return {name: _known(getattr(side, name)) for name in _SIDE}


def _known(value: float) -> float | None:
    return None if isinstance(value, float) and math.isnan(value) else value


def _sortable(value: float) -> float:
    return -1.0 if math.isnan(value) else value
