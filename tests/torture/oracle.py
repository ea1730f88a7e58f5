"""What must come out of a fleet, by loops as plain as possible. Imports nothing of the project.

The rules are those of docs/data_model.md and of the job file's descriptions, written down a second time.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from .fleet import Clock, Fleet, Part
from .rows import Row, fill_missing, resample

SPLITS = ("train", "eval", "test")
NAN = float("nan")


@dataclass(frozen=True)
class Rejected:
    """Something that must be set aside."""

    asset: str | None
    file: str | None  # a part of its path
    reason: str  # a regular expression


@dataclass(frozen=True)
class Window:
    """What a window holds."""

    first_time: int
    last_time: int
    values: np.ndarray  # float32 [length, features]
    label: float | None


@dataclass
class Expected:
    """What must come out.

    Attributes:
      exits: exit codes that are right.
      message: a regular expression of the line on stderr, where the exit code is not 0.
      windows: by split, then by asset and position.
      rejects: what must be set aside, and nothing else; and
      row_rejects: the rows of which this is true, in what goes on without them.
      rows_read: rows of the accepted assets; None where that says nothing.
      training: float32 [rows, features], what the statistics are of.
      assets: how many there are, those rejected included; None where that says nothing.
      scale: offset and divisor by asset, float32 [features] each; None is the fleet's.
    """

    exits: set[int] = field(default_factory=lambda: {0})
    message: str = ""
    windows: dict[str, dict[tuple[str, int], Window]] = field(default_factory=dict)
    rejects: list[Rejected] = field(default_factory=list)
    row_rejects: list[Rejected] = field(default_factory=list)
    rows_read: int | None = 0
    training: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    assets: int | None = 0
    features: list[str] = field(default_factory=list)


def split_by_hash(name: str, split: dict[str, Any]) -> str:
    """The split of an asset: a number in [0, 1) by a hash of seed and name, cut at the fractions."""
    text = f"{split['seed']}\x1fsplit\x1f{name}"
    place = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64
    if place < split["train"]:
        return "train"
    return "eval" if place < split["train"] + split["eval"] or not split["test"] else "test"


def ticks_of(duration: Any, clock: Clock) -> int:
    """A duration of the job file in whole ticks, none of which is more than it."""
    if isinstance(duration, str):
        number, unit = re.fullmatch(r"([\d.]+)(ms|s|m|h|d)", duration).groups()  # type: ignore[union-attr]
        return math.floor(Fraction(number) * {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}[unit])
    return math.floor(Fraction(str(duration)) * clock.tick)


def expect(fleet: Fleet) -> Expected:
    """What must come out of a fleet."""
    found = Expected(features=fleet.features)
    return found if expect_mistake(fleet, found) else _Oracle(fleet, found).run()


def expect_mistake(fleet: Fleet, found: Expected) -> bool:
    """Whether the job ends before rows matter; then the exit code and the words that are expected are set."""
    if fleet.mistake is not None:
        found.exits, found.message = {2}, fleet.mistake
    elif fleet.failure is not None:
        found.exits, found.message = {1}, fleet.failure
    return found.exits != {0}


class _Oracle:
    def __init__(self, fleet: Fleet, found: Expected):
        self.fleet, self.job, self.found = fleet, fleet.job, found
        self.clock = fleet.clock
        self.length, self.stride = self.job["windows"]["length"], self.job["windows"]["stride"]
        self.label = self.job.get("label")
        self.ahead = self.label.get("horizon", 0) if self.label else 0
        self.mixed = "column" in self.job["source"].get("asset", {})
        self.last: dict[str, Row] = {}  # of each asset, wherever splits cut it
        self.rows: dict[str, int] = {}  # how many each asset has, without repeats
        self.counted: dict[str, int] = {}  # rows of what is not rejected
        self.apart = False  # files are lost that may hold rows of any asset

    def run(self) -> Expected:
        """What must come out."""
        found = self.found
        series, broken = self._gather()
        rejected = {reject.asset: reject for reject in reversed(broken) if reject.asset is not None}
        found.rejects = [reject for reject in broken if reject.asset is None]
        names = sorted(series.keys() | rejected.keys())
        most = self.job["source"].get("max_assets")
        if most is not None:
            names = names[:most]
        elif self._fails_at_once(names):
            return found
        rejected = {name: rejected[name] for name in names if name in rejected}
        accepted: dict[str, dict[str, list[Row]]] = {}
        for name in names:
            answer = rejected.get(name) or self._asset(name, series[name])
            if isinstance(answer, Rejected):
                rejected[name] = answer
            else:
                self.counted[name] = self.rows[name]
            if isinstance(answer, dict) and any(answer.values()):  # else the user left all its rows out
                accepted[name] = answer
        self.used = set(accepted)
        # An asset with no window is a reject, before statistics are taken and the limit is checked.
        trains = set()
        for name in list(accepted):
            shapes = self._shape(name, accepted[name])
            if shapes.get("train"):
                trains.add(name)
            if not any(shapes.values()):
                rejected[name] = Rejected(name, None, r"has no \d+ rows|no row")
                del accepted[name]
                del self.counted[name]
        found.rejects += rejected.values()
        found.row_rejects = [
            Rejected(name, row.file, row.wrong)
            for name in names
            if name in self.counted
            for row in series[name]
            if row.wrong
        ]
        found.assets = len(accepted) + len(rejected)
        if self._too_many(len(accepted), len(rejected)):
            return found
        values = {row.split for rows in series.values() for row in rows if not row.wrong}
        if self._not_found(values) and not found.rejects:  # else they may be in what is set aside
            found.exits, found.message = {2}, "is not a value of"
            return found
        found.rows_read = sum(self.rows[name] for name in accepted)
        self._finish(accepted, trains)
        return found

    def _fails_at_once(self, names: list[str]) -> bool:
        """What ends the job before a row is looked at."""
        found, split = self.found, self.job["split"]
        if found.rejects and (self.label or {}).get("derive"):
            found.exits, found.message = {1}, "label.derive"  # the file may hold the last row of any asset
        if split["by"] == "asset" and names:
            got = {split_by_hash(name, split) for name in names}
            if empty := [name for name in SPLITS if split[name] and name not in got]:
                found.exits = found.exits - {0} | {2}
                found.message = "|".join(filter(None, [found.message, f"split.{empty[0]}"]))
        return found.exits != {0}

    def _not_found(self, values: set[str | None]) -> set[str]:
        """Values that the lists of a split name, and no row has."""
        split = self.job["split"]
        named = {value for name in SPLITS for value in split.get(name, [])} if split["by"] == "column" else set()
        return named - values

    def _too_many(self, accepted: int, rejected: int) -> bool:
        """Whether more is set aside than the limit allows, or nothing is left."""
        found, limit = self.found, self.job["limits"]["max_rejected_fraction"]
        files = sum(part.listed for part in self.fleet.parts)
        nameless = len({reject.file for reject in found.rejects if reject.asset is None})
        of_rows = len(found.row_rejects) / max(1, sum(self.counted[name] for name in self._with_rows(found)))
        if accepted and max(rejected / (accepted + rejected), nameless / files, of_rows) <= limit:
            return False
        found.exits, found.message = {1}, "rejected|none of the|no asset"
        if not accepted:
            found.exits = {1, 2}  # where no file can be read, that is told before the job begins
        return True

    def _with_rows(self, found: Expected) -> set[str]:
        """The assets whose rows are among those that rows set aside are compared with."""
        spoilt = {reject.asset for reject in found.row_rejects}
        return {name for name in self.counted if name in self.used or name in spoilt}

    # From files to assets

    def _gather(self) -> tuple[dict[str, list[Row]], list[Rejected]]:
        """Rows of each asset in the order in which they are read, and what cannot be read."""
        pieces: dict[str, list[tuple[int, str, list[Row]]]] = defaultdict(list)
        broken: list[Rejected] = []
        empty: dict[str, str] = {}
        listed = sorted((part for part in self.fleet.parts if part.listed), key=lambda part: part.path)
        for part in listed:
            path_asset = self._asset_of(part)
            if part.broken is not None:
                broken.append(Rejected(path_asset, part.path, part.broken))
                continue
            if not len(part):
                empty[path_asset or ""] = part.path
                continue
            if len(part.spoilt) == len(part) and not any(one.timed for one in part.spoilt.values()):
                broken.append(Rejected(path_asset, part.path, "."))  # of no row the time is known
                continue
            rows = self._rows(part)
            for name in dict.fromkeys(row.asset for row in rows):
                own = [row for row in rows if row.asset == name]
                timed = [row.time for row in own if row.timed]
                pieces[name].append((min(timed, default=0), part.path, own))
        for name, path in empty.items():
            if name and name not in pieces:
                broken.append(Rejected(name, path, "holds no rows"))
        broken += [Rejected(name, None, reason) for name, reason in self.fleet.rejected.items()]
        series = {}
        for name, found in pieces.items():
            found.sort(key=lambda piece: piece[:2])
            for number, (_, _, rows) in enumerate(found):
                for row in rows:
                    row.part = number
            series[name] = [row for _, _, rows in found for row in rows]
        # A file that is lost may hold rows of any asset, between any two of its files.
        self.apart = any(reject.asset is None for reject in broken)
        return series, broken

    def _asset_of(self, part: Part) -> str | None:
        """The asset that a path names; None where only the rows tell."""
        asset = self.job["source"].get("asset", {})
        if "column" in asset:
            folder = re.search(rf"(?:^|/){asset['column']}=([^/]+)/", part.path)
            return folder[1] if folder else None
        if "pattern" in asset:
            return re.search(asset["pattern"], part.path)["asset"]  # type: ignore[index]
        return SUFFIX.sub("", part.path.rpartition("/")[2])

    def _rows(self, part: Part) -> list[Row]:
        split = self.job["split"]
        told = None
        if split["by"] == "column" and self.fleet.plan.split == "path":
            told = re.search(self.job["source"]["asset"]["pattern"], part.path)["site"]  # type: ignore[index]
        column = (self.label or {}).get("column")
        name = self._asset_of(part)
        rows = []
        for i in range(len(part)):
            value = told or (part.extra["phase"][i] if split["by"] == "column" else None)
            label = part.extra[column][i] if column else None
            values = np.where(np.isfinite(part.values[i]), part.values[i], np.float32(NAN))
            row = Row(name or part.asset[i], int(part.time[i]), values, self._number(label), value, file=part.path)
            if spoilt := part.spoilt.get(i):
                row = replace(row, values=np.full_like(values, NAN), label=NAN, wrong=spoilt.reason, timed=spoilt.timed)
            rows.append(row)
        for i, row in enumerate(rows):  # one without a time stays behind the row before it
            if not row.timed:
                first = next(one.time for one in rows if one.timed)
                row.time = rows[i - 1].time if i else first
        return rows

    def _number(self, label: Any) -> float:
        """A label of a row as a number; NaN is missing."""
        if label is None:
            return NAN
        if isinstance(label, str):
            names = self.label["classes"]  # type: ignore[index]
            return float(names.index(label)) if label in names else NAN
        with np.errstate(over="ignore"):
            number = float(np.float32(label))
        return number if math.isfinite(number) else NAN

    # One asset

    def _asset(self, name: str, rows: list[Row]) -> dict[str, list[Row]] | Rejected:
        """Its rows by split, each marked where it does not continue the one before; or why it is set aside."""
        resampled = self.job["prepare"].get("resample")
        if not resampled and len(rows) < self.length + self.ahead:
            return Rejected(name, None, "rows")
        if self.fleet.plan.split == "path":
            kept = self._by_path(name, rows)
            if isinstance(kept, Rejected) or not kept:
                return kept or {}
            rows = kept
        right = [row for row in rows if not row.wrong]
        if not right:
            return Rejected(name, None, "no row can be used")
        disordered = any(after.time < before.time for before, after in pairwise(right))
        if disordered:
            if self.job["limits"].get("sort_memory_mb", 512) == 0:
                return Rejected(name, None, "sort")
            rows = sorted(rows, key=lambda row: row.time)
        merged = self._without_repeats(name, rows, disordered)
        if isinstance(merged, Rejected):
            return merged
        rows = merged
        for place, row in enumerate(rows):
            row.position = place
        self.last[name], self.rows[name] = rows[-1], len(rows)
        self._range(rows)
        where = [None if row.wrong else to for row, to in zip(rows, self._splits(name, rows), strict=True)]
        max_gap = self.job["prepare"].get("max_gap")
        longest = ticks_of(max_gap, self.clock) if max_gap is not None else None
        found: dict[str, list[Row]] = {split: [] for split in SPLITS}
        for i, row in enumerate(rows):
            row.gap = (
                i == 0
                or where[i - 1] != where[i]
                or (longest is not None and row.time - rows[i - 1].time > longest)
                or (self.apart and row.part != rows[i - 1].part)
            )
            if where[i] is not None:
                found[where[i]].append(row)
        return found

    def _by_path(self, name: str, rows: list[Row]) -> list[Row] | Rejected:
        """With split.column of the path: splits must not overlap in time; files of no split part those around them."""
        lists = {value: split for split in SPLITS for value in self.job["split"].get(split, [])}
        spans: dict[int, tuple[int, int, str | None]] = {}
        for row in rows:
            first, last, _ = spans.get(row.part, (row.time, row.time, None))
            spans[row.part] = min(first, row.time), max(last, row.time), lists.get(row.split)  # type: ignore[arg-type]
        used = [span for span in spans.values() if span[2] is not None]
        for one in used:
            for other in used:
                if one[2] != other[2] and one[0] <= other[1] and other[0] <= one[1]:
                    return Rejected(name, None, "overlap")
        out = {part for part, span in spans.items() if span[2] is None
               and any(span[0] <= one[1] and one[0] <= span[1] for one in used)}  # fmt: skip
        return [row for row in rows if row.part not in out]

    def _range(self, rows: list[Row]) -> None:
        """prepare.range: a value outside of it is missing."""
        for name, (low, high) in self.job["prepare"].get("range", {}).items():
            i = self.fleet.features.index(name)
            for row in rows:
                if (low is not None and row.values[i] < low) or (high is not None and row.values[i] > high):
                    row.values[i] = NAN

    def _without_repeats(self, name: str, rows: list[Row], disordered: bool) -> list[Row] | Rejected:
        """prepare.duplicates: what becomes of rows of one time; those that are set aside stay behind the others."""
        right = [row for row in rows if not row.wrong]
        if len({row.time for row in right}) == len(right) and not disordered:
            return rows
        how = self.job["prepare"].get("duplicates", "first")
        if how == "reject":
            if len({row.time for row in right}) == len(right):
                return rows
            return Rejected(name, None, "time of another row")
        if self.job["prepare"].get("resample"):
            return rows
        by_time: dict[int, list[Row]] = {}
        for row in rows:
            by_time.setdefault(row.time, []).append(row)
        kept = []
        for all_of_time in by_time.values():
            wrong = [row for row in all_of_time if row.wrong]
            same = [row for row in all_of_time if not row.wrong]
            if not same:
                kept += wrong
                continue
            row = same[-1] if how == "last" else same[0]
            if how == "mean":
                with np.errstate(all="ignore"):
                    for i in range(len(row.values)):
                        there = [float(one.values[i]) for one in same if math.isfinite(one.values[i])]
                        row.values[i] = np.float32(sum(there) / len(there)) if there else NAN
            kept += [row, *wrong]
        return kept

    def _splits(self, name: str, rows: list[Row]) -> list[str | None]:
        """The split of each row."""
        split = self.job["split"]
        if split["by"] == "asset":
            return [split_by_hash(name, split)] * len(rows)
        if split["by"] == "column":
            lists = {value: name for name in SPLITS for value in split.get(name, [])}
            return [lists.get(row.split) for row in rows]
        if split["by"] == "rows":
            cuts = [split["train"], split["train"] + split["eval"]]
            if isinstance(split["train"], float):  # of the rows as they are written
                cuts = _shares(len(rows), split)
            return [_part(row.position, cuts) for row in rows]
        if "eval_from" in split:
            cuts = [split[key] for key in ("eval_from", "test_from")]
            if isinstance(cuts[0], str):
                cuts = [int(np.datetime64(cut).astype("datetime64[ns]").astype(np.int64)) for cut in cuts]
        else:
            first, last = min(row.time for row in rows), max(row.time for row in rows)
            cuts = [first + cut for cut in _shares(last - first + 1, split)]
        if self.job["prepare"].get("resample"):
            every = ticks_of(self.job["prepare"]["resample"]["every"], self.clock)
            cuts = [-(-cut // every) * every for cut in cuts]
        return [_part(row.time, cuts) for row in rows]

    # From rows to windows

    def _shape(self, name: str, by_split: dict[str, list[Row]]) -> dict[str, list[tuple[int, list[Row], float | None]]]:
        """By split the windows of an asset: position, its rows (not scaled, but filled), label."""
        return {split: self._windows(rows, self.last[name]) for split, rows in by_split.items()}

    def _windows(self, rows: list[Row], last: Row) -> list[tuple[int, list[Row], float | None]]:
        prepare = self.job["prepare"]
        rows = [replace(row, values=row.values.copy()) for row in rows]
        every = None
        if prepare.get("resample"):
            every = ticks_of(prepare["resample"]["every"], self.clock)
            rows = resample(rows, every, prepare["resample"]["how"], prepare["missing"])
        rows = fill_missing(rows, prepare["missing"])
        end = last.position if every is None else last.time // every  # of the asset's last row, or of its last step
        found = []
        for i, row in enumerate(rows):
            if row.position % self.stride:
                continue
            own = rows[i : i + self.length + self.ahead]
            follow = all(after.position == before.position + 1 and not after.gap for before, after in pairwise(own))
            if len(own) < self.length + self.ahead or not follow or any(np.isnan(one.values).any() for one in own):
                continue
            label = self._label(own, end)
            if label is None or not math.isnan(label):
                found.append((row.position, own[: self.length], label))
        return found

    def _label(self, own: list[Row], end: int) -> float | None:
        label = self.label
        if not label:
            return None
        if label.get("derive"):
            value = float(end - own[self.length - 1].position)
        elif label.get("at") == "any":
            there = [row.label for row in own[: self.length] if not math.isnan(row.label)]
            value = max(there) if there else NAN
        else:
            value = own[self.length - 1 + self.ahead].label
        return min(value, label["cap"]) if "cap" in label and not math.isnan(value) else value

    # The whole

    def _finish(self, accepted: dict[str, dict[str, list[Row]]], trains: set[str]) -> None:
        """Statistics, scaling, and the windows of all."""
        found, scale, features = self.found, self.job["prepare"]["scale"], self.fleet.features

        def values(rows: list[Row]) -> np.ndarray:
            return np.array([row.values for row in rows], np.float32).reshape(-1, len(features))

        # Training rows are those of assets with a window in train.
        found.training = values([row for name in accepted if name in trains for row in accepted[name]["train"]])
        fleet = scale_of(found.training, scale["how"])
        # Of an asset that is in one split as a whole, all rows, wherever it is.
        whole = self.job["split"]["by"] == "asset" or self.fleet.plan.split == "path"

        def own_scale(by_split: dict[str, list[Row]]) -> tuple[np.ndarray, np.ndarray]:
            own = [row for rows in by_split.values() for row in rows]
            own = own if whole and sum(map(bool, by_split.values())) == 1 else by_split["train"]
            return scale_of(values(own), scale["how"])

        usual = np.copy(fleet[1])
        trained = [own_scale(accepted[name])[1] for name in accepted if name in trains]
        for i in range(len(features) if trained else 0):
            if there := sorted(float(own[i]) for own in trained if own[i] > 0):
                usual[i] = 1.5 * 2.0 ** math.floor(math.log2(there[(len(there) - 1) // 2]))
        for split in SPLITS:
            found.windows[split] = {}
        for name, by_split in accepted.items():
            offset, divisor = fleet
            if scale["per"] == "asset":
                own = [row for rows in by_split.values() for row in rows]
                own = own if whole and sum(map(bool, by_split.values())) == 1 else by_split["train"]
                offset, divisor = own_scale(by_split)
                lowest = np.float32(scale.get("min_divisor", 0.01)) * usual
                divisor = np.where(divisor < lowest, np.where(divisor > 0, lowest, fleet[1]), divisor)
                if scale["how"] != "none":  # a feature without a value has the fleet's scale
                    nothing = np.isnan(values(own)).all(axis=0)
                    offset = np.where(nothing, fleet[0], offset)
                    divisor = np.where(nothing, fleet[1], divisor)
            divisor = np.where(divisor > 0, divisor, np.float32(1))
            clip = scale.get("clip", np.inf)
            for rows in by_split.values():
                for row in rows:
                    scaled = ((row.values - offset) / divisor).astype(np.float32)
                    row.values = np.clip(scaled, -np.float32(clip), np.float32(clip))
            for split, windows in self._shape(name, by_split).items():
                for position, own, label in windows:
                    held = np.array([row.values for row in own], np.float32)
                    window = Window(own[0].time, own[-1].time, held, label)
                    found.windows[split][name, position] = window
        if not found.windows["train"]:
            found.exits, found.message = {1}, "the train split has no window"
            return
        self._check_labels()

    def _check_labels(self) -> None:
        """A target that is constant over all training windows ends the job, and so does a class without a window."""
        if not self.label:
            return
        seen = {np.float32(window.label) for window in self.found.windows["train"].values()}
        if self.label.get("classes") and len(seen) < len(self.label["classes"]):
            self.found.exits, self.found.message = {1}, "class"
        elif len(seen) < 2:
            self.found.exits, self.found.message = {1}, "every training window|class"


def _shares(span: int, split: dict[str, Any]) -> list[int]:
    """Where eval and test begin in something so long; the end, for what gets nothing."""
    train, evaluate = Fraction(str(split["train"])), Fraction(str(split["eval"]))
    to_eval = round(span * train) if split["eval"] or split["test"] else span
    return [to_eval, round(span * (train + evaluate)) if split["test"] else span]


def _part(place: int, cuts: list[int]) -> str:
    return "train" if place < cuts[0] else "eval" if place < cuts[1] else "test"


SUFFIX = re.compile(
    r"\.(parquet|parq|pq|feather|arrow|ipc|(csv|tsv|txt|jsonl|ndjson|json)(\.(gz|bz2|zst))?)$", re.IGNORECASE
)


def scale_of(values: np.ndarray, how: str) -> tuple[np.ndarray, np.ndarray]:
    """Offset and divisor, float32 [features] each, of rows [n, features]; the divisor of what is constant is 0."""
    features = values.shape[1]
    offset, divisor = np.zeros(features), np.ones(features)
    for i in range(features if how != "none" else 0):
        there = values[np.isfinite(values[:, i]), i].astype(np.float64)
        divisor[i] = 0
        if not len(there):
            continue
        low, high = there.min(), there.max()
        if how == "minmax":
            offset[i], spreads = low, [high - low]
        elif how == "standard":
            offset[i], spreads = there.mean(), [there.std()]
        else:
            p05, p25, offset[i], p75, p95 = np.quantile(there, [0.05, 0.25, 0.5, 0.75, 0.95])
            spreads = [p75 - p25, p95 - p05, there.std()]
        if low == high:
            offset[i] = low
        # What float32 cannot tell apart is constant.
        divisor[i] = next((spread for spread in spreads if spread > abs(offset[i]) * 2.0**-23), 0)
    return offset.astype(np.float32), divisor.astype(np.float32)
