"""Reads a job file: YAML with line numbers, `--set` overrides, and errors a user can act on.

Everything that is wrong is told at once, a line each: file, line, key, what was
found, what is allowed, and the near miss.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.mistakes import describe, dotted
from beamfeed.contract.config.wanted import Key, shown
from beamfeed.contract.errors import UserError

AnyJob = TypeVar("AnyJob", bound=Job)
Places = dict[Key, str]
DEEPEST = 50  # keys in keys


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
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, it must be a job file, such as job.yaml") from None
    except UnicodeDecodeError as error:
        found = f"byte 0x{error.object[error.start]:02x} at place {error.start:,}"
        raise UserError(f"{path}: is not text in UTF-8 ({found}); save the job file as UTF-8") from None
    except OSError as error:
        told = error.strerror or str(error).splitlines()[0]
        raise UserError(f"{path}: cannot be read as a job file: {told}") from None
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
        raise UserError("\n".join(describe(error, places, model, data))) from None


def _parse_yaml(text: str, name: str) -> tuple[dict[str, Any], Places]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        data = yaml.safe_load(text)
        places: Places = {(): f"{name}:1"}
        _find_places(node, (), places, name)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{name}{line}: is not YAML: {problem}") from None
    except ValueError as error:  # of a date such as 2024-13-01
        raise UserError(f"{name}: holds what looks like a date or a number, but is none: {error}; use quotes") from None
    except RecursionError:
        raise UserError(f"{name}: is nested too deeply for a job file") from None
    if not isinstance(data, dict):
        found = "is empty" if data is None else f"holds {shown(data)}"
        raise UserError(f"{name}: {found}; a job file is a mapping with the keys {', '.join(Job.model_fields)}")
    return data, places


def _find_places(node: yaml.Node | None, key: Key, places: Places, name: str) -> None:
    if len(key) > DEEPEST:  # an alias may hold itself
        raise RecursionError
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key_node, value_node in node.value:
            child = (*key, key_node.value)
            if child in seen:
                raise UserError(f"{name}:{key_node.start_mark.line + 1}: {dotted(child)} is given twice")
            seen.add(child)
            places[child] = f"{name}:{key_node.start_mark.line + 1}"
            _find_places(value_node, child, places, name)
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            places[(*key, i)] = f"{name}:{item.start_mark.line + 1}"
            _find_places(item, (*key, i), places, name)


def _apply(override: str, data: dict[str, Any], places: Places) -> None:
    dotted, equals, value_text = override.partition("=")
    override = override.replace("\n", "\\n")  # as it is told
    if not equals or not all(dotted.split(".")):
        raise UserError(f"--set {override}: needs key=value, such as windows.stride=4")
    try:
        value = yaml.safe_load(value_text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set {override}: the value {value_text!r} is not YAML; try it in quotes") from None
    *parents, last = dotted.split(".")
    target = data
    for parent in parents:
        child = target.get(parent)
        if child is None:
            child = target[parent] = {}
        if not isinstance(child, dict):
            raise UserError(f"--set {override}: {parent} is {shown(child)}, it holds no keys")
        target = child
    target[last] = value
    key = tuple(dotted.split("."))
    for place in [k for k in places if k[: len(key)] == key]:
        del places[place]
    for depth in range(1, len(key) + 1):
        places.setdefault(key[:depth], f"--set {override}")
