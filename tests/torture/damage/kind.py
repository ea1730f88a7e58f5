"""What a kind of damage is, and the list of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ..fleet import Fleet, Part, Spoilt

Apply = Callable[[Fleet, Random], None]


@dataclass(frozen=True)
class Damage:
    """A kind of damage.

    Attributes:
      apply: changes the picture of a fleet; its docstring says what must happen.
      wants: fields of the plan that it needs, by name: a value, or a list to choose from.
      alone: goes with no other damage.
      last: comes after all others, as it hangs on how they leave the files.
      group: the file that it stands in.
      kinds: of source that it is done to.
    """

    name: str
    apply: Apply
    wants: dict[str, Any]
    alone: bool
    last: bool
    group: str
    kinds: tuple[str, ...]


SERIES, ROWS = ("timeseries",), ("timeseries", "table")
DAMAGES: dict[str, Damage] = {}


def damage(
    *, alone: bool = False, last: bool = False, kinds: tuple[str, ...] = SERIES, **wants: Any
) -> Callable[[Apply], Apply]:
    """Puts a function into the list of damages."""

    def add(apply: Apply) -> Apply:
        name = apply.__name__
        assert name not in DAMAGES, f"two damages have the name {name}"
        assert apply.__doc__, f"{name} does not say what must happen"
        DAMAGES[name] = Damage(name, apply, wants, alone, last, apply.__module__.rpartition(".")[2], kinds)
        return apply

    return add


def some_part(fleet: Fleet, chance: Random, rows: int = 1) -> Part:
    """A file with at least so many rows, one that no other damage has touched if there is one."""
    fit = [part for part in fleet.parts if len(part) >= rows and not part.form.get("touched")]
    part = chance.choice(fit or fleet.parts)
    part.form["touched"] = True
    return part


def some_feature(fleet: Fleet, chance: Random) -> tuple[int, str]:
    """A feature: its place and its name."""
    i = chance.randrange(fleet.plan.features)
    return i, fleet.features[i]


def is_mixed(fleet: Fleet) -> bool:
    """Whether a column names the assets."""
    return fleet.plan.naming == "column"


def break_file(fleet: Fleet, part: Part, reason: str) -> None:
    """The file cannot be read, and neither can what it holds: a reject, without an asset where only a column tells."""
    part.broken = reason


def break_values(fleet: Fleet, part: Part, reason: str) -> None:
    """The file breaks where its values are read, when the assets in it are known: each of them is a reject.

    That the file is one, as it is where it breaks earlier, is as right.
    """
    part.broken = reason
    if not is_mixed(fleet):
        return
    place = next(i for i, one in enumerate(fleet.parts) if one is part)

    def all_of_it(other: Fleet) -> None:
        whole = other.parts[place]
        whole.broken = None
        other.rejected |= dict.fromkeys(whole.asset, reason)

    fleet.variants.append(all_of_it)


def spoil(part: Part, row: int, reason: str, *, timed: bool, write: Callable[[list[str]], str] | None = None) -> None:
    """A row of a file cannot be used; where no row that can is left, the asset may be a reject as well."""
    part.spoilt[row] = Spoilt(reason, timed, write)


def with_csv(part: Part, **dialect: Any) -> None:
    """Changes how a text file is written."""
    before = part.form.get("csv", {})
    if "between" in dialect:  # lines of several damages may stand at one place
        lines = {place: list(some) for place, some in before.get("between", {}).items()}
        for place, some in dialect["between"].items():
            lines.setdefault(place, []).extend(some)
        dialect["between"] = lines
    part.form["csv"] = {**before, **dialect}


def with_type(part: Part, name: str, make: Callable[[Any], Any]) -> None:
    """Changes the Arrow array that a column of a Parquet file becomes; a change that is there stays."""
    part.form["arrays"] = {name: make, **part.form.get("arrays", {})}


def with_text(part: Part, name: str, make: Callable[[Any], list[str]]) -> None:
    """Changes the cells that a column of a text file becomes."""
    part.form["texts"] = {**part.form.get("texts", {}), name: make}


def suffix_of(part: Part) -> str:
    """The suffix of a file that no damage has renamed yet."""
    return "." + part.form["format"]


def rename(part: Part, suffix: str) -> None:
    """Gives a file another suffix; says so in its form."""
    part.path = part.path.removesuffix(suffix_of(part)) + suffix
    part.form["format"] = suffix[1:]
