"""What the options of `beamfeed adopt` ask for. Without Beam, so that a mistake is told at once."""

import argparse
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.storage import absolute

NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")  # what the name of a dataset cannot have
AUTO = "auto"
Value = TypeVar("Value")


def request_of(args: argparse.Namespace, known_as: str = "") -> dict[str, Any]:
    """What a command line asks for, as `beamfeed.transforms.adopt.request.Request` takes it.

    Args:
      args: parsed.
      known_as: the name that the folder's own files give the dataset.

    Raises:
      UserError: for the first option that cannot be understood.
    """
    folder = out = os.path.expanduser(args.folder)
    if args.out is not None and (out := os.path.expanduser(args.out)) != folder:
        folder = absolute(folder)  # the manifest names it
    roles = {"targets": args.target, "keys": args.key, "inputs": args.input, "weights": args.weight}
    used: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            option = f"--{role.removesuffix('s')}"
            if used.setdefault(name, option) != option:
                raise UserError(f"{option} {name}: is given with {used[name]}, too; a feature has one role")
    classes = pairs("--classes", args.classes, _classes)
    for name in classes:
        if args.target and name not in args.target:
            raise UserError(f"--classes {name}: is no --target{near_miss(name, args.target)}; classes are for targets")
    return {
        "folder": folder,
        "out": out,
        "name": _name(args.name, known_as, folder),
        **{role: tuple(dict.fromkeys(names)) for role, names in roles.items()},
        "targets": tuple(dict.fromkeys([*args.target, *classes])),
        "classes": classes,
        "defaults": pairs("--default", args.default, _number_or_text),
        "shapes": pairs("--shape", args.shape, _shape),
        "splits": _splits(args.split),
    }


def pairs(option: str, texts: Sequence[str], read: Callable[[str, str], Value]) -> dict[str, Value]:
    """`NAME=VALUE`, each name once.

    Raises:
      UserError: if one is written otherwise, or a name comes twice.
    """
    values: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"{option} {text}: needs NAME=VALUE")
        if name in values:
            raise UserError(f"{option} {text}: {name} is given twice")
        values[name] = read(f"{option} {text}", value)
    return values


def _classes(option: str, value: str) -> tuple[str, ...]:
    if value == AUTO:
        return ()
    names = tuple(value.split(","))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise UserError(f"{option}: needs auto, or names that differ: --classes label=no,yes")
    return names


def _number_or_text(option: str, value: str) -> int | float | str:
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if not math.isfinite(number):
            raise UserError(f"{option}: is not a finite number")
        return number
    return value


def _shape(option: str, value: str) -> tuple[int | None, ...]:
    parts = value.split(",")
    if not all(part == "any" or (part.isdecimal() and int(part) > 0) for part in parts) or "any" in parts[1:]:
        raise UserError(f"{option}: needs whole numbers above 0, of which the first may be any: 28,28 or any,4")
    return tuple(None if part == "any" else int(part) for part in parts)


def _splits(texts: Sequence[str]) -> dict[str, str | float]:
    values = pairs("--split", texts, lambda _, value: value)
    splits: dict[str, str | float] = {}
    for name, value in values.items():
        if name not in SPLITS:
            raise UserError(f"--split {name}={value}: there is no such split{near_miss(name, SPLITS)} "
                            f"(there are {', '.join(SPLITS)})")  # fmt: skip
        splits[name] = _fraction(f"--split {name}={value}", value)
    if len({type(value) for value in splits.values()}) > 1:
        raise UserError("--split: give either fractions of the files or globs of their paths, not both")
    return splits


def _fraction(option: str, value: str) -> float | str:
    try:
        fraction = float(value)
    except ValueError:
        return value
    if not 0 <= fraction <= 1:
        raise UserError(f"{option}: a fraction is from 0 to 1; a glob of files is text")
    return fraction


def _name(named: str | None, known_as: str, folder: str) -> str:
    if named is not None:
        if NAMES.search(named) or not named[:1].isalnum():
            raise UserError(f"--name {named}: must be letters, digits, _ . and -, with a letter or a digit first")
        return named
    derived = known_as or os.path.basename(absolute(folder).rstrip("/"))
    return NAMES.sub("_", derived).lstrip("_.-") or "adopted"
