"""What the arguments of a SavedModel's signatures are called: ASCII letters, digits and _."""

import keyword
import re
from collections.abc import Sequence


def ascii_name(name: str) -> str:
    """A name as layers may have it, in ASCII: each other letter is its code point, `u6e29`; so names stay distinct."""
    return "".join(letter if letter.isascii() else f"u{ord(letter):x}" for letter in name)


def argument_names(columns: Sequence[str]) -> dict[str, str]:
    """For each column a name that a signature can have: ASCII letters, digits and _; those that can stay as they are.

    No two differ in capitals alone: to TensorFlow these are one.
    One without any of them is the code points of its letters: `温度` is `u6e29u5ea6`.
    """
    names: dict[str, str] = {}
    fine: dict[str, str] = {}  # by small letters
    for name in filter(_is_argument, columns):
        fine.setdefault(name.lower(), name)
    used = {*fine}
    for column in columns:
        name = column
        if fine.get(column.lower()) != column:
            name = re.sub(r"[^A-Za-z0-9_]+", "_", column).strip("_")
            name = name or ascii_name("".join(filter(str.isalpha, column))) or "column"
            name = name if name[0].isalpha() else f"column_{name}"
            name = name if _is_argument(name) else f"{name}_"
            base, number = name, 2
            while name.lower() in used:
                name, number = f"{base}_{number}", number + 1
            used.add(name.lower())
        names[column] = name
    return names


def _is_argument(name: str) -> bool:
    is_name = bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)) and not keyword.iskeyword(name)
    return is_name and name != "self"  # which a function of TensorFlow has itself
