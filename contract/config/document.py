"""A job file as data: YAML with the place of each key, variables filled in, and the files that it includes."""

import os
import re
from dataclasses import dataclass
from typing import Any

import yaml

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.mistakes import INCLUDE, Places, dotted
from beamfeed.contract.config.variables import Variables
from beamfeed.contract.config.wanted import Key, shown
from beamfeed.contract.errors import UserError, first_line

DEEPEST = 50  # keys in keys
# Keys and items, also those that an alias repeats: a few hundred bytes of nested aliases stand for billions.
MOST_KEYS = 100_000


class JobLoader(yaml.SafeLoader):
    """YAML without the numbers of version 1.1 that people do not mean: 010 and 1:30 are text, neither 8 nor 90."""


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    odd = {"tag:yaml.org,2002:int": r"(?![-+]?0[0-7_]+$)(?!.*:)", "tag:yaml.org,2002:float": r"(?!.*:)"}
    return {
        letter: [(tag, re.compile(odd[tag] + pattern.pattern, pattern.flags) if tag in odd else pattern)
                 for tag, pattern in resolvers]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }  # fmt: skip


JobLoader.yaml_implicit_resolvers = _resolvers()


@dataclass(frozen=True)
class Document:
    """What a job file and those that it includes say.

    Attributes:
      data: their keys.
      places: of each key, the file and the line.
    """

    data: dict[str, Any]
    places: Places


def read_text(path: str) -> str:
    """The text of a job file.

    Raises:
      UserError: if there is none.
    """
    try:
        return storage.read_text(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such job file") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, it must be a job file, such as job.yaml") from None
    except UnicodeDecodeError as error:
        wrong_byte = f"byte 0x{error.object[error.start]:02x} at place {error.start:,}"
        raise UserError(f"{path}: is not text in UTF-8 ({wrong_byte}); save the job file as UTF-8") from None
    except OSError as error:
        reason = error.strerror or first_line(error)
        raise UserError(f"{path}: cannot be read as a job file: {reason}") from None


def parse_document(text: str, name: str) -> Document:
    """What a job file says, from its text.

    Args:
      text: of the file.
      name: its path, local or gs://, which messages begin with.

    Raises:
      UserError: with a line for each mistake.
    """
    return _parse(text, (name,))


def folder_of(path: str) -> str:
    """The folder of a file: what `${JOB_DIR}` stands for in a job file."""
    return path.rpartition("/")[0] or ("/" if path.startswith("/") else ".")


def _parse(text: str, chain: tuple[str, ...]) -> Document:
    """What a file says; `chain` holds the job file, the files that lead from there to this one, and this one."""
    name, variables = chain[-1], Variables(folder_of(chain[0]))
    try:
        loader = JobLoader(variables.protect(text))
        try:
            node = loader.get_single_node()
            places = _read_nodes(node, loader, name, variables)
            data = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or first_line(error)
        raise UserError(f"{name}{line}: is not YAML: {variables.restore(problem)}") from None
    except ValueError as error:  # of a date such as 2024-13-01
        raise UserError(f"{name}: holds what looks like a date or a number, but is none: {error}; use quotes") from None
    except RecursionError:
        raise UserError(f"{name}: is nested too deeply for a job file") from None
    if not isinstance(data, dict):
        content = "is empty" if data is None else f"holds {shown(data)}"
        raise UserError(f"{name}: {content}; a job file is a mapping with the keys {', '.join(Job.model_fields)}")
    if INCLUDE not in data:
        return Document(data, places)
    included = data.pop(INCLUDE)
    origin = places.pop((INCLUDE,), places[()])  # a merge key of YAML brings it without a place
    base = Document({}, {})
    for place, path in enumerate(_paths(included, origin)):
        place_of = places.pop((INCLUDE, place), origin)
        base = _merge(base, _include(path, place_of, chain))
    return _merge(base, Document(data, places))


def _paths(included: Any, origin: str) -> list[str]:
    paths = [included] if isinstance(included, str) else included
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise UserError(f"{origin}: {INCLUDE}: {included!r} is not allowed, it must be a path or a list of paths")
    return paths


def _include(path: str, origin: str, chain: tuple[str, ...]) -> Document:
    """What an included file says; its path counts from the folder of the file that includes it."""
    path, by = os.path.expanduser(path), chain[-1]
    if "/" in by and not storage.is_remote(path) and not os.path.isabs(path):
        path = f"{folder_of(by).rstrip('/')}/{path}"
    scheme = storage.GS if storage.is_remote(path) else ""
    path = scheme + os.path.normpath(path.removeprefix(scheme))
    if path in chain:
        cycle = " -> ".join([*chain[chain.index(path) :], path])
        raise UserError(f"{origin}: {INCLUDE}: files include each other: {cycle}")
    try:
        text = read_text(path)
    except UserError as error:
        raise UserError(f"{origin}: {INCLUDE}: {error}") from None
    return _parse(text, (*chain, path))


def _merge(base: Document, over: Document) -> Document:
    """Both together: mappings key by key; of all else the one that is over wins, lists too."""
    data, places = dict(base.data), dict(base.places)

    def put(target: dict[str, Any], source: dict[str, Any], key: Key) -> None:
        for name, value in source.items():
            child = (*key, name)
            current = target.get(name)
            if isinstance(value, dict) and isinstance(current, dict):
                target[name] = dict(current)
                put(target[name], value, child)
            else:
                target[name] = value
                forget(child, places)

    put(data, over.data, ())
    return Document(data, {**places, **over.places})


def forget(key: Key, places: Places) -> None:
    """Removes the places of a key and of what is below it."""
    for known in [known for known in places if known[: len(key)] == key]:
        del places[known]


def _read_nodes(node: yaml.Node | None, loader: yaml.SafeLoader, name: str, variables: Variables) -> Places:
    """Fills variables into the values of a file, and notes the file and the line of each key.

    Raises:
      UserError: if a key is given twice or there are too many; with a line for each value that cannot be filled in.
    """
    places: Places = {(): f"{name}:1"}
    filled: set[int] = set()
    mistakes: list[str] = []

    def visit(node: yaml.Node | None, key: Key) -> None:
        if len(key) > DEEPEST:  # an alias may hold itself
            raise RecursionError
        if len(places) > MOST_KEYS:
            raise UserError(
                f"{name}: holds more than {MOST_KEYS:,} keys and items, counting those that its aliases (*name) "
                "repeat; write out what is meant, without aliases of aliases"
            )
        if isinstance(node, yaml.MappingNode):
            children = set()
            for key_node, value in node.value:
                place = _place(name, key_node)
                if not isinstance(key_node, yaml.ScalarNode):
                    raise UserError(f"{place}: is not YAML: found unhashable key")
                key_node.value = variables.restore(key_node.value)
                child = (*key, key_node.value)
                if child in children:
                    raise UserError(f"{place}: {dotted(child)} is given twice")
                children.add(child)
                places[child] = place
                visit(value, child)
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                places[(*key, i)] = _place(name, item)
                visit(item, (*key, i))
        elif isinstance(node, yaml.ScalarNode) and id(node) not in filled and variables.holds(node.value):
            filled.add(id(node))  # an alias is the node that it stands for
            try:
                node.value = variables.fill(node.value)
            except ValueError as error:
                mistakes.append(f"{_place(name, node)}: {dotted(key)}: {error}")
                return
            if node.style is None:  # not in quotes: what is filled in may be a number
                node.tag = loader.resolve(yaml.ScalarNode, node.value, (True, False))  # type: ignore[no-untyped-call]

    visit(node, ())
    if mistakes:
        raise UserError("\n".join(mistakes))
    return places


def _place(name: str, node: yaml.Node) -> str:
    return f"{name}:{node.start_mark.line + 1}"
