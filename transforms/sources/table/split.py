"""Which split each row of a table is in."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.split import Split
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.table.rows import TableRows
from beamfeed.transforms.splits import NONE, places_by_fraction, places_by_hash, places_by_value, seeded_hash
from beamfeed.transforms.statistics.hashes import hash_numbers, hash_texts

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class TimeCuts:
    """int64 nanoseconds, where training begins and ends, and where eval and test begin; None where there is no cut."""

    train: int | None
    train_end: int | None
    eval: int | None
    test: int | None

    @classmethod
    def of(cls, split: Split, units: TimeUnits) -> "TimeCuts":
        """Those of a job.

        Raises:
          UserError: if one is no time.
        """
        given = {key: getattr(split, key) for key in ("train_from", "eval_from", "test_from")}
        cuts = {key: units.instant(value, f"split.{key}") for key, value in given.items() if value is not None}
        for (key, when), (after, later) in pairwise(cuts.items()):
            if when >= later:
                raise UserError(f"split.{after}: {given[after]} is not after split.{key}: {given[key]}")
        train, evaluate, test = map(cuts.get, given)
        first = test if evaluate is None else evaluate
        gap = 0 if split.gap is None else units.duration(split.gap, "split.gap")
        return cls(train, None if first is None else first - gap, evaluate, test)


class Stratifier:
    """Deals the rows of each class of a label out in turn, so that any run of them has each split's share.

    The k-th row of a class has the place frac(u + k / golden ratio), a sequence that fills [0, 1) as evenly as one can
    (its discrepancy is O(log n / n)); u is a hash of the file, the unit and the class.

    Args:
      seed: of the job.
      unit: names the file and the unit.
    """

    def __init__(self, seed: int, unit: str):
        self._seed, self._unit = seed, unit
        self._row_counts: dict[str | None, int] = {}

    def places(self, labels: pa.StringArray) -> np.ndarray:
        """Float64 [n] in [0, 1), of the next rows of the unit."""
        encoded = labels.dictionary_encode(null_encoding="encode")
        codes, drawn = encoded.indices.to_numpy(), np.empty(len(labels))
        for code, name in enumerate(encoded.dictionary.to_pylist()):
            rows = np.flatnonzero(codes == code)
            first = self._row_counts.get(name, 0)
            self._row_counts[name] = first + len(rows)
            start = seeded_hash(self._seed, "stratify", self._unit, name)
            drawn[rows] = (start + (first + np.arange(len(rows))) * _GOLDEN) % 1
        return drawn


def split_rows(
    rows: TableRows, name: str, split: Split, cuts: TimeCuts | None, stratifier: Stratifier | None = None
) -> np.ndarray:
    """int8 [n]: the place of each row's split among SPLITS, or NONE.

    By hash a row's split depends on the row alone, so that a table that grows moves none.

    Args:
      rows: of a file.
      name: of the file, the same wherever its folder is.
      split: of the job.
      cuts: with by: time.
      stratifier: of the unit, with `stratify`.
    """
    if stratifier is not None:
        assert rows.label is not None
        return places_by_fraction(stratifier.places(rows.label), split)
    if split.by == "time":
        assert rows.time is not None
        assert cuts is not None
        return _by_time(rows.time, cuts)
    if split.by == "column":
        assert rows.split is not None
        return places_by_value(rows.split, split)
    if split.by == "key":
        assert rows.key is not None
        return places_by_hash(hash_texts(rows.key, split.seed), split)
    (of_name,) = hash_texts(pa.array([name]), split.seed)
    return places_by_hash(hash_numbers(np.arange(rows.first, rows.first + len(rows)), of_name), split)


def _by_time(time: np.ndarray, cuts: TimeCuts) -> np.ndarray:
    places = np.zeros(len(time), np.int8)
    if cuts.train is not None:
        places[time < cuts.train] = NONE
    if cuts.train_end is not None:
        places[time >= cuts.train_end] = NONE
    if cuts.eval is not None:
        places[time >= cuts.eval] = 1
    if cuts.test is not None:
        places[time >= cuts.test] = 2
    return places
