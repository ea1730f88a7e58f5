"""Clean fleets: what the assets hold, how their rows lie in files, and the job on them, all drawn from a seed.

A damage changes this picture before it is written (rows that are missing, a time
that goes back), or the bytes that are written (a file cut in two). The oracle sees
the picture, never the files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from random import Random
from typing import Any

import numpy as np

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Clock:
    """A way to write times down.

    Attributes:
      arrow: Arrow's type of the column in Parquet.
      tick: how many ticks (see docs/data_model.md) one unit of the column is.
      step: ticks from one row to the next where rows are regular; a multiple of what the column can tell.
      start: ticks of the first row, about.
      unit: source.time.unit of the job.
      every: a duration of one step, as the job file writes it; `{n}` is how many steps.
    """

    arrow: str
    tick: int
    step: int
    start: int
    unit: str | None
    seconds: float | None  # of a step; None where durations are plain numbers

    def duration(self, steps: int) -> int | float | str:
        """A duration of some steps, as the job file writes it."""
        if self.seconds is None:
            number = steps * self.step / self.tick
            return int(number) if self.arrow.startswith("int") else number
        return f"{steps * self.seconds:g}s"


_2024 = 1_704_067_200 * SECOND
CLOCKS = {
    "integer": Clock("int64", 1, 1, 100, None, None),
    "int32": Clock("int32", 1, 10, 0, None, None),
    "float": Clock("float64", SECOND, SECOND // 2, 10 * SECOND, None, None),
    "timestamp_s": Clock("timestamp[s]", SECOND, SECOND, _2024, None, 1),
    "timestamp_ms": Clock("timestamp[ms]", SECOND // 1000, SECOND // 4, _2024, None, 0.25),
    "timestamp_us": Clock("timestamp[us]", 1000, SECOND // 2, _2024, None, 0.5),
    "timestamp_ns": Clock("timestamp[ns]", 1, SECOND // 8, _2024, None, 0.125),
    "epoch_s": Clock("int64", SECOND, SECOND, _2024, "s", 1),
    "epoch_ms": Clock("int64", SECOND // 1000, SECOND // 2, _2024, "ms", 0.5),
    "epoch_float": Clock("float64", SECOND, SECOND // 10, _2024, "s", 0.1),
    "date": Clock("date32[day]", 86_400 * SECOND, 86_400 * SECOND, _2024, None, 86_400),
}


@dataclass(frozen=True)
class Plan:
    """What a fleet is like. Each field has a plain value as its default, to which a failure is reduced."""

    seed: int
    damages: tuple[str, ...] = ()
    format: str = "parquet"
    naming: str = "stem"  # stem, pattern, or column
    odd_names: bool = False
    assets: int = 5
    files: int = 1  # of each asset; with naming: column, of the fleet
    features: int = 2
    rows: int = 60  # about
    row_group: int | None = None
    interleaved: bool = False  # with naming: column, rows of all assets in order of time
    clock: str = "integer"
    jitter: bool = False  # steps of 1 to 3
    holes: bool = False  # a few long steps
    missing: float = 0.0  # share of missing values
    fill: str = "forward"
    limit: int = 2
    then: str = "drop"
    resample: str | None = None
    max_gap: bool = False
    scale: str = "none"
    per: str = "fleet"
    clip: float | None = None
    min_divisor: float | None = None
    split: str = "asset"  # asset, time, rows' column, path
    label: str | None = None
    length: int = 8
    stride: int = 2
    records: str = "segments"
    compression: str = "none"
    shards: int | None = None
    workers: int = 1
    units: bool = False  # assets are cut into units of a few rows
    kind: str = "timeseries"
    weighted: bool = False  # tables and arrays: rows have weights
    process: bool = False  # run as a command, not in this process


@dataclass
class Spoilt:
    """A row that cannot be used: it is set aside, and keeps its place.

    Attributes:
      reason: what the reject says, a regular expression.
      timed: whether its time can be read all the same.
      write: what becomes of its cells in a text: the line.
    """

    reason: str
    timed: bool = False
    write: Callable[[list[str]], str] | None = None


@dataclass(eq=False)
class Part:
    """A file of the fleet: n rows, and how they are written.

    Attributes:
      path: below the fleet's folder.
      asset: the asset of each row.
      time: int64 [n] ticks.
      values: float32 [n, features]; NaN is missing.
      extra: other columns by name, n values each.
      form: how it is written; see write.py.
      listed: whether preprocessing is to see it at all.
      broken: what the reason says (a regular expression) if the whole file cannot be used.
      place: what the reject's place is, if it is known.
      mend: changes of the written bytes.
      spoilt: rows that must be set aside.
    """

    path: str
    asset: list[str]
    time: np.ndarray
    values: np.ndarray
    extra: dict[str, list[Any]] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)
    listed: bool = True
    broken: str | None = None
    place: str | None = None
    mend: list[Callable[[bytes], bytes]] = field(default_factory=list)
    spoilt: dict[int, Spoilt] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.time)

    def take(self, rows: Any) -> None:
        """Keeps these rows, in this order."""
        rows = np.arange(len(self))[rows]
        self.spoilt = {new: self.spoilt[old] for new, old in enumerate(rows.tolist()) if old in self.spoilt}
        self.asset = [self.asset[i] for i in rows]
        self.time, self.values = self.time[rows], self.values[rows]
        self.extra = {name: [column[i] for i in rows] for name, column in self.extra.items()}


@dataclass
class Fleet:
    """Files, the job on them, and what is known beyond the rows.

    Attributes:
      plan: what it was made from.
      parts: its files.
      job: the job file, without paths.
      mistake: what the line of exit code 2 says, if the job is one that cannot be done.
      rejected: assets that must be rejected for what the rows do not show, and why.
      before: what is called with the folder when all is written; `after` when the job has ended.
      variants: other pictures that are as right, such as that a file is rejected after all.
      sizes: constants of the project to change, by name.
      form: of arrays, what their files are.
    """

    plan: Plan
    parts: list[Part]
    job: dict[str, Any]
    mistake: str | None = None
    failure: str | None = None
    rejected: dict[str, str] = field(default_factory=dict)
    before: list[Callable[[str], None]] = field(default_factory=list)
    after: list[Callable[[str], None]] = field(default_factory=list)
    variants: list[Callable[[Fleet], None]] = field(default_factory=list)
    during: list[Callable[[str], None]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    form: str = ""

    @property
    def clock(self) -> Clock:
        """Its way to write times."""
        return CLOCKS[self.plan.clock]

    @property
    def features(self) -> list[str]:
        """The names of the columns of `Part.values`."""
        return [f"x{i}" for i in range(self.plan.features)]

    def names(self) -> list[str]:
        """All assets."""
        return sorted({name for part in self.parts for name in part.asset})


def draw_plan(seed: int, damages: tuple[str, ...], wants: dict[str, Any], kind: str = "timeseries") -> Plan:
    """A plan at random; about half of its fields are plain.

    Args:
      seed: decides everything.
      damages: names of what will be done to the fleet.
      wants: fields that those need, by name: a value, or a list to choose from.
      kind: of source.
    """
    chance = Random(f"plan {seed}")

    def some(plain: Any, others: list[Any], share: float = 0.5) -> Any:
        return chance.choice(others) if chance.random() < share else plain

    found: dict[str, Any] = {
        "format": some("parquet", ["csv", "csv", "csv.gz"]),
        "naming": some("stem", ["pattern", "column"]),
        "odd_names": some(False, [True], 0.2),
        "assets": chance.randint(6, 9),  # so that what is done to one or two files is done to few of them
        "files": chance.randint(1, 4),
        "features": chance.randint(1, 4),
        "rows": chance.choice([40, 60, 90, 140]),
        "row_group": some(None, [7, 16, 33]),
        "interleaved": some(False, [True]),
        "clock": some("integer", list(CLOCKS)),
        "jitter": some(False, [True], 0.3),
        "holes": some(False, [True], 0.3),
        "missing": some(0.0, [0.02, 0.2], 0.4),
        "fill": some("forward", ["linear", "constant", "drop"]),
        "limit": chance.choice([1, 2, 3, 7]),
        "then": some("drop", ["constant"], 0.25),
        "resample": some(None, ["mean", "first", "last", "min", "max"], 0.3),
        "max_gap": some(False, [True], 0.4),
        "scale": some("none", ["standard", "minmax"], 0.3),
        "per": some("fleet", ["asset"], 0.4),
        "split": some("asset", ["time", "column", "path"], 0.5),
        "label": some(None, ["end", "any", "horizon", "remaining_life", "classes"], 0.25),
        "length": chance.choice([1, 2, 5, 8, 8, 12]),
        "stride": chance.choice([1, 2, 3, 8, 12]),
        "records": some("segments", ["windows"], 0.2),
        "compression": some("none", ["gzip"], 0.15),
        "shards": some(None, [1, 3], 0.3),
        "workers": some(1, [2], 0.1),
        "units": some(False, [True], 0.4),
    }
    other = Random(f"scale {seed}")
    if found["scale"] != "none" and other.random() < 0.4:
        found["scale"] = "robust"
    found["clip"] = other.choice([None, None, None, 0.75, 2.0])
    found["min_divisor"] = other.choice([None, None, None, 0.0, 0.5, 1.0])
    found["weighted"] = kind != "timeseries" and other.random() < 0.4
    for name, want in wants.items():
        found[name] = chance.choice(want) if isinstance(want, list) else want
    return Plan(seed, damages, kind=kind, **_consistent(found, wants))


def _consistent(found: dict[str, Any], wants: dict[str, Any]) -> dict[str, Any]:
    """Fields that do not go together, made to."""
    if found["naming"] == "stem":
        found["files"] = 1
    if found["units"] and "rows" not in wants:  # enough for several of the smallest
        found["rows"] = 300
    if found["units"] and found["format"] == "parquet" and "row_group" not in wants and found["row_group"] is None:
        found["row_group"] = 25
    if found["naming"] == "column" and "files" not in wants:
        found["files"] += 3
    if found["split"] == "path" and "naming" in wants and "split" not in wants:
        found["split"] = "asset"
    if found["split"] == "path":
        found["naming"] = "pattern"
    if found["format"] != "parquet":
        found["row_group"] = None
        if found["clock"] == "int32":
            found["clock"] = "integer"
    return found


def plain_value(name: str) -> Any:
    """What a field of a plan is where nothing is special."""
    return next(one.default for one in fields(Plan) if one.name == name)


ODD = ["m 1", "m.2", "007", "mä3", "m-4", "M5", "m_6", "m(7)", "m+8", "1e3"]
SITES = ["north", "south", "east"]
PHASES = ["run", "warm", "cool", "off"]


def make_fleet(plan: Plan) -> Fleet:
    """The clean fleet of a plan."""
    rng = np.random.default_rng([plan.seed, 1])
    clock = CLOCKS[plan.clock]
    names = ODD[: plan.assets] if plan.odd_names else [f"m{i}" for i in range(plan.assets)]
    series = {name: _series(plan, clock, rng, i) for i, name in enumerate(names)}
    parts = _mixed(plan, series) if plan.naming == "column" else _by_path(plan, series)
    for part in parts:
        part.form |= {"format": plan.format, "row_group": plan.row_group}
    fleet = Fleet(plan, parts, {})
    fleet.job = _job(plan, clock, names)
    if plan.units:
        fleet.sizes |= _sizes(plan)
    return fleet


def _sizes(plan: Plan) -> dict[str, int]:
    """Constants of the project, so small that a fleet of a few hundred rows is divided as one of terabytes is."""
    row, chance = 4 * plan.features, Random(f"sizes {plan.seed}")
    always = {"UNIT_BYTES": 50 * row, "BLOCK_BYTES": 500, "SEGMENT_BYTES": 1, "MAX_SEGMENT_BYTES": 16 * row}
    reading = {"BATCH_BYTES": 20 * (row + 20), "RUN_BYTES": 3000, "DECODE_BYTES": 1, "_SLAB": 1}
    return always | {name: size for name, size in reading.items() if chance.random() < 0.5}


def _series(plan: Plan, clock: Clock, rng: np.random.Generator, number: int) -> Part:
    rows = int(plan.rows * rng.uniform(0.6, 1.4))
    steps = rng.integers(1, 4, rows) if plan.jitter else np.ones(rows, np.int64)
    if plan.holes:
        steps[rng.choice(rows, 3, replace=False)] = rng.integers(10, 40, 3)
    time = clock.start + clock.step * (int(rng.integers(0, 50)) + np.cumsum(steps))
    values = rng.normal(0, 4, (rows, plan.features)) + 3 * np.arange(plan.features) + number
    values = (np.round(values * 8) / 8).astype(np.float32)
    for _ in range(int(plan.missing * rows)):  # runs of them
        at, length = rng.integers(0, rows), rng.integers(1, 5)
        values[at : at + length, rng.integers(0, plan.features)] = np.nan
    phase = np.repeat(rng.permutation(PHASES), -(-rows // 4))[:rows]
    state = rng.choice(["ok", "worn", "broken"], rows)
    load = (np.round(rng.normal(0, 4, rows) * 8) / 8).astype(np.float32)
    load[rng.random(rows) < plan.missing] = np.nan
    extra = {"phase": phase.tolist(), "state": state.tolist(), "load": load.tolist()}
    return Part("", [""] * rows, time, values, extra)


def _by_path(plan: Plan, series: dict[str, Part]) -> list[Part]:
    parts = []
    for i, (name, whole) in enumerate(series.items()):
        whole.asset = [name] * len(whole)
        for k, rows in enumerate(np.array_split(np.arange(len(whole)), plan.files)):
            path = f"{name}.{plan.format}"
            if plan.naming == "pattern":
                path = f"{SITES[min(i, 2)] if i < 3 else SITES[i % 3]}/{name}/part-{k}.{plan.format}"
            part = Part(path, whole.asset, whole.time, whole.values, whole.extra)
            part.take(rows)
            parts.append(part)
    return parts


def _mixed(plan: Plan, series: dict[str, Part]) -> list[Part]:
    """Files of some hours each that hold the rows of every asset."""
    for name, one in series.items():
        one.asset = [name] * len(one)
    times = np.concatenate([one.time for one in series.values()])
    values = np.concatenate([one.values for one in series.values()])
    assets = [name for one in series.values() for name in one.asset]
    extra = {key: [v for one in series.values() for v in one.extra[key]] for key in ("phase", "state", "load")}
    cuts = np.quantile(times, np.arange(1, plan.files) / plan.files) if plan.files > 1 else []
    day = np.searchsorted(cuts, times, side="right")
    parts = []
    for k in range(plan.files):
        part = Part(f"day-{k}.{plan.format}", assets, times, values, extra)
        rows = np.flatnonzero(day == k)
        part.take(rows[np.argsort(times[rows], kind="stable")] if plan.interleaved else rows)
        if len(part):
            parts.append(part)
    return parts


def _scale(plan: Plan) -> dict[str, Any]:
    scale: dict[str, Any] = {"how": plan.scale, "per": plan.per}
    if plan.clip is not None and plan.scale != "none":
        scale["clip"] = plan.clip
    if plan.min_divisor is not None:
        scale["min_divisor"] = plan.min_divisor
    return scale


def _job(plan: Plan, clock: Clock, names: list[str]) -> dict[str, Any]:
    source: dict[str, Any] = {"kind": "timeseries", "time": {"column": "t"}, "features": ["x*"]}
    if clock.unit:
        source["time"]["unit"] = clock.unit
    if plan.naming == "column":
        source["asset"] = {"column": "machine"}
    elif plan.naming == "pattern":
        source["asset"] = {"from": "path", "pattern": r"(?P<site>north|south|east)/(?P<asset>[^/]+)/"}
    prepare: dict[str, Any] = {
        "scale": _scale(plan),
        "missing": {"fill": plan.fill, "limit": plan.limit, "then": plan.then, "value": 0.5},
    }
    if plan.resample:
        prepare["resample"] = {"every": clock.duration(3), "how": plan.resample}
    if plan.max_gap:
        prepare["max_gap"] = clock.duration(4)
    output: dict[str, Any] = {"records": plan.records, "compression": plan.compression}
    if plan.shards:
        output["shards"] = plan.shards
    job = {
        "name": "torture",
        "source": source,
        "prepare": prepare,
        "windows": {"length": plan.length, "stride": plan.stride},
        "split": _split(plan, names),
        "output": output,
        "limits": {"max_rejected_fraction": 0.5},
        "launch": {"preprocess": {"workers": plan.workers}},
    }
    if plan.label:
        job["label"] = LABELS[plan.label]
    return job


LABELS: dict[str, dict[str, Any]] = {
    "end": {"column": "load"},
    "any": {"column": "load", "at": "any", "cap": 3},
    "horizon": {"column": "load", "at": "horizon", "horizon": 3},
    "remaining_life": {"derive": "remaining_life"},
    "classes": {"column": "state", "classes": ["ok", "worn", "broken"]},
}


def _split(plan: Plan, names: list[str]) -> dict[str, Any]:
    if plan.split == "time":
        return {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}
    if plan.split == "column":
        return {"by": "column", "column": "phase", "train": ["run", "off"], "eval": ["warm"]}
    if plan.split == "path":
        return {"by": "column", "column": "site", "train": ["north"], "eval": ["south"], "test": ["east"]}
    # A seed with which each split has an asset, and training more than one.
    from .oracle import split_by_hash

    for seed in range(1000):
        split = {"by": "asset", "train": 0.5, "eval": 0.25, "test": 0.25, "seed": seed}
        found = [split_by_hash(name, split) for name in names]
        if {"train", "eval", "test"} <= set(found) and found.count("train") > 1:
            return split
    raise AssertionError("no seed gives each split an asset")
