"""How far the rows of one summary are from those of another, column by column. Pure.

The statistic is the population stability index (Siddiqi 2006, "Credit Risk Scorecards"; Kullback and Leibler's
divergence both ways): PSI = sum over bins of (q - p) * ln(q / p), p and q the shares of the reference and of the
current rows. Bins of numbers are between tenths of the reference, of texts its values; missing is one more. Usual
words: under 0.1 stable, over 0.25 another population. A normal column whose mean moves by d deviations has d ** 2.

PSI is above 0 by chance alone: of independent rows by (bins - 1) * (1 / n + 1 / m) on average (Yurdakul 2018,
"Statistical Properties of Population Stability Index"), and of rows that come from few assets by far more, as the rows
of an asset are alike. So it is set beside `noise`: what it would seldom exceed if the same assets were dealt to both
sides at random.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

import numpy as np

from beamfeed.contract.options import DRIFT as THRESHOLD
from beamfeed.transforms.scoring.deals import AssetDeals, deal_rows
from beamfeed.transforms.scoring.summary import OTHER, TOGETHER, Summary, codes_of

BINS = 10
ATOM = 0.05  # a value that so many rows have is a bin of its own
FALSE_ALARMS = 0.01  # of a comparison without drift, over all columns
MOST_VALUES = 50  # of a column of texts are bins; the others are one together
_OF_SPREAD, _OF_VALUE = 1e-5, 1e-6  # parts that numbers may be apart and are the same
_EMPTY = 0.5  # rows that are added to each bin, as one may have none


class RawCounts(NamedTuple):
    """Of a column, rows as files had them, and of these those without a value.

    Attributes:
      rows, missing: how many.
      design_effect: how many rows count as one, as missing values come by asset; 1 where rows are independent.
    """

    rows: int
    missing: int
    design_effect: float = 1.0


@dataclass(frozen=True)
class Side:
    """A column on one side.

    Attributes:
      rows: in all.
      missing: the share of rows without a value; NaN of no rows.
      mean, std, low, high: of numbers; NaN where there is no value.
    """

    rows: int
    missing: float
    mean: float = math.nan
    std: float = math.nan
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Drift:
    """How far a column is from what it was.

    Attributes:
      name: of the column.
      psi: see above; NaN where it is not compared, as a side has no rows or a text too many values.
      noise: what `psi` exceeds by chance in one of a hundred comparisons, in any column.
      distance: of numbers that of Kolmogorov and Smirnov, the largest difference of the shares of values up to any;
        of texts the largest difference of the share of a value (L-infinity).
      reference, current: the sides.
      edges: of numbers, float64 `[bins - 1]`; a bin is from above one up to the next.
      labels: of texts, the values of bins.
      shares: float64 `[2, bins + 1]`, of the rows of both sides; the last bin is missing ones.
      new: values of texts that the reference has not, with their shares of the current rows; the largest first.
      gone: likewise.
      kinds: what both sides hold, numbers or texts, where that differs; such a column is not compared.
    """

    name: str
    psi: float
    noise: float
    distance: float
    reference: Side
    current: Side
    edges: np.ndarray
    labels: tuple[str, ...]
    shares: np.ndarray
    new: tuple[tuple[str, float], ...] = ()
    gone: tuple[tuple[str, float], ...] = ()
    kinds: tuple[str, str] | None = None

    def over(self, threshold: float = THRESHOLD) -> bool:
        """Whether it is an alarm: from the threshold on, and more than chance gives; or another kind of values."""
        return self.kinds is not None or (self.psi >= threshold and self.psi > self.noise)


def psi(counts: np.ndarray) -> np.ndarray:
    """The population stability index, float64 `[...]`, of counts `[..., 2, bins]`. Bins that both lack do not count."""
    counts = np.asarray(counts, np.float64)
    filled = counts.sum(axis=-2, keepdims=True) > 0
    smooth = np.where(filled, counts + _EMPTY, 0)
    shares = smooth / np.maximum(smooth.sum(axis=-1, keepdims=True), _EMPTY)
    p, q = np.where(filled, shares, 1)[..., 0, :], np.where(filled, shares, 1)[..., 1, :]
    index: np.ndarray = ((q - p) * np.log(q / p)).sum(axis=-1)
    return index


def ks_distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two empirical distributions, of values without NaN; NaN where a side has none.

    Values that differ by no more than what scaling and unscaling may leave are taken for equal.
    """
    if not len(one) or not len(other):
        return math.nan
    one, other = np.sort(one.astype(np.float64)), np.sort(other.astype(np.float64))
    every = np.concatenate([one, other])
    every += _tolerance(every, one)
    shares = (np.searchsorted(side, every, side="right") / len(side) for side in (one, other))
    return float(np.abs(np.subtract(*shares)).max())


def edges_of(values: np.ndarray) -> np.ndarray:
    """Where bins end, float64, rising: at tenths of the values; a frequent value has a bin of its own.

    Args:
      values: float32 `[n]` without NaN.
    """
    if not len(values):
        return np.empty(0)
    ordered = np.sort(values.astype(np.float64))
    tenths = np.unique(np.quantile(ordered, np.arange(1, BINS) / BINS, method="inverted_cdf"))
    near = _tolerance(tenths, ordered)
    begin, end = np.searchsorted(ordered, tenths - near, side="left"), np.searchsorted(ordered, tenths + near, "right")
    is_atom = end - begin >= max(2, ATOM * len(values))
    return np.unique(np.concatenate([tenths + near, (tenths - near)[is_atom]]))


def _tolerance(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """By how much values may differ and be the same: float32 that were scaled and unscaled again."""
    low, high = np.quantile(ordered, [0.1, 0.9])
    return np.maximum(_OF_SPREAD * (high - low), _OF_VALUE * np.abs(values))


def compare(reference: Summary, current: Summary) -> list[Drift]:
    """The drift of each column that both have, in the order of the reference."""
    sides = (reference, current)
    both = [name for name in reference.columns.names if name in current.columns.names]
    same: list[str] = []
    drifts: dict[str, Drift] = {}
    for name in both:
        before, now = ("numbers" if name in side.columns.numbers else "texts" for side in sides)
        if before == now:
            same.append(name)
        else:
            described = (_side(reference, name), _side(current, name))
            drifts[name] = Drift(
                name, math.nan, math.nan, math.nan, *described, np.empty(0), (), np.empty((2, 0)), kinds=(before, now)
            )

    def group(name: str) -> tuple[int, int]:
        return reference.columns.names.index(name) // TOGETHER, current.columns.names.index(name) // TOGETHER

    for _, names in groupby(sorted(same, key=group), group):  # one after the other, as the deals of each take memory
        drifts |= {drift.name: drift for drift in _compare_group(list(names), reference, current, len(same))}
    return [drifts[name] for name in both]


def with_missing(drift: Drift, raw: Sequence[RawCounts], columns: int = 1) -> Drift:
    """The drift of a column whose missing values were filled in, where it is known how many there were.

    It counts where they alone are more drift than the values.

    Args:
      drift: of the values.
      raw: of both sides.
      columns: how many are compared in all.
    """
    counts = np.array([[side.missing, side.rows - side.missing] for side in raw], np.int64)
    if not counts.sum(axis=1).all():
        return drift
    reference, current = (
        replace(side, missing=of_side.missing / of_side.rows)
        for side, of_side in zip((drift.reference, drift.current), raw, strict=True)
    )
    result = replace(drift, reference=reference, current=current)
    alone = float(psi(counts))
    if math.isnan(drift.psi) or alone <= drift.psi:
        return result
    # Which assets lack values is not kept: in their place as many independent rows are dealt as tell no more.
    rows = counts.sum(axis=1)
    weights = rows * (counts / rows[:, None]).prod(axis=1)
    together = float(np.average([side.design_effect for side in raw], weights=weights)) if weights.any() else 1.0
    dealt = deal_rows(np.ceil(counts / together).astype(np.int64)) * together
    return replace(result, psi=alone, noise=_quantile(psi(dealt), FALSE_ALARMS / max(1, columns)))


def _compare_group(names: Sequence[str], reference: Summary, current: Summary, columns: int) -> Iterator[Drift]:
    """Those of columns that are sampled together on both sides; `columns` is how many are compared in all."""
    deals = None
    if reference.columns.by_asset and current.columns.by_asset and reference.rows and current.rows:
        deals = AssetDeals.of(*(side.sampled(names[0])[1] for side in (reference, current)))
    for name in names:
        yield _compare(name, reference, current, columns, deals)


def _compare(name: str, reference: Summary, current: Summary, columns: int, deals: AssetDeals | None) -> Drift:
    sides = (reference, current)
    sampled = [side.sampled(name)[0] for side in sides]
    edges, is_over = np.empty(0), False
    labels: tuple[str, ...] = ()
    new: tuple[tuple[str, float], ...] = ()
    gone: tuple[tuple[str, float], ...] = ()
    if name in reference.columns.numbers:
        known = [values[~np.isnan(values)] for values in sampled]
        edges = edges_of(known[0])
        codes = [_binned(values, edges) for values in sampled]
        exact = np.stack([np.bincount(part, minlength=len(edges) + 2) for part in codes])
        distance = ks_distance(*known)
    else:
        counts = [side.counts[side.columns.texts.index(name)] for side in sides]
        is_over = any(of_side.over for of_side in counts)
        values = [dict(of_side.items()) for of_side in counts]
        labels = _labels(*values)
        exact = np.stack([_exact(of_side, labels, side, name) for of_side, side in zip(values, sides, strict=True)])
        codes = [_placed(of_side, codes_of(labels)) for of_side in sampled]
        new, gone = _only(values[1], values[0], current, reference), _only(values[0], values[1], reference, current)
        distance = float(np.abs(np.subtract(*_shares(exact))).max())
    shares, described = _shares(exact), (_side(reference, name), _side(current, name))
    if is_over or not (reference.rows and current.rows):
        return Drift(name, math.nan, math.nan, math.nan, *described, edges, labels, shares)
    dealt = deal_rows(exact) if deals is None else deals.counts(codes, exact.shape[1])
    index, noise = float(psi(exact)), _quantile(psi(dealt), FALSE_ALARMS / max(1, columns))
    return Drift(name, index, noise, distance, *described, edges, labels, shares, new, gone)


def _shares(counts: np.ndarray) -> np.ndarray:
    """Of rows in each bin, `[2, bins]`, their shares of the rows of their side."""
    return np.asarray(counts / np.maximum(1, counts.sum(axis=1, keepdims=True)))


def _binned(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The bin of each value, that after the last where it is missing."""
    return np.where(np.isnan(values), len(edges) + 1, np.searchsorted(edges, values, side="left"))


def _placed(codes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The bin of each text: those in order, then one for all others, then missing."""
    by_code = np.argsort(order, kind="stable")
    at = np.minimum(np.searchsorted(order[by_code], codes), max(0, len(order) - 1))
    known = order[by_code][at] == codes if len(order) else np.zeros(len(codes), bool)
    bins = np.where(known, by_code[at] if len(order) else 0, len(order))
    return np.where(np.isnan(codes), len(order) + 1, bins)


def _labels(one: Mapping[str, int], other: Mapping[str, int]) -> tuple[str, ...]:
    """The values that are bins: the most frequent of each side, but for those that may be among OTHER of one."""
    totals = [max(1, sum(side.values())) for side in (one, other)]
    shares = {
        value: max(one.get(value, 0) / totals[0], other.get(value, 0) / totals[1])
        for value in {*one, *other}
        if value != OTHER and not any(OTHER in side and value not in side for side in (one, other))
    }
    return tuple(sorted(shares, key=lambda value: (-shares[value], value))[:MOST_VALUES])


def _exact(counts: Mapping[str, int], labels: Sequence[str], summary: Summary, name: str) -> np.ndarray:
    """int64 `[labels + 2]`: rows of each value, of all others, and without one."""
    of_labels = [counts.get(label, 0) for label in labels]
    missing = summary.missing[summary.columns.texts.index(name)]
    return np.array([*of_labels, sum(counts.values()) - sum(of_labels), missing], np.int64)


def _only(
    counts: Mapping[str, int], others: Mapping[str, int], summary: Summary, other: Summary
) -> tuple[tuple[str, float], ...]:
    """Values that the other side has not, nor can have among its OTHER, and their shares of all rows; largest first."""
    least = others.get(OTHER, 0) / max(1, other.rows)
    shares = {value: count / max(1, summary.rows) for value, count in counts.items() if value not in {*others, OTHER}}
    only = ((value, share) for value, share in shares.items() if share > least)
    return tuple(sorted(only, key=lambda item: (-item[1], item[0])))


def _side(summary: Summary, name: str) -> Side:
    rows = summary.rows
    if name in summary.columns.texts:
        missing = summary.missing[summary.columns.texts.index(name)]
        return Side(rows, missing / rows if rows else math.nan)
    at, moments = summary.columns.numbers.index(name), summary.moments
    share = 1 - moments.count[at] / rows if rows else math.nan
    if not moments.count[at]:
        return Side(rows, share)
    return Side(rows, share, float(moments.mean()[at]), float(moments.std()[at]), moments.low[at], moments.high[at])


def _quantile(values: np.ndarray, risk: float) -> float:
    """What the values exceed with this probability, taken as a * chi2(k) of their mean and variance (Satterthwaite)."""
    from scipy.stats import chi2

    mean, variance = float(values.mean()), float(values.var())
    if variance <= 0:
        return mean
    return float(variance / (2 * mean) * chi2.ppf(1 - risk, 2 * mean**2 / variance))
