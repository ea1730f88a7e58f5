"""Values of environment variables, and what is wrong with them in one line."""

import re
from collections.abc import Mapping

from beamfeed.contract.errors import UserError

LARGEST_PORT = 65535


def value_of(environ: Mapping[str, str], name: str) -> str:
    """The value of a variable without the spaces around it; empty where it is not set."""
    return environ.get(name, "").strip()


def require(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    """The first of these variables that is set, and its value.

    Raises:
      UserError: if none is set.
    """
    for name in names:
        if value := value_of(environ, name):
            return name, value
    raise UserError(
        f"{' or '.join(dict.fromkeys(names))}: is not set, but the other variables of the launcher are; "
        "set it, or unset those to train alone"
    )


def whole_number(value: object) -> int | None:
    """The value as a whole number from 0, or None. Launchers write numbers as strings too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value, re.ASCII) else None


def number_of(name: str, text: str, low: int, high: int | None = None) -> int:
    """The text as a whole number in [low, high].

    Raises:
      UserError: naming the variable, if it is none.
    """
    number = whole_number(text)
    if number is None or number < low or (high is not None and number > high):
        limits = f"from {low}" if high is None else f"from {low} to {high}"
        raise UserError(f"{name}: is {text!r}, it must be a whole number {limits}")
    return number


def is_address(text: str) -> bool:
    """Whether a text is host:port."""
    host, _, port = text.rpartition(":")
    number = whole_number(port)
    return bool(re.fullmatch(r"[\w.-]+|\[[0-9A-Fa-f:.]+\]", host)) and number is not None and 0 < number <= LARGEST_PORT
