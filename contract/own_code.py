"""Code of the user's own that a job names as `package.module:name`: found, imported, known by its source."""

import ast
import hashlib
import importlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import resolve_name
from typing import Any

from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.imports import find_pandas

_ROOM = os.path.dirname(os.path.realpath(__file__))
_OURS = tuple(
    os.path.join(os.path.dirname(_ROOM), room, "")
    for room in ("beamfeed", "contract", "launcher", "pipelines", "trainer", "transforms")
)
INSTALLED = frozenset(sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib", "platstdlib"))
_STYLE = re.compile(r"\x1b\[[0-9;]*m")  # Keras prints words in bold, and what fails inside of a layer below that
_CAUSE = re.compile(r"^    (?!File )(\S.*)$", re.MULTILINE)


def import_own(path: str, key: str) -> Any:
    """Imports `package.module:name`, a class or function that the job names at `key`.

    Raises:
      UserError: if there is no such module or name, or the module cannot be imported.
    """
    module_name, _, name = path.partition(":")
    find_pandas()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise UserError(f"{key}: importing {module_name} failed: {one_line(error)}") from error
        raise UserError(_not_found(key, error.name)) from None
    except (Exception, SystemExit) as error:  # a script without a guard may end with sys.exit()
        raise UserError(f"{key}: importing {module_name} failed: {one_line(error)}") from error
    if not callable(attribute := getattr(module, name, None)):
        hint = near_miss(name, [n for n in vars(module) if callable(getattr(module, n))])
        place = getattr(module, "__file__", None) or "a folder"  # that has no __init__.py
        raise UserError(f"{key}: {module_name} ({place}) has no {name!r}{hint}")
    return attribute


def one_line(error: BaseException) -> str:
    """The error in one line, and the last line of code outside of Beamfeed, Python and packages that led to it."""
    message = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else error
    lines = [line for text_line in str(message).splitlines() if (line := _STYLE.sub("", text_line).strip())]
    text = next((line for line in lines if not line.startswith("Exception encountered when calling")), "")
    if text == "in user code:" and (cause := _CAUSE.search(str(error))):  # of a graph: the stack, then the error
        text = cause[1].removeprefix(f"{type(error).__name__}: ")
    if isinstance(error, SyntaxError):
        place: str | None = f"{error.filename}:{error.lineno}"
        text = error.msg
    else:
        frames = traceback.extract_tb(error.__traceback__)
        own_frames = [f for f in frames if not _is_ours(f.filename) and not _is_installed(f.filename)]
        place = f"{own_frames[-1].filename}:{own_frames[-1].lineno}" if own_frames else None
    return type(error).__name__ + (f": {text}" if text else "") + (f" ({place})" if place else "")


def _is_ours(filename: str) -> bool:
    return os.path.realpath(filename).startswith(_OURS)


def _is_installed(filename: str) -> bool:
    """Whether a file of code is Python's or of an installed package."""
    python = os.path.dirname(os.__file__)
    return not os.path.isabs(filename) or filename.startswith(python) or "site-packages" in filename


def code_digest(paths: Sequence[str], key: str, folders: Sequence[str] = ()) -> str:
    """What stands for the source of all code that some `module:name` run, 64 hex digits. Nothing is imported.

    It covers each module, and those that it imports from where modules are looked for or from the folder that its
    package is in; of an installed package, those of the package.

    Args:
      paths: what the job names.
      key: where it does.
      folders: where modules are looked for before the current folder and Python's own.

    Raises:
      UserError: if there is no such module.
    """
    code: dict[str, bytes] = {}
    for path in paths:
        module = path.partition(":")[0]
        if (spec := find_module(module, folders)) is None:
            raise UserError(_not_found(key, module))
        _collect(module, spec, code, [*folders, os.getcwd()])
    digest = hashlib.sha256()
    for name, source in sorted(code.items()):
        digest.update(f"{name}\n{len(source)}\n".encode() + source)
    return digest.hexdigest()


def find_module(module: str, folders: Sequence[str] = ()) -> ModuleSpec | None:
    """Where a module is, without importing it or the packages that it is in."""
    importlib.invalidate_caches()
    return _find(module, [*folders, os.getcwd()]) or _find(module, None)


def _find(module: str, path: Sequence[str] | None) -> ModuleSpec | None:
    spec, name = None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        finders = [PathFinder] if path is not None else sys.meta_path
        specs = (finder.find_spec(name, path) for finder in finders)
        if (spec := next((candidate for candidate in specs if candidate is not None), None)) is None:
            return None
        path = spec.submodule_search_locations or []
    return spec


def _collect(module: str, spec: ModuleSpec, code: dict[str, bytes], folders: Sequence[str]) -> None:
    """Adds the source of a module and of what it imports from `folders` or from beside it, by their names."""
    top = module.partition(".")[0]
    folder = folder_of(module, spec)
    installed = folder in INSTALLED
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in code or (installed and name.partition(".")[0] != top):
            continue
        spec_ = _find(name, [folder] if installed else [*folders, folder])
        if spec_ is None or spec_.loader is None or spec_.origin is None:
            continue
        source: bytes = spec_.loader.get_data(spec_.origin)  # type: ignore[attr-defined]
        code[name] = source
        waiting += [*_parents(name), *_imports(source, name, spec_.submodule_search_locations is not None)]


def folder_of(module: str, spec: ModuleSpec) -> str:
    """The folder, or the archive, that holds the package or module of the top level."""
    place = spec.origin or (spec.submodule_search_locations or [""])[0]
    is_package = spec.submodule_search_locations is not None and spec.origin is not None
    for _ in range(module.count(".") + 1 + is_package):
        place = os.path.dirname(place)
    return place


def _parents(module: str) -> Iterator[str]:
    while module := module.rpartition(".")[0]:
        yield module


def _imports(source: bytes, module: str, is_package: bool) -> Iterator[str]:
    """The names that a module imports; some of them may be of things in modules."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # told where it is imported
        return
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            try:
                base = resolve_name(base, package)
            except ImportError:
                continue
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _not_found(key: str, module: str) -> str:
    return f"{key}: there is no module {module!r}; start in the folder that holds it, or name that in PYTHONPATH"
