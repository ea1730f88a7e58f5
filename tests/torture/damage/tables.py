"""Damages of tables alone: weights, keys, required values, classes and texts. What series have too stands there."""

from random import Random

import numpy as np
import pyarrow as pa

from ..fleet import Fleet
from .kind import damage, some_feature, some_part, spoil, with_text, with_type
from .text import with_arrow

TABLE = ("table",)


@damage(kinds=TABLE, weighted=True)
def infinite_weights(fleet: Fleet, chance: Random) -> None:
    """A row whose weight is infinite, too large for float32 or not a number has no label and is left out."""
    part = some_part(fleet, chance, 5)
    at, value = chance.randrange(len(part)), chance.choice([np.inf, 1e39, np.nan, 1e300])
    part.extra["weight"][at] = value
    with_type(part, "weight", lambda column: pa.array(np.array(column, np.float64)))
    dot = part.form.get("csv", {}).get("decimal", ".")
    with_text(part, "weight", lambda column: [repr(float(v)).replace(".", dot) for v in column])


@damage(kinds=TABLE, format="parquet", naming="column", split="asset", odd_names=False)
def infinite_keys(fleet: Fleet, chance: Random) -> None:
    """A key that is an infinite number names nobody: its row is set aside; 1e39 is a key like others."""
    for part in fleet.parts:
        part.asset = [str(int(name[1:])) for name in part.asset]
    part = some_part(fleet, chance, 5)
    at, value = chance.randrange(len(part)), chance.choice([np.inf, -np.inf, np.nan, 1e39])
    part.asset[at] = str(int(value)) if np.isfinite(value) else ""
    for one in fleet.parts:
        with_type(one, "machine", lambda column: pa.array([float(v) if v else value for v in column], pa.float64()))


@damage(kinds=TABLE, format=["csv", "csv.gz"], naming="column", split="asset")
def a_key_that_is_infinity_in_words(fleet: Fleet, chance: Random) -> None:
    """In a text, `inf` is a key like any other word."""
    part = some_part(fleet, chance, 5)
    part.asset[chance.randrange(len(part))] = chance.choice(["inf", "-Infinity", "1e999"])


@damage(kinds=TABLE, last=True)
def a_required_value_is_missing(fleet: Fleet, chance: Random) -> None:
    """A row without a value that is required is set aside; infinity is no value."""
    part, (i, name) = some_part(fleet, chance, 5), some_feature(fleet, chance)
    fleet.job["features"][name]["required"] = True
    fleet.job["limits"]["max_rejected_fraction"] = 0.9
    part.values[chance.randrange(len(part)), i] = chance.choice([np.nan, np.inf])


@damage(kinds=TABLE, label="classes")
def a_class_that_is_not_listed(fleet: Fleet, chance: Random) -> None:
    """A row with a value that is no class of the list is set aside, and one without a value is left out."""
    part = some_part(fleet, chance, 5)
    part.extra["state"][0] = "molten"
    part.extra["state"][-1] = None


@damage(kinds=TABLE, format="parquet", last=True)
def a_text_that_is_not_utf_8(fleet: Fleet, chance: Random) -> None:
    """A row of Parquet or Arrow whose text is not UTF-8 is set aside."""
    part = some_part(fleet, chance, 5)
    at = chance.randrange(len(part))

    def names(column: list[str]) -> pa.Array:
        raw = [name.encode() for name in column]
        raw[at] = b"\xff\xfe"
        return pa.StringArray.from_buffers(len(raw), *pa.array(raw, pa.binary()).buffers()[1:])

    with_type(part, "row", names)
    spoil(part, at, "row is not UTF-8", timed=True)
    if chance.random() < 0.5:
        with_arrow(fleet, chance)
