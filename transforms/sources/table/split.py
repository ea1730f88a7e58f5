"""Which split each row of a table is in."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.transforms.sources.columns.time_units import TimeUnits
from beamfeed.transforms.sources.table.rows import TableRows
from beamfeed.transforms.statistics.hashes import hash_texts, mix

NONE = -1  # of a row that is not used


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
        cut = {
            key: None if value is None else units.instant(value, f"split.{key}")
            for key in ("train_from", "eval_from", "test_from")
            for value in [getattr(split, key)]
        }
        first = cut["test_from"] if cut["eval_from"] is None else cut["eval_from"]
        gap = 0 if split.gap is None else units.duration(split.gap, "split.gap")
        return cls(cut["train_from"], None if first is None else first - gap, cut["eval_from"], cut["test_from"])


def split_rows(rows: TableRows, name: str, split: Split, cuts: TimeCuts | None) -> np.ndarray:
    """int8 [n]: the place of each row's split among SPLITS, or NONE.

    By hash a row's split depends on the row alone, so that a table that grows moves none.

    Args:
      rows: of a file.
      name: of the file.
      split: of the job.
      cuts: with by: time.
    """
    if split.by == "time":
        assert rows.time is not None
        assert cuts is not None
        return _by_time(rows.time, cuts)
    if split.by == "column":
        assert rows.split is not None
        return _by_value(rows.split, split)
    if split.by == "key":
        assert rows.key is not None
        return _by_hash(hash_texts(rows.key, split.seed), split)
    (of_name,) = hash_texts(pa.array([name]), split.seed)
    places = np.arange(rows.first, rows.first + len(rows)).astype(np.uint64)
    return _by_hash(mix(places * np.uint64(0x9E3779B97F4A7C15) + of_name), split)


def _by_hash(hashes: np.ndarray, split: Split) -> np.ndarray:
    place = hashes.astype(np.float64) / 2.0**64
    train, evaluate = float(split.train), float(split.train) + float(split.eval)  # type: ignore[arg-type]
    if not split.test:  # fractions add up to 1 but for rounding; an empty split must get nothing of it
        evaluate = 2.0
        train = train if split.eval else 2.0
    return ((place >= train).astype(np.int8) + (place >= evaluate)).astype(np.int8)


def _by_time(time: np.ndarray, cuts: TimeCuts) -> np.ndarray:
    found = np.zeros(len(time), np.int8)
    if cuts.train is not None:
        found[time < cuts.train] = NONE
    if cuts.train_end is not None:
        found[time >= cuts.train_end] = NONE
    if cuts.eval is not None:
        found[time >= cuts.eval] = 1
    if cuts.test is not None:
        found[time >= cuts.test] = 2
    return found


def _by_value(values: pa.StringArray, split: Split) -> np.ndarray:
    found = np.full(len(values), NONE, np.int8)
    for place, name in enumerate(SPLITS):
        listed = pa.array(getattr(split, name), pa.string())
        found[pc.is_in(values, value_set=listed).to_numpy(zero_copy_only=False)] = place
    return found
