"""Adds up what holds sums."""

from dataclasses import fields, replace
from typing import Any, TypeVar

S = TypeVar("S")


def add(one: Any, other: Any) -> Any:
    """The sum of two values: None is that of nothing, tuples add up place by place."""
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, tuple):
        return tuple(add(a, b) for a, b in zip(one, other, strict=True))
    return one + other


def add_fields(one: S, other: S, **apart: Any) -> S:
    """The sum of two objects of a dataclass, field by field.

    Args:
      one: of them.
      other: of the same class.
      apart: the values of fields that add up in another way.
    """
    names = (field.name for field in fields(one))  # type: ignore[arg-type]
    sums = {name: add(getattr(one, name), getattr(other, name)) for name in names if name not in apart}
    return replace(one, **sums, **apart)  # type: ignore[type-var]
