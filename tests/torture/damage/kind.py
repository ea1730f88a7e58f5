"""What a kind of damage is, and the list of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ..fleet import Fleet, Part


@dataclass(frozen=True)
class Damage:
    """A kind of damage.

    Attributes:
      apply: changes the picture of a fleet; its docstring says what must happen.
      wants: fields of the plan that it needs, by name: a value, or a list to choose from.
      pending: the key of the job file, or the fault, without which it cannot pass yet; None where it must pass.
      alone: goes with no other damage.
      group: the file that it stands in.
    """

    name: str
    apply: Callable[[Fleet, Random], None]
    wants: dict[str, Any]
    pending: str | None
    alone: bool
    group: str


DAMAGES: dict[str, Damage] = {}


def damage(*, pending: str | None = None, alone: bool = False, **wants: Any) -> Callable:
    """Puts a function into the list of damages."""

    def add(apply: Callable[[Fleet, Random], None]) -> Callable[[Fleet, Random], None]:
        name = apply.__name__
        assert name not in DAMAGES, f"two damages have the name {name}"
        assert apply.__doc__, f"{name} does not say what must happen"
        DAMAGES[name] = Damage(name, apply, wants, pending, alone, apply.__module__.rpartition(".")[2])
        return apply

    return add


def some_part(fleet: Fleet, chance: Random, rows: int = 1) -> Part:
    """A file with at least so many rows that no other damage has touched."""
    fit = [part for part in fleet.parts if len(part) >= rows and not part.form.get("touched")]
    part = chance.choice(fit or fleet.parts)
    part.form["touched"] = True
    return part
