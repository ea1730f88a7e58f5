"""Command lines: a mistake in one line, numbers that are checked, and an example at the end of each help."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from beamfeed.contract.errors import USER_MISTAKE, near_miss


class Refused(SystemExit):
    """A command line has a mistake, which was told."""

    def __init__(self, message: str):
        super().__init__(USER_MISTAKE)
        self.message = message


class Parser(argparse.ArgumentParser):
    """A parser that tells a mistake in one line, without the usage.

    Args:
      example: a command line, for the end of the help.
      before: what each message begins with, such as the name of the program.
      options: of `argparse.ArgumentParser`.
    """

    def __init__(self, *args: Any, example: str = "", before: str = "", **options: Any):
        super().__init__(*args, **options)
        self.example = example
        self._before = before

    def format_help(self) -> str:
        """The help, and the example in one line, however long, so that it can be copied."""
        return super().format_help() + (f"\nexample: {self.example}\n" if self.example else "")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse, with a near miss for an option that there is not."""
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return found

    def refuse(self, unknown: Sequence[str], command: str = "") -> NoReturn:
        """Ends the program because of arguments that are not known, those of a command if one is named."""
        name, known = unknown[0].partition("=")[0], list(self._option_string_actions)
        told = (
            f"{name}: there is no such option{near_miss(name, known)}"
            if name.startswith("-")
            else f"{name!r} is one argument too many"
        )
        self.error(f"{command}: {told}" if command else told)

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and ends the program with exit code 2."""
        told = " ".join(message.split())
        message = f"{told} (try {self.prog} --help)"
        print(f"{self._before}{message}", file=sys.stderr)
        raise Refused(message)


def positive(text: str) -> int:
    """A whole number above 0."""
    return at_least(text, 1, "above 0")


def from_zero(text: str) -> int:
    """A whole number, 0 or more."""
    return at_least(text, 0, "from 0")


def at_least(text: str, lowest: int, told: str = "") -> int:
    """A whole number from `lowest`.

    Raises:
      argparse.ArgumentTypeError: if it is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= lowest):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {told or f'from {lowest}'}")
    return int(text)


def seconds(text: str) -> float:
    """Seconds above 0 and below an hour."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0 and below 3600")
    return number


def steps(text: str) -> str:
    """`100-110`, or one number: steps are counted from 1."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and (last or first).isdecimal() and 1 <= int(first) <= int(last or first)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 100-110, the first and the last step")
    return text
