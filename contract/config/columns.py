"""Names and globs of the job file -> columns of the files."""

import fnmatch
import math
from collections.abc import Mapping, Sequence

from beamfeed.contract.errors import UserError, near_miss


def match_features(patterns: Sequence[str], names: Sequence[str], never: Sequence[str]) -> list[str]:
    """The columns that names and globs ask for: in the order of the patterns, then of the files.

    A glob never takes one of `never` (the time, the asset and the labels), a name may.
    """
    columns: dict[str, None] = {}
    for pattern in patterns:
        if pattern in names:  # also where it looks like a glob, as `Temp [C]` does
            columns[pattern] = None
        elif any(c in pattern for c in "*?["):
            columns.update(dict.fromkeys(n for n in names if fnmatch.fnmatchcase(n, pattern) and n not in never))
    return list(columns)


def resolve_ranges(
    ranges: Mapping[str, tuple[float | None, float | None]], features: Sequence[str]
) -> tuple[tuple[int, float, float], ...]:
    """The place, the lowest and the highest value of the features that `prepare.range` names; the last pattern holds.

    Raises:
      UserError: if a pattern names no feature.
    """
    limits: dict[int, tuple[float, float]] = {}
    for pattern, (low, high) in ranges.items():
        matched = match_features([pattern], features, ())
        if not matched:
            hint = near_miss(pattern, features)
            raise UserError(f"prepare.range: {pattern!r} is none of the features{hint} ({', '.join(features[:20])})")
        for name in matched:
            limits[features.index(name)] = -math.inf if low is None else low, math.inf if high is None else high
    return tuple((place, *limits[place]) for place in sorted(limits))
