"""Damages of values: missing, impossible, constant, very large; assets that are too short or give no window."""

from random import Random

import numpy as np
import pyarrow as pa

from ..fleet import Fleet
from .kind import ROWS, damage, some_feature, some_part, with_text, with_type


@damage(kinds=ROWS)
def nothing_at_all(fleet: Fleet, chance: Random) -> None:
    """A clean fleet: every row comes out."""


@damage(naming="column", files=1, alone=True)
def one_file_of_all_machines(fleet: Fleet, chance: Random) -> None:
    """A single file holds the rows of every asset."""


@damage(kinds=ROWS)
def run_of_missing_values(fleet: Fleet, chance: Random) -> None:
    """A run of missing values in one file: filled as the job says, or the windows end there."""
    part, (i, _) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    at = chance.randrange(len(part))
    part.values[at : at + chance.randint(2, 30), i] = np.nan


@damage()
def missing_at_both_ends(fleet: Fleet, chance: Random) -> None:
    """An asset's first and last values are missing: nothing is filled from outside of the asset."""
    part, (i, _) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    part.values[: chance.randint(1, 5), i] = np.nan
    part.values[-chance.randint(1, 5) :, i] = np.nan


@damage(format="parquet", kinds=ROWS)
def nan_and_null(fleet: Fleet, chance: Random) -> None:
    """NaN in some files, null in others: both are missing."""
    for part in fleet.parts:
        part.form["nulls"] = chance.choice(["null", "nan"])
        part.values[chance.randrange(len(part)), 0] = np.nan


@damage(kinds=ROWS)
def infinities(fleet: Fleet, chance: Random) -> None:
    """Infinity is a missing value."""
    part, (i, _) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    for _ in range(chance.randint(1, 4)):
        part.values[chance.randrange(len(part)), i] = chance.choice([np.inf, -np.inf])


@damage()
def column_missing_in_one_asset(fleet: Fleet, chance: Random) -> None:
    """A sensor that says nothing in all of one asset: filled with the constant, or the asset is a reject."""
    name, (i, _) = chance.choice(fleet.names()), some_feature(fleet, chance)
    for part in fleet.parts:
        part.values[[asset == name for asset in part.asset], i] = np.nan


@damage()
def column_missing_everywhere(fleet: Fleet, chance: Random) -> None:
    """A sensor that says nothing in any asset: filled with the constant, or the job fails in one line."""
    i, name = some_feature(fleet, chance)
    for part in fleet.parts:
        part.values[:, i] = np.nan
        with_text(part, name, lambda column: [""] * len(column))


@damage(kinds=ROWS)
def constant_column(fleet: Fleet, chance: Random) -> None:
    """A constant sensor is moved to 0 by a scale and divided by 1."""
    i, _ = some_feature(fleet, chance)
    for part in fleet.parts:
        part.values[:, i] = 518.625


@damage(per="fleet")
def nearly_constant_column(fleet: Fleet, chance: Random) -> None:
    """A sensor that is constant but for one value in the fleet keeps to the formulas."""
    i, _ = some_feature(fleet, chance)
    for part in fleet.parts:
        part.values[:, i] = 518.625
    fleet.parts[0].values[0, i] = 518.75


@damage(format="parquet", scale="none", resample=None)
def magnitudes(fleet: Fleet, chance: Random) -> None:
    """From the smallest to the largest float32: as they are."""
    i, _ = some_feature(fleet, chance)
    part = some_part(fleet, chance, 10)
    some = [1e-38, -1e-38, 1.2e-38, 3.3e38, -3.3e38, -0.0, 1e10]
    for value in some:
        part.values[chance.randrange(len(part)), i] = value


@damage(format="parquet", kinds=ROWS)
def beyond_float32(fleet: Fleet, chance: Random) -> None:
    """Numbers of a double that no float32 holds are as infinite as infinity: missing."""
    part, (i, name) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    at, value = chance.randrange(len(part)), chance.choice([1e300, 1e39, -3.5e38, np.inf, -np.inf])

    def doubles(column: np.ndarray) -> pa.Array:
        wide = column.astype(np.float64)
        wide[at] = value
        return pa.array(wide, mask=np.isnan(wide))

    part.values[at, i] = np.inf
    with_type(part, name, doubles)


INFINITE = ["inf", "-inf", "Infinity", "-Infinity", "1e999", "-1e999", "1e39", "-1e39", "3.5e38"]


@damage(format=["csv", "csv.gz"], kinds=ROWS)
def infinities_in_words(fleet: Fleet, chance: Random) -> None:
    """inf, -Infinity, 1e999 and 1e39 in a text, with quotes or without, are missing values."""
    part, (i, name) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    words = {chance.randrange(len(part)): chance.choice(INFINITE) for _ in range(3)}
    part.values[list(words), i] = np.inf
    comma = part.form.get("csv", {}).get("decimal") == ","
    quotes = chance.choice(["", '"'])

    def texts(column: np.ndarray) -> list[str]:
        plain = ["" if np.isnan(v) else f"{v:.3f}".replace(".", "," if comma else ".") for v in column]
        return [f"{quotes}{words.get(at, text)}{quotes}" for at, text in enumerate(plain)]

    with_text(part, name, texts)


@damage(format=["json", "jsonl"], kinds=ROWS)
def infinities_in_json(fleet: Fleet, chance: Random) -> None:
    """1e999 and 1e39 in JSON, and inf in quotes, are missing values; so is the bare Infinity that Python writes."""
    part, (i, name) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    words = {chance.randrange(len(part)): chance.choice(["1e999", "-1e999", "1e39", '"inf"', "Infinity", "-Infinity"])}
    part.values[list(words), i] = np.inf
    part.form["json"] = name, words


@damage(label=["end", "any", "horizon"], kinds=ROWS)
def infinite_labels(fleet: Fleet, chance: Random) -> None:
    """A label that is infinite, or too large for float32, is missing."""
    part = some_part(fleet, chance, 10)
    for _ in range(chance.randint(1, 3)):
        part.extra["load"][chance.randrange(len(part))] = chance.choice([np.inf, -np.inf, 1e39, -1e300])
    with_type(part, "load", lambda column: pa.array(np.array(column, np.float64)))
    words = {np.inf: "inf", -np.inf: "-Infinity", 1e39: "1e39", -1e300: "-1e300"}
    dot = part.form.get("csv", {}).get("decimal", ".")
    with_text(part, "load", lambda column: [
        words.get(v, "" if np.isnan(v) else f"{v:.3f}".replace(".", dot)) for v in column])  # fmt: skip


@damage(resample=None, rows=60)
def an_asset_of_one_row(fleet: Fleet, chance: Random) -> None:
    """An asset that is too short for a window is a reject that says how many rows it has."""
    name = chance.choice(fleet.names())
    left = 1
    for part in fleet.parts:
        own = [i for i, asset in enumerate(part.asset) if asset == name]
        keep, left = own[:left], max(0, left - len(own))
        part.take([i for i in range(len(part)) if i in keep or i not in own])
    fleet.parts = [part for part in fleet.parts if len(part)]


@damage(alone=True)
def windows_longer_than_assets(fleet: Fleet, chance: Random) -> None:
    """No asset has a window: the job fails in one line."""
    fleet.job["windows"]["length"] = 100_000


@damage()
def window_as_long_as_an_asset(fleet: Fleet, chance: Random) -> None:
    """Some assets have one window or none, and those without are rejects."""
    name = chance.choice(fleet.names())
    rows = sum(part.asset.count(name) for part in fleet.parts)
    fleet.job["windows"]["length"] = max(1, rows - chance.randint(0, 1))


@damage(fill=["forward", "linear", "drop"], then="drop", resample=None, features=[2, 3])
def poison_in_an_asset_without_windows(fleet: Fleet, chance: Random) -> None:
    """An asset that gives no window is a reject, and its values are in no statistic."""
    _poison(fleet, [chance.choice(fleet.names())])


@damage(alone=True, fill="forward", then="drop", resample=None, features=[2, 3], length=[5, 8])
def poison_in_most_assets(fleet: Fleet, chance: Random) -> None:
    """Most assets give no window: more than the limit, and nothing is published."""
    names = fleet.names()
    _poison(fleet, chance.sample(names, len(names) - 1))


def _poison(fleet: Fleet, names: list[str]) -> None:
    for part in fleet.parts:
        own = [asset in names for asset in part.asset]
        part.values[own, 0] = np.nan
        part.values[own, 1] = 999_999


@damage()
def impossible_values(fleet: Fleet, chance: Random) -> None:
    """A value outside of prepare.range is missing; its ends are inside."""
    part, (i, name) = some_part(fleet, chance, 10), some_feature(fleet, chance)
    low, high = chance.choice([(-4, 8), (None, 6), (-2, None)])
    fleet.job["prepare"]["range"] = {name: [low, high]}
    for value in (1e6, -1e6, low or 0, high or 0):
        part.values[chance.randrange(len(part)), i] = value


@damage(label=["end", "any", "horizon"])
def labels_missing(fleet: Fleet, chance: Random) -> None:
    """A window without a label is left out."""
    for part in fleet.parts:
        column = part.extra["load"]
        at = chance.randrange(len(column))
        column[at : at + 20] = [float("nan")] * len(column[at : at + 20])


@damage(label=["end", "any", "horizon"])
def labels_missing_in_one_asset(fleet: Fleet, chance: Random) -> None:
    """An asset without a label gives no window, and is a reject that says so."""
    name = chance.choice(fleet.names())
    for part in fleet.parts:
        part.extra["load"] = [
            float("nan") if asset == name else value
            for asset, value in zip(part.asset, part.extra["load"], strict=True)
        ]


@damage(label="classes", split=["asset", "time", "column"])
def a_class_not_in_the_list(fleet: Fleet, chance: Random) -> None:
    """An asset with a value that is no class of the list is a reject."""
    part = some_part(fleet, chance)
    at = chance.randrange(len(part))
    part.extra["state"][at] = "molten"
    if fleet.plan.split == "column" and part.extra["phase"][at] == "cool":
        part.extra["phase"][at] = "run"
    fleet.rejected[part.asset[at]] = "molten"


@damage(split=["asset", "time"], alone=True, label=["end", "any"])
def a_constant_target(fleet: Fleet, chance: Random) -> None:
    """A target that is constant over all training windows ends the job in one line."""
    for part in fleet.parts:
        part.extra["load"] = [1.5] * len(part)
