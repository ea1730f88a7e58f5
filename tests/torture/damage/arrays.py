"""Damages of arrays: values that are no numbers in every role, other dtypes and orders, files that are cut."""

from random import Random
from typing import Any

import numpy as np

from ..fleet import Fleet
from .kind import damage

ARRAY = ("array",)


def _named(fleet: Fleet, name: str) -> Any:
    return next(one for one in fleet.parts if one.name == name)


def _put(one: Any, chance: Random, values: list[float]) -> None:
    """Puts a few of these values anywhere."""
    flat = one.values.reshape(-1)
    for _ in range(chance.randint(1, 4)):
        with np.errstate(over="ignore"):
            flat[chance.randrange(len(flat))] = chance.choice(values)


@damage(kinds=ARRAY)
def clean_arrays(fleet: Fleet, chance: Random) -> None:
    """Every row comes out, with the numbers that the files have."""


@damage(kinds=ARRAY)
def nan_in_an_input(fleet: Fleet, chance: Random) -> None:
    """A row with NaN in an input is set aside."""
    _put(_named(fleet, "x"), chance, [np.nan])


@damage(kinds=ARRAY)
def infinities_in_an_input(fleet: Fleet, chance: Random) -> None:
    """A row with infinity in an input is set aside, in every dtype."""
    _put(_named(fleet, "x"), chance, [np.inf, -np.inf])


@damage(kinds=ARRAY)
def an_input_beyond_float32(fleet: Fleet, chance: Random) -> None:
    """A row with a number too large for float32 is set aside, whether the input is scaled or not."""
    one = _named(fleet, "x")
    one.values = one.values.astype("f8")
    _put(one, chance, [1e39, -1e300, 3.5e38])


@damage(kinds=ARRAY, missing=0.2)
def infinities_that_are_kept(fleet: Fleet, chance: Random) -> None:
    """With missing: keep, NaN and infinity of a scaled input are NaN, and of others what they are."""
    _put(_named(fleet, "wide"), chance, [np.nan, np.inf, -np.inf, 1e39])


@damage(kinds=ARRAY, label="end")
def infinite_outputs(fleet: Fleet, chance: Random) -> None:
    """A row whose output is infinite, too large for float32 or not a number has no label and is left out."""
    _put(_named(fleet, "y"), chance, [np.nan, np.inf, -np.inf, 1e39])


@damage(kinds=ARRAY, weighted=True)
def infinite_weights_of_arrays(fleet: Fleet, chance: Random) -> None:
    """A row whose weight is infinite, too large for float32 or not a number is set aside."""
    _put(_named(fleet, "w"), chance, [np.nan, np.inf, 1e39])


@damage(kinds=ARRAY)
def infinities_in_a_key(fleet: Fleet, chance: Random) -> None:
    """A key is passed on as it is, infinity too."""
    _put(_named(fleet, "place"), chance, [np.nan, np.inf, -np.inf, 1e39])


@damage(kinds=ARRAY, label="classes")
def a_class_of_an_array_that_is_not_listed(fleet: Fleet, chance: Random) -> None:
    """A row with a class that is not in the list is set aside, and one without a class is left out."""
    one = _named(fleet, "y")
    one.section["classes"] = ["broken", "ok", "worn"]
    one.values[chance.randrange(len(one.values))] = "molt"
    one.values[chance.randrange(len(one.values))] = ""


@damage(kinds=ARRAY)
def other_dtypes(fleet: Fleet, chance: Random) -> None:
    """Arrays in the other order of bytes, in Fortran's order, and of other dtypes hold the same numbers."""
    x, image = _named(fleet, "x"), _named(fleet, "image")
    x.values = x.values.astype(chance.choice([">f4", ">f8", "f8", "f2"]))
    image.values = image.values.astype(chance.choice(["u1", "i4", ">i2", "f4", ">f8", "u2"]))
    for one in (x, image):
        one.fortran = chance.random() < 0.5


@damage(kinds=ARRAY)
def a_constant_input(fleet: Fleet, chance: Random) -> None:
    """An input of one number is moved to 0 by a scale and divided by 1."""
    x = _named(fleet, "x")
    x.values[:] = chance.choice([0.0, 518.5, -3.25])


@damage(kinds=ARRAY, alone=True)
def a_truncated_array(fleet: Fleet, chance: Random) -> None:
    """A file that was cut ends the job in one line that names it: nobody knows which rows go together."""
    one, share = chance.choice(fleet.parts), chance.uniform(0.1, 0.95)
    one.mend.append(lambda data: data[: int(len(data) * share)])
    fleet.mistake = "all[.]" if fleet.form != "npy" else rf"{one.name}-\d[.]npy"
    fleet.variants.append(lambda other: (setattr(other, "mistake", None), setattr(other, "failure", fleet.mistake)))


@damage(kinds=ARRAY, alone=True)
def arrays_of_other_lengths(fleet: Fleet, chance: Random) -> None:
    """An array with a row less than the others ends the job in one line."""
    one = chance.choice(fleet.parts)
    one.values = one.values[:-1]
    one.cuts = [cut for cut in one.cuts if cut < len(one.values)]
    fleet.mistake = "rows"


@damage(kinds=ARRAY, alone=True)
def an_array_of_objects(fleet: Fleet, chance: Random) -> None:
    """An array of Python objects is refused in one line: to read it can run any code."""
    fleet.form = "npy"
    one = _named(fleet, "name")
    one.values = one.values.astype(object)
    fleet.mistake = "name.*object"
