"""Adds up what holds sums."""

from dataclasses import fields, replace
from typing import Any, TypeVar

S = TypeVar("S")


def add_known(one: S | None, other: S | None) -> S | None:
    """The sum of two; None is nothing, where there may be none."""
    if one is None or other is None:
        return other if one is None else one
    return one + other  # type: ignore[operator]


def add_fields(one: S, other: S, **apart: Any) -> S:
    """The sum of two objects of a dataclass, field by field; tuples of a field add up place by place.

    Args:
      one: of them.
      other: of the same class.
      apart: the values of fields that add up in another way.
    """
    for field in fields(one):  # type: ignore[arg-type]
        if field.name not in apart:
            first, second = getattr(one, field.name), getattr(other, field.name)
            is_many = isinstance(first, tuple)
            apart[field.name] = tuple(a + b for a, b in zip(first, second, strict=True)) if is_many else first + second
    return replace(one, **apart)  # type: ignore[type-var]
