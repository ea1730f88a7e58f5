"""Command lines: a mistake in one line, numbers that are checked, and an example at the end of each help."""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

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
        arguments, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.refuse(unknown)
        return arguments

    def refuse(self, unknown: Sequence[str], command: str = "") -> NoReturn:
        """Ends the program because of arguments that are not known, those of a command if one is named."""
        name, options = unknown[0].partition("=")[0], list(self._option_string_actions)
        problem = (
            f"{name}: unknown option{near_miss(name, options)}"
            if name.startswith("-")
            else f"unexpected argument {name!r}"
        )
        self.error(f"{command}: {problem}" if command else problem)

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and ends the program with exit code 2."""
        line = " ".join(message.split())
        message = f"{line} (try {self.prog} --help)"
        print(f"{self._before}{message}", file=sys.stderr)
        raise Refused(message)


@dataclass(frozen=True)
class Option:
    """An option of a command line, or an argument without dashes.

    Attributes:
      name: `--set`; without dashes of an argument that has none.
      settings: of `argparse.ArgumentParser.add_argument`.
      short: another name of one letter, such as `-f`.
    """

    name: str
    settings: Mapping[str, Any]
    short: str = ""

    @property
    def key(self) -> str:
        """Where a parsed command line has its value."""
        return self.name.lstrip("-").replace("-", "_")

    def write(self, value: Any) -> list[str]:
        """The value as a command line has it; nothing where it is the default."""
        if value is None or value is False or value == self.settings.get("default"):
            return []
        if value is True:
            return [self.name]
        texts = [str(item) for item in value] if isinstance(value, list) else [str(value)]
        if not self.name.startswith("-"):  # a path; one that begins like an option would be taken for one
            return [f"./{text}" if text.startswith("-") else text for text in texts]
        return [part for text in texts for part in self._pair(text)]

    def _pair(self, text: str) -> list[str]:
        return [f"{self.name}={text}"] if text.startswith("-") else [self.name, text]


Options = tuple[Option | tuple[Option, ...], ...]  # an inner tuple holds options that exclude each other


def option(name: str, help: str, **settings: Any) -> Option:
    """An option; `settings` as of `argparse.ArgumentParser.add_argument`."""
    return Option(name, {"help": help, **settings})


def flag(name: str, help: str, short: str = "") -> Option:
    """An option without a value."""
    return Option(name, {"help": help, "action": "store_true"}, short)


def repeated(name: str, metavar: str, help: str, **settings: Any) -> Option:
    """An option that may be given several times: its value is a list."""
    return option(name, help, metavar=metavar, action="append", default=[], **settings)


def add_options(parser: Any, options: Options) -> None:
    """Adds options to a parser, or to a group of one."""
    for item in options:
        group = parser.add_mutually_exclusive_group() if isinstance(item, tuple) else parser
        for option_ in item if isinstance(item, tuple) else (item,):
            group.add_argument(*filter(None, (option_.short, option_.name)), **option_.settings)


def flat(options: Options) -> Iterable[Option]:
    """The options one by one."""
    for item in options:
        yield from item if isinstance(item, tuple) else (item,)


def split_beam_options(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Splits a command line at its first `--`."""
    at = list(argv).index("--") if "--" in argv else len(argv)
    return list(argv[:at]), list(argv[at + 1 :])


def positive(text: str) -> int:
    """A whole number above 0."""
    return at_least(text, 1, "above 0")


def from_zero(text: str) -> int:
    """A whole number, 0 or more."""
    return at_least(text, 0, "from 0")


def at_least(text: str, lowest: int, words: str = "") -> int:
    """A whole number from `lowest`.

    Raises:
      argparse.ArgumentTypeError: if it is none.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text) >= lowest):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number {words or f'from {lowest}'}")
    return int(text)


def _number(text: str, fits: Callable[[float], bool], words: str) -> float:
    """A number that fits.

    Raises:
      argparse.ArgumentTypeError: if it does not, or is none.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan  # which is in no range
    if not fits(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
    return value


def from_zero_up(text: str) -> float:
    """A number, 0 or more."""
    return _number(text, lambda value: 0 <= value < math.inf, "a number from 0 on")


def share(text: str) -> float:
    """A probability between 0 and 1."""
    return _number(text, lambda value: 0 < value < 1, "allowed, it must be a number between 0 and 1, such as 0.001")


def seconds(text: str) -> float:
    """Seconds above 0 and below an hour."""
    return _number(text, lambda value: 0 < value < 3600, "a number of seconds above 0 and below 3600")


class Steps(NamedTuple):
    """The first and the last of some steps, which are counted from 1."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


def steps(text: str) -> Steps:
    """`100-110`, or one number."""
    first, dash, last = text.partition("-")
    last = last if dash else first
    if not (first.isdecimal() and last.isdecimal() and 1 <= int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like 100-110, the first and the last step")
    return Steps(int(first), int(last))
