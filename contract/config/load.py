"""Reads a job file: its keys, `--set` overrides, and errors a user can act on.

Everything that is wrong is told at once, a line each: file, line, key, what was
found, what is allowed, and the near miss.
"""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import ValidationError

from beamfeed.contract.config.document import INCLUDE, Key, Places, dotted, parse_document, read_text
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import OneOf, OneOrMore, Section
from beamfeed.contract.errors import UserError, near_miss

AnyJob = TypeVar("AnyJob", bound=Job)


def load_job(path: str, overrides: Sequence[str] = ()) -> Job:
    """Reads the job file at `path` (local or gs://) and applies `key=value` overrides, as a stage does.

    The sections of backends are passed over: the launcher checks them (`beamfeed.launcher.job`).

    Args:
      path: the job file.
      overrides: such as `windows.stride=4`; the value is YAML.

    Raises:
      UserError: with one line per mistake.
    """
    return load_as(Job, path, overrides)


def load_as(model: type[AnyJob], path: str, overrides: Sequence[str] = ()) -> AnyJob:
    """Like `load_job`, where the file must hold what `model` asks for."""
    return parse_as(model, read_text(path), overrides, name=path)


def parse_job(text: str, overrides: Sequence[str] = (), name: str = "job") -> Job:
    """Like `load_job`, from the text of a job file."""
    return parse_as(Job, text, overrides, name)


def parse_as(model: type[AnyJob], text: str, overrides: Sequence[str] = (), name: str = "job") -> AnyJob:
    """Like `load_as`, from the text of a job file."""
    document = parse_document(text, name, list(Job.model_fields))
    data, places = document.data, document.places
    for override in overrides:
        _apply(override, data, places)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        by_key: dict[Key, list[Any]] = {}
        for found in error.errors():
            by_key.setdefault(_key_of(found, data), []).append(found)
        # Where a key may hold a word or a mapping, a mistake in a mapping is not that it is no word.
        inner = [key for key in by_key if not any(other[: len(key)] == key != other for other in by_key)]
        lines = [_describe(key, by_key[key], places, model, data) for key in inner]
        raise UserError("\n".join(lines)) from None


def _apply(override: str, data: dict[str, Any], places: Places) -> None:
    dotted, equals, value_text = override.partition("=")
    if not equals or not dotted:
        raise UserError(f"--set {override}: needs key=value, such as windows.stride=4")
    try:
        value = yaml.safe_load(value_text)
    except yaml.YAMLError:
        raise UserError(f"--set {override}: the value is not YAML") from None
    *parents, last = dotted.split(".")
    target = data
    for parent in parents:
        child = target.get(parent)
        if child is None:
            child = target[parent] = {}
        if not isinstance(child, dict):
            raise UserError(f"--set {override}: {parent} holds no keys")
        target = child
    target[last] = value
    key = tuple(dotted.split("."))
    for place in [k for k in places if k[: len(key)] == key]:
        del places[place]
    for depth in range(1, len(key) + 1):
        places.setdefault(key[:depth], f"--set {override}")


def _key_of(error: Any, data: Any) -> Key:
    """Where in the file an error is: pydantic's location without what stands for the members of unions."""
    key: list[str | int] = []
    for part in error["loc"]:
        index = isinstance(part, int)  # of a list; in a mapping it is a key that is no text
        there = not index and part in data if isinstance(data, dict) else index and isinstance(data, list)
        data = data[part] if there else data
        if there or (part is error["loc"][-1] and error["type"] == "missing"):
            key.append(part)
    return tuple(key)


def _describe(key: Key, errors: list[Any], places: Places, model: type[Job], data: Any) -> str:
    """Turns pydantic's errors about one key into one line; there are several where a key may be of several types."""
    place = next(places[key[:n]] for n in range(len(key), -1, -1) if key[:n] in places)
    where = f"{place}: {dotted(key)}" if key else place
    error = errors[0]
    kind, found = error["type"], error.get("input")
    if kind == "extra_forbidden":
        section = _section_at(key[:-1], model, data)
        if new := section.renamed.get(str(key[-1])):
            return f"{where}: is now called {dotted((*key[:-1], new))}"
        allowed = [field.alias or name for name, field in section.model_fields.items()]
        allowed += [INCLUDE] if len(key) == 1 else []
        return f"{where}: unknown key{near_miss(key[-1], allowed)} (allowed: {', '.join(allowed)})"
    if kind == "missing":
        return f"{where}: is missing"
    if kind == "invalid_key":
        return f"{where}: has the key {found!r}, which YAML does not take for text; write it in quotes"
    if kind == "value_error":
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    if kind == "literal_error" and len(errors) == 1:
        options = _options(error)
        return f"{where}: {found!r} is not allowed{near_miss(found, options)} (allowed: {', '.join(options)})"
    allowed = [
        " or ".join(_options(e)) if e["type"] == "literal_error" else e["msg"].removeprefix("Input should be ")
        for e in errors
    ]
    return f"{where}: {found!r} is not allowed, it must be {' or '.join(allowed)}"


def _options(error: Any) -> list[str]:
    return [option.strip("'\" ") for option in error["ctx"]["expected"].replace(" or ", ",").split(",")]


def _section_at(key: Key, model: type[Job], data: Any) -> type[Section]:
    """The model of the section at `key`."""
    here: Any = model
    for part in key:
        section, data = _section_of(here, data), data[part]
        fields = {(field.alias or name): field for name, field in section.model_fields.items()} if section else {}
        field = fields.get(str(part))
        here = _values_of(here) if field is None else Annotated[field.annotation, *field.metadata, None]
    return _section_of(here, data) or Section


def _section_of(annotation: Any, value: Any) -> type[Section] | None:
    """The section that an annotation stands for, where the file has `value`."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    for one in getattr(annotation, "__metadata__", ()):
        if isinstance(one, OneOf):
            return one.member(value)
        if isinstance(one, OneOrMore) and isinstance(value, dict):
            return _section_of(_values_of(annotation), value)
    if get_origin(annotation) in (dict, list):
        return None
    return next((found for one in get_args(annotation) if (found := _section_of(one, value))), None)


def _values_of(annotation: Any) -> Any:
    """What a list or a mapping holds."""
    if get_origin(annotation) in (dict, list):
        return get_args(annotation)[-1]
    return next((found for one in get_args(annotation) if (found := _values_of(one))), None)
