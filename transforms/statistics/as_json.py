"""Statistics as JSON, and back to the last bit: of a dataset that grows, what the first run learned."""

import base64
import io
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa

PACKAGE = "beamfeed.transforms."  # whose dataclasses are read: the file may be somebody else's
KIND = "is"  # the key that tells what an object stands for


def to_json(value: Any) -> Any:
    """A value as JSON has it.

    Args:
      value: None, a bool, a number, a text, a fraction, an array of NumPy or Arrow, a dataclass of this package, or
        tuples, lists, sets and dicts with texts as keys of these.

    Raises:
      TypeError: if it is something else.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    for kind, (type_, write, _) in _KINDS.items():
        if isinstance(value, type_):
            return {KIND: kind, "value": write(value)}
    if is_dataclass(value) and type(value).__module__.startswith(PACKAGE):
        named = f"{type(value).__module__.removeprefix(PACKAGE)}:{type(value).__name__}"
        return {KIND: named, "value": {one.name: to_json(getattr(value, one.name)) for one in fields(value)}}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_json(told: Any) -> Any:
    """The value that `to_json` told of.

    Raises:
      ValueError: if it is not what that gives.
    """
    if told is None or isinstance(told, (bool, int, float, str)):
        return told
    if not isinstance(told, dict) or set(told) != {KIND, "value"}:
        raise ValueError(f"{told!r} stands for nothing")
    if told[KIND] in _KINDS:
        return _KINDS[told[KIND]][2](told["value"])
    module, _, name = told[KIND].partition(":")
    type_ = getattr(import_module(PACKAGE + module), name, None)
    if not (isinstance(type_, type) and is_dataclass(type_) and type_.__module__ == PACKAGE + module):
        raise ValueError(f"{told[KIND]!r} is no dataclass")
    return type_(**{key: from_json(value) for key, value in told["value"].items()})


def _bytes(array: np.ndarray) -> str:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return base64.b64encode(buffer.getvalue()).decode()


def _array(text: str) -> np.ndarray:
    loaded: np.ndarray = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return loaded


def _listed(values: Any) -> list[Any]:
    return [to_json(value) for value in values]


def _strings(told: dict[str, Any]) -> pa.Array:
    type_ = {"string": pa.string(), "large_string": pa.large_string()}[told["type"]]
    return pa.array(told["values"], type_)


_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "fraction": (Fraction, str, Fraction),
    "array": (np.ndarray, _bytes, _array),
    "strings": (pa.Array, lambda column: {"type": str(column.type), "values": column.to_pylist()}, _strings),
    "tuple": (tuple, _listed, lambda told: tuple(map(from_json, told))),
    "list": (list, _listed, lambda told: list(map(from_json, told))),
    "set": (frozenset, lambda value: _listed(sorted(value)), lambda told: frozenset(map(from_json, told))),
    "dict": (
        dict,
        lambda value: {key: to_json(one) for key, one in value.items()},
        lambda told: {key: from_json(one) for key, one in told.items()},
    ),
}
