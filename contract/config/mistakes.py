"""What pydantic finds wrong with a job file, in lines for people: place, key, what was found, what is allowed."""

import re
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from beamfeed.contract.config.section import Section
from beamfeed.contract.config.wanted import Key, annotation_at, key_words_for, section_of, shown, value_at, words_for
from beamfeed.contract.errors import near_miss

Places = dict[Key, str]  # of each key, such as `job.yaml:7`
TEXTS = ("text", "letters", "small letters")  # how what is allowed begins where that is text
INCLUDE = "include"  # a key of job files, not of jobs
MOST = 10  # that are told at once
SET = "--set "  # how the place of an override begins


def dotted(key: Key) -> str:
    """`("source", "files", 0)` -> `source.files.0`."""
    return ".".join(str(part) for part in key)


def describe(error: ValidationError, places: Places, model: type[Section], data: Any) -> list[str]:
    """A line for each key that something is wrong with.

    Args:
      error: of the model.
      places: of the keys, such as `job.yaml:7`, and of the file itself at the empty key.
      model: of the whole file.
      data: what the file holds.
    """
    by_key: dict[Key, list[Any]] = {}
    for mistake in error.errors():
        by_key.setdefault(_key_of(mistake, data), []).append(mistake)
    # Where a key may hold a word or a mapping, a mistake in a mapping is not that it is no word.
    inner = [key for key in by_key if not any(other[: len(key)] == key != other for other in by_key)]
    lines = [_describe(key, by_key[key], places, model, data) for key in inner[:MOST]]
    return [*lines, *([f"{places[()]}: {len(inner) - MOST:,} more mistakes"] if len(inner) > MOST else [])]


def _key_of(error: Any, data: Any) -> Key:
    """Where in the file an error is: pydantic's location without what stands for the members of unions."""
    key: list[str | int] = []
    for part in error["loc"]:
        index = isinstance(part, int)  # of a list; in a mapping it is a key that is no text
        if isinstance(data, dict):
            is_key = not index and part in data
        else:
            is_key = index and isinstance(data, list) and part < len(data)
        data = data[part] if is_key else data
        if is_key or (part is error["loc"][-1] and error["type"] == "missing" and not index):
            key.append(part)
    return tuple(key)


def _describe(key: Key, errors: Sequence[Any], places: Places, model: type[Section], data: Any) -> str:
    """One line; there are several errors where a key may be of several types."""
    error = errors[0]
    kind, value = error["type"], error.get("input")
    message = error["msg"].removeprefix("Value error, ")
    place = _place_of(key, places, message if kind == "value_error" else "")
    if key:
        place += f": {dotted(key)}"
    if kind == "extra_forbidden":
        section = section_of(annotation_at(key[:-1], model, data), value_at(key[:-1], data)) or Section
        allowed = [field.alias or name for name, field in section.model_fields.items()]
        if key == (INCLUDE,):
            return f"{place}: belongs into a job file, at its top"
        allowed += [INCLUDE] if len(key) == 1 else []
        return f"{place}: unknown key{near_miss(key[-1], allowed)} (allowed: {', '.join(allowed)})"
    if kind == "invalid_key":
        return f"{place}: has the key {shown(value)}, which YAML does not take for text; write it in quotes"
    if kind == "value_error":
        return f"{place}: {message}"
    annotation = annotation_at(key, model, data)
    if error["loc"][-1] == "[key]":
        words = key_words_for(annotation) or key_words_for(annotation_at(key[:-1], model, data))
        plain = re.sub(r"[^a-z0-9_]+", "_", str(value).lower()).strip("_")
        near = f"; {plain} is one" if words.startswith("small letters") and plain[:1].isalpha() else ""
        return f"{place}: {shown(value)} is not allowed as a name, it must be {words}{near}"
    if kind == "missing" and value_at(key, data) is None:
        return f"{place}: is missing, it must be {words_for(annotation)}"
    if kind == "literal_error" and len(errors) == 1:
        options = _options(error)
        return f"{place}: {shown(value)} is not allowed{near_miss(value, options)} (allowed: {', '.join(options)})"
    value, words = value_at(key, data), words_for(annotation)
    if value is None:
        return f"{place}: is empty, it must be {words}"
    if words.startswith("a mapping"):
        return f"{place}: needs {words}, not {shown(value)}"
    if isinstance(value, str) and "[one, two]" in words:
        words = words.replace("[one, two]", f"[{value}]")
    quotes = "; write it in quotes" if words.startswith(TEXTS) and not isinstance(value, str | list | dict) else ""
    return f"{place}: {shown(value)} is not allowed, it must be {words}{quotes}"


def _place_of(key: Key, places: Places, message: str) -> str:
    """The place of a key, or of what is above it. A rule of a whole section may be broken by overrides of its keys."""
    if message and (named := re.match(r"([a-z_.]+)(: |$)", message)):  # a rule that begins with the key that breaks it
        named_key = (*key, *named[1].split("."))
        key = next((named_key[:n] for n in range(len(named_key), len(key), -1) if named_key[:n] in places), key)
    place = next(places[key[:n]] for n in range(len(key), -1, -1) if key[:n] in places)
    below = [
        line
        for inner, line in places.items()
        if inner[: len(key)] == key and line.startswith(SET) and (key or dotted(inner) in message)
    ]
    overrides = [line for line in dict.fromkeys(below) if line != place]
    return ", ".join([place, *overrides]) if message else place


def _options(error: Any) -> list[str]:
    return [option.strip("'\" ") for option in error["ctx"]["expected"].replace(" or ", ",").split(",")]
