"""Reads a job file: YAML with line numbers, `--set` overrides, and errors a user can act on.

Everything that is wrong is told at once, a line each: file, line, key, what was
found, what is allowed, and the near miss.
"""

import difflib
from collections.abc import Sequence
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import Section
from beamfeed.contract.errors import UserError

Key = tuple[str | int, ...]
AnyJob = TypeVar("AnyJob", bound=Job)
Places = dict[Key, str]


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
    try:
        text = storage.read_text(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such job file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as a job file: {str(error).splitlines()[0]}") from None
    return parse_as(model, text, overrides, name=path)


def parse_job(text: str, overrides: Sequence[str] = (), name: str = "job") -> Job:
    """Like `load_job`, from the text of a job file."""
    return parse_as(Job, text, overrides, name)


def parse_as(model: type[AnyJob], text: str, overrides: Sequence[str] = (), name: str = "job") -> AnyJob:
    """Like `load_as`, from the text of a job file."""
    data, places = _parse_yaml(text, name)
    for override in overrides:
        _apply(override, data, places)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        by_key: dict[Key, list[Any]] = {}
        for found in error.errors():
            by_key.setdefault(_key_of(found), []).append(found)
        lines = [_describe(key, found, places, model) for key, found in by_key.items()]
        raise UserError("\n".join(lines)) from None


def _parse_yaml(text: str, name: str) -> tuple[dict[str, Any], Places]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{name}{line}: is not YAML: {problem}") from None
    if not isinstance(data, dict):
        raise UserError(f"{name}: a job file is a mapping with the keys {', '.join(Job.model_fields)}")
    places: Places = {(): f"{name}:1"}
    _find_places(node, (), places, name)
    return data, places


def _find_places(node: yaml.Node | None, key: Key, places: Places, name: str) -> None:
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key_node, value_node in node.value:
            child = (*key, key_node.value)
            if child in seen:
                raise UserError(f"{name}:{key_node.start_mark.line + 1}: {_dotted(child)} is given twice")
            seen.add(child)
            places[child] = f"{name}:{key_node.start_mark.line + 1}"
            _find_places(value_node, child, places, name)
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            places[(*key, i)] = f"{name}:{item.start_mark.line + 1}"
            _find_places(item, (*key, i), places, name)


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


def _key_of(error: Any) -> Key:
    return tuple(part for part in error["loc"] if not _is_union_tag(part))


def _describe(key: Key, errors: list[Any], places: Places, model: type[Job]) -> str:
    """Turns pydantic's errors about one key into one line; there are several where a key may be of several types."""
    place = next(places[key[:n]] for n in range(len(key), -1, -1) if key[:n] in places)
    where = f"{place}: {_dotted(key)}" if key else place
    error = errors[0]
    kind, found = error["type"], error.get("input")
    if kind == "extra_forbidden":
        section = _section_at(key[:-1], model)
        if new := section.renamed.get(str(key[-1])):
            return f"{where}: is now called {_dotted((*key[:-1], new))}"
        allowed = [field.alias or name for name, field in section.model_fields.items()]
        return f"{where}: unknown key{_near_miss(key[-1], allowed)} (allowed: {', '.join(allowed)})"
    if kind == "missing":
        return f"{where}: is missing"
    if kind == "value_error":
        return f"{where}: {error['msg'].removeprefix('Value error, ')}"
    if kind == "literal_error" and len(errors) == 1:
        options = _options(error)
        return f"{where}: {found!r} is not allowed{_near_miss(found, options)} (allowed: {', '.join(options)})"
    allowed = [
        " or ".join(_options(e)) if e["type"] == "literal_error" else e["msg"].removeprefix("Input should be ")
        for e in errors
    ]
    return f"{where}: {found!r} is not allowed, it must be {' or '.join(allowed)}"


def _options(error: Any) -> list[str]:
    return [option.strip("'\" ") for option in error["ctx"]["expected"].replace(" or ", ",").split(",")]


def _near_miss(found: Any, allowed: Sequence[str]) -> str:
    near = difflib.get_close_matches(str(found), allowed, n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _is_union_tag(part: str | int) -> bool:
    """Whether a part of pydantic's location is the name of a union's member, not a key."""
    return isinstance(part, str) and (
        part in ("str", "int", "float") or part.startswith(("literal[", "list[", "constrained-", "function-"))
    )


def _section_at(key: Key, model: type[Job]) -> type[Section]:
    """The model of the section at `key`."""
    found: type[Section] = model
    for part in key:
        if isinstance(part, str):
            by_alias = {(field.alias or name): field for name, field in found.model_fields.items()}
            found = _section_of(by_alias[part].annotation) if part in by_alias else found
    return found


def _section_of(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    members = [_section_of(member) for member in getattr(annotation, "__args__", ())]
    return next((member for member in members if member), None)


def _dotted(key: Key) -> str:
    return ".".join(str(part) for part in key)
