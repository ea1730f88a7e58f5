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
        return {KIND: named, "value": {entry.name: to_json(getattr(value, entry.name)) for entry in fields(value)}}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def from_json(encoded: Any) -> Any:
    """The value that `to_json` encoded.

    Raises:
      ValueError: if it is not what that gives.
    """
    if encoded is None or isinstance(encoded, (bool, int, float, str)):
        return encoded
    if not isinstance(encoded, dict) or set(encoded) != {KIND, "value"}:
        raise ValueError(f"{encoded!r} stands for nothing")
    if encoded[KIND] in _KINDS:
        return _KINDS[encoded[KIND]][2](encoded["value"])
    module, _, name = encoded[KIND].partition(":")
    type_ = getattr(import_module(PACKAGE + module), name, None)
    if not (isinstance(type_, type) and is_dataclass(type_) and type_.__module__ == PACKAGE + module):
        raise ValueError(f"{encoded[KIND]!r} is no dataclass")
    return type_(**{key: from_json(value) for key, value in encoded["value"].items()})


def _bytes(array: np.ndarray) -> str:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return base64.b64encode(buffer.getvalue()).decode()


def _array(text: str) -> np.ndarray:
    loaded: np.ndarray = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return loaded


def _listed(values: Any) -> list[Any]:
    return [to_json(value) for value in values]


def _strings(encoded: dict[str, Any]) -> pa.Array:
    type_ = {"string": pa.string(), "large_string": pa.large_string()}[encoded["type"]]
    return pa.array(encoded["values"], type_)


_KINDS: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "fraction": (Fraction, str, Fraction),
    "array": (np.ndarray, _bytes, _array),
    "strings": (pa.Array, lambda column: {"type": str(column.type), "values": column.to_pylist()}, _strings),
    "tuple": (tuple, _listed, lambda encoded: tuple(map(from_json, encoded))),
    "list": (list, _listed, lambda encoded: list(map(from_json, encoded))),
    "set": (frozenset, lambda value: _listed(sorted(value)), lambda encoded: frozenset(map(from_json, encoded))),
    "dict": (
        dict,
        lambda value: {key: to_json(item) for key, item in value.items()},
        lambda encoded: {key: from_json(item) for key, item in encoded.items()},
    ),
}
