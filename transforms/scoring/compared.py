"""A comparison: parts of a side -> what is found in each -> in all -> a table, the largest drift first."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from beamfeed.contract.text import some_of
from beamfeed.transforms.beam_driver import AddUp
from beamfeed.transforms.export.parquet import KEY, write_batches
from beamfeed.transforms.fleet import Fleet
from beamfeed.transforms.scoring import sides
from beamfeed.transforms.scoring.drift import Drift, RawCounts, Side, compare, with_missing
from beamfeed.transforms.scoring.sides import Part, SideSummary, nothing
from beamfeed.transforms.statistics.clumps import Clumps

MOST_VALUES = 20  # of those that one side alone has
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


def summarize(label: str, parts: beam.PCollection, side: sides.Side) -> beam.PCollection:
    """PCollection of parts of a side -> PCollection of one SideSummary."""
    found = parts | f"FindIn{label}" >> beam.Map(side.read)
    return found | f"AddUp{label}" >> beam.CombineGlobally(AddUp(nothing(side)))


def summarize_parts(
    pipeline: beam.Pipeline, label: str, parts: Sequence[Part], side: sides.Side
) -> tuple[beam.PCollection, None]:
    """PCollection of one SideSummary of all parts; and None, as none of their rows are set aside."""
    return summarize(label, pipeline | label >> beam.Create(parts, reshuffle=True), side), None


def compare_sides(reference: SideSummary, current: SideSummary, raw: Sequence[Mapping[str, RawCounts]]) -> list[Drift]:
    """The drift of all columns that both have.

    Args:
      reference: what was, and
      current: what is.
      raw: of both, by column the rows with their missing values, where these were filled in later.
    """
    drifts = []
    for before, now in _pairs(reference, current):
        found = compare(before, now)
        for drift in found:
            counts = [side.get(drift.name) for side in raw]
            if drift.name in before.columns.numbers and counts[0] is not None and counts[1] is not None:
                drift = with_missing(drift, (counts[0], counts[1]), len(found))
            drifts.append(drift)
    return drifts


def _pairs(reference: SideSummary, current: SideSummary) -> Iterator[tuple[Any, Any]]:
    """Summaries that have columns in common, each with the one it has most in common with."""
    for summary in reference.summaries:
        others = [(len({*summary.columns.names} & {*two.columns.names}), two) for two in current.summaries]
        most, best = max(others, key=lambda pair: pair[0], default=(0, None))
        if most:
            yield summary, best


def raw_counts_of(summary: SideSummary) -> dict[str, RawCounts]:
    """By column the rows of new files, and how many lack a value; nothing of another side."""
    if not summary.raw:
        return {}
    clumps = Clumps.of(np.stack(list(summary.raw.values())))
    facts = zip(summary.summaries[0].columns.numbers, clumps.missing, clumps.design_effects(), strict=True)
    return {name: RawCounts(clumps.rows, missing, effect) for name, missing, effect in facts}


def changes(drift: Drift) -> list[str]:
    """What is not as it was, as people read it; the most telling first."""
    reference, current = drift.reference, drift.current
    lines = []
    if not current.rows or not reference.rows:
        return ["no rows to compare"]
    if drift.kinds is not None:
        return ["{} in the reference, {} now".format(*drift.kinds)]
    if math.isnan(drift.psi):
        return ["too many different values to compare"]
    if not math.isnan(reference.mean) and not math.isnan(current.mean):
        step = reference.std or abs(reference.mean) or 1.0
        if abs(current.mean - reference.mean) >= 0.1 * step:
            moved = (current.mean - reference.mean) / reference.std if reference.std else 0.0
            deviations = f" ({moved:+.2g} deviations)" if reference.std else ""
            lines.append(f"mean {_figure(reference.mean, step)} -> {_figure(current.mean, step)}{deviations}")
        if reference.std and not 0.8 <= current.std / reference.std <= 1.25:
            lines.append(f"deviation {reference.std:.3g} -> {current.std:.3g}")
    if abs(current.missing - reference.missing) >= 0.005:
        lines.append(f"missing {reference.missing:.3g} -> {current.missing:.3g}")
    lines += _of_values(drift)
    span = max(reference.high - reference.low, abs(reference.high), abs(reference.low))
    if current.low < reference.low - _NEAR * span or current.high > reference.high + _NEAR * span:
        every = (reference.low, reference.high, current.low, current.high)
        ends = (0.0 if abs(end) < _NEAR * span else end for end in every)
        lines.append("range {:.4g}..{:.4g} -> {:.4g}..{:.4g}".format(*ends))
    return lines


def _figure(value: float, step: float) -> str:
    """A number to a hundredth of what it usually differs by."""
    places = 2 - math.floor(math.log10(step))
    return f"{value:.{places}f}" if 0 <= places <= 9 else f"{value:.4g}"


def _of_values(drift: Drift) -> list[str]:
    lines = []
    for kind, values in (("new", drift.new), ("gone", drift.gone)):
        if values:
            shown = [f"{value[:40]!r} {share:.2g}" for value, share in values]
            lines.append(f"{kind} {some_of(shown, 2)}")
    moved = [abs(b - a) for a, b in drift.shares.T[: len(drift.labels)]]
    if moved and max(moved) >= 0.02:
        at = moved.index(max(moved))
        if drift.labels[at] not in {value for value, _ in (*drift.new[:2], *drift.gone[:2])}:
            lines.append(f"{drift.labels[at][:40]!r} {drift.shares[0, at]:.2g} -> {drift.shares[1, at]:.2g}")
    return lines


def table_of(drifts: Sequence[Drift], threshold: float, alone: Sequence[tuple[str, str]]) -> pa.Table:
    """Columns as in SCHEMA.

    Args:
      drifts: of columns on both sides.
      threshold: from which on one drifts.
      alone: columns on one side, and on which.
    """
    ordered = sorted(
        drifts, key=lambda drift: (not drift.over(threshold), -np.nan_to_num(drift.psi, nan=-1.0), drift.name)
    )
    rows = [
        {
            "column": drift.name,
            "drift": drift.over(threshold),
            **{name: _known(getattr(drift, name)) for name in ("psi", "noise", "distance")},
            "changes": changes(drift),
            **{f"reference_{name}": value for name, value in _side(drift.reference).items()},
            **{f"current_{name}": value for name, value in _side(drift.current).items()},
            **{name: [dict(zip(("value", "share"), item, strict=True)) for item in getattr(drift, name)[:MOST_VALUES]]
               for name in ("new", "gone")},
            "edges": drift.edges.tolist(),
            "labels": list(drift.labels),
            "reference_shares": drift.shares[0].tolist(),
            "current_shares": drift.shares[1].tolist(),
        }
        for drift in ordered
    ]  # fmt: skip
    rows += [{"column": name, "drift": False, "changes": [where]} for name, where in alone]
    return pa.Table.from_pylist(rows, SCHEMA)


def _side(side: Side) -> dict[str, Any]:
    return {name: _known(getattr(side, name)) for name in _SIDE}


def _known(value: float) -> float | None:
    return None if isinstance(value, float) and math.isnan(value) else value


def finish(
    _: None, reference: SideSummary, current: SideSummary, raw: Sequence[Mapping[str, RawCounts]],
    threshold: float, alone: Sequence[tuple[str, str]], out: str, fleet: Fleet | None = None,
) -> None:  # fmt: skip
    """Writes the table of the comparison.

    Args:
      reference: what was, and
      current: what is.
      raw: of both, see `compare_sides`; of new files it is counted with them.
      threshold: from which on a column drifts.
      alone: columns that one side has alone, and which.
      out: the file, local or gs://.
      fleet: what was set aside of new files.
    """
    counted = [{**counts, **raw_counts_of(summary)} for counts, summary in zip(raw, (reference, current), strict=True)]
    table = table_of(compare_sides(reference, current, counted), threshold, alone)
    aside = {} if fleet is None else {"file": fleet.counts.rejected_files, "row": fleet.counts.rejected_rows}
    table = table.replace_schema_metadata({KEY: json.dumps(aside).encode()})
    write_batches(out, table.schema, table.to_batches())
