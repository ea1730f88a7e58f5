"""A job file as text: keys in order, each with what is said of it in comments."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from beamfeed.contract.config.variables import escaped
from beamfeed.contract.errors import visible
from beamfeed.contract.text import sentence

WIDTH = 100  # columns of a line


@dataclass(frozen=True)
class Key:
    """A key of the job file.

    Attributes:
      name: of the key.
      value: text, number, list or mapping; or the keys of a section.
      above: what is said of it, paragraphs before its line.
      tail: a few words at the end of its line.
    """

    name: str
    value: Any
    above: tuple[str, ...] = ()
    tail: str = ""


@dataclass(frozen=True)
class Remark:
    """What is said where no key is; with `example`, lines of YAML that a user may take out of the comment."""

    text: str
    example: tuple[str, ...] = ()


Part = Key | Remark


class _Dumper(yaml.SafeDumper):
    """Writes text with ends of lines on one line."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    # Quotes keep a brace that opens in a name and one that closes in its value from looking like a variable.
    style = "'" if "${" in value and value.isprintable() else None if value.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def render(parts: Sequence[Part], indent: int = 0) -> str:
    """The lines of a section, each with its end."""
    return "".join(f"{line}\n" for part in parts for line in _lines(part, " " * indent))


def flow(value: Any) -> str:
    """A value on one line, quoted where YAML needs it."""
    text = yaml.dump(value, Dumper=_Dumper, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _lines(part: Part, margin: str) -> Iterator[str]:
    if isinstance(part, Remark):
        yield from comment(part.text, margin)
        yield from (f"{margin}#   {line}" for line in part.example)
        return
    for paragraph in part.above:
        yield from comment(paragraph, margin)
    plain = len(f"{margin}{part.name}: {'' if isinstance(part.value, tuple) else flow(part.value)}")
    if part.tail and plain + len(part.tail) + 4 > WIDTH:
        yield from comment(sentence(part.tail), margin)
        part = replace(part, tail="")
    name = f"{margin}{flow(part.name)}:"
    tail = f"  # {printable(part.tail)}" if part.tail else ""
    value = _plain(part.value)
    if isinstance(value, tuple):  # the keys of a section
        yield name + tail
        yield from render(value, len(margin) + 2).splitlines()
        return
    line = f"{name} {flow(value)}{tail}"
    if isinstance(value, list) and len(line) > WIDTH:
        yield f"{name} [{tail}"
        # As they stand in a list; and a value is not cut at its spaces.
        items = ", ".join(flow([item])[1:-1].replace(" ", "\0") for item in value)
        broken = textwrap.wrap(items, WIDTH - len(margin) - 4, break_long_words=False, break_on_hyphens=False)
        yield from (f"{margin}    {text}".replace("\0", " ") for text in broken)
        yield f"{margin}  ]"
        return
    yield line


def _plain(value: Any) -> Any:
    """A value in which nothing is taken for a variable; a lone `$`, as patterns have it, needs nothing."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return escaped(value) if isinstance(value, str) and ("$$" in value or "${" in value) else value


def printable(text: str) -> str:
    """A name of a column may hold any character, and a comment may not."""
    return visible(" ".join(text.split()))


def comment(text: str, margin: str = "") -> Iterator[str]:
    """The lines of a comment."""
    for line in textwrap.wrap(printable(text), WIDTH - len(margin) - 2, break_long_words=False, break_on_hyphens=False):
        yield f"{margin}# {line}"
