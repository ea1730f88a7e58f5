"""Reads a job file: its keys, `--set` overrides, and errors a user can act on.

Everything that is wrong is told at once, a line each: file, line, key, what was
found, what is allowed, and the near miss.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import yaml
from pydantic import ValidationError

from beamfeed.contract.config.document import JobLoader, forget, parse_document, read_text
from beamfeed.contract.config.job import AnyJob, Job
from beamfeed.contract.config.mistakes import Places, describe
from beamfeed.contract.config.variables import escaped
from beamfeed.contract.config.wanted import shown
from beamfeed.contract.errors import UserError


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
    return JobFile(read_text(path), path, overrides).job(model)


def parse_job(text: str, overrides: Sequence[str] = (), name: str = "job") -> Job:
    """Like `load_job`, from the text of a job file."""
    return parse_as(Job, text, overrides, name)


def parse_as(model: type[AnyJob], text: str, overrides: Sequence[str] = (), name: str = "job") -> AnyJob:
    """Like `load_as`, from the text of a job file."""
    return JobFile(text, name, overrides).job(model)


class JobFile:
    """A job file with overrides, read once: jobs are made of it that differ in some values.

    Args:
      text: of the file.
      name: its path, which messages begin with.
      overrides: such as `windows.stride=4`.

    Raises:
      UserError: if it is not YAML, or an override is not one.
    """

    def __init__(self, text: str, name: str, overrides: Sequence[str] = ()):
        document = parse_document(text, name)
        self._values, self._places = document.data, document.places
        for override in overrides:
            _apply(override, self._values, self._places)

    def place(self, *key: str) -> str:
        """Where a key stands, such as `job.yaml:7`; of one that is not there, what is above it."""
        return next(self._places[key[:n]] for n in range(len(key), -1, -1) if key[:n] in self._places)

    def job(self, model: type[AnyJob], values: Mapping[str, Any] | None = None, place: str = "") -> AnyJob:
        """The job.

        Args:
          model: what it must hold.
          values: by keys with dots, in the place of those of the file.
          place: what messages on these begin with.

        Raises:
          UserError: with one line per mistake.
        """
        data, places = (deepcopy(self._values), dict(self._places)) if values else (self._values, self._places)
        for key, value in (values or {}).items():
            _put(key, deepcopy(value), place, data, places)
        try:
            return model.model_validate(data)
        except ValidationError as error:
            raise UserError("\n".join(describe(error, places, model, data))) from None


def job_text(values: dict[str, Any], *, redact_secrets: bool = False) -> str:
    """The text of a job file that holds these keys, as `Job.model_dump` gives them; see `escaped`."""
    return yaml.safe_dump(escaped(values, redact_secrets=redact_secrets), sort_keys=False, width=1000)


def _apply(override: str, data: dict[str, Any], places: Places) -> None:
    dotted, equals, value_text = override.partition("=")
    override = override.replace("\n", "\\n")  # as it is told
    if not equals or not all(dotted.split(".")):
        raise UserError(f"--set {override}: needs key=value, such as windows.stride=4")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(value_text)):
            raise UserError(f"--set {override}: a value cannot hold aliases (*name); write out what is meant")
        value = yaml.load(value_text, JobLoader)  # noqa: S506 - it is a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError):
        raise UserError(f"--set {override}: the value {value_text!r} is not YAML; try it in quotes") from None
    if isinstance(value, str) and value_text.strip()[:1] not in "'\"!&|>":
        value = value_text.strip()  # as it stands, as in a path: there is no comment in it
    _put(dotted, value, f"--set {override}", data, places)


def _put(dotted: str, value: Any, place: str, data: dict[str, Any], places: Places) -> None:
    """Sets a key, with what is above it, to a value that stands at `place`."""
    *parents, last = dotted.split(".")
    target = data
    for parent in parents:
        child = target.get(parent)
        if child is None:
            child = target[parent] = {}
        if not isinstance(child, dict):
            raise UserError(f"{place}: {parent} is {shown(child)}, it holds no keys")
        target = child
    target[last] = value
    key = tuple(dotted.split("."))
    forget(key, places)
    for depth in range(1, len(key) + 1):
        places.setdefault(key[:depth], place)
