"""Imports of large frameworks: faster, and without their chatter."""

import gc
import os
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import IO, Any

from beamfeed.contract.errors import PARTS, UserError, not_installed

# Frameworks load these if they are installed, for functions that nothing here calls: half of TensorFlow's time, 160 MB.
# What a user's own code imports is there; Keras's wrappers for scikit-learn alone say that it is not.
UNUSED = frozenset(("bson", "googleapiclient", "matplotlib", "pandas", "pymongo", "scipy", "sklearn"))
# These they name as they are imported, and few programs ask for something of: a fifth of Beam's time, 20 and 14 MB.
LATE = (
    "google.cloud.bigquery",
    "google.cloud.bigquery_storage_v1",
    "google.cloud.dataflow",
    "google.cloud.pubsub",
    "tensorflow._api.v2.lite",
    "tensorflow._api.v2.compat.v1.lite",
    "tensorflow._api.v2.compat.v2.lite",
)
FRAMEWORKS = ("tensorflow", "keras", "tf_keras", "apache_beam")


class Later:
    """A call of a function whose module is loaded when it is called, and not before; to be pickled.

    Args:
      function: module:name.
      first: its first arguments.
    """

    def __init__(self, function: str, *first: Any):
        self._function, self._first = function, first

    def __call__(self, *last: Any) -> Any:
        module, name = self._function.split(":")
        return getattr(import_module(module), name)(*self._first, *last)


class _Late(ModuleType):
    """A module that is loaded, and then an ordinary one, when something of it is asked for.

    Not by what tools ask of each module there is, such as `inspect.getmodule`. Python's own LazyLoader loads at
    `import`, which asks for the spec.
    """

    def __init__(self, spec: ModuleSpec) -> None:
        super().__init__(spec.name)
        self.__spec__: ModuleSpec = spec
        self.__dict__["_loading"] = threading.RLock()
        self._place(spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        if name in ("__file__", "__warningregistry__", "__wrapped__"):
            raise AttributeError(name)
        with self.__dict__["_loading"]:
            if type(self) is _Late:
                if self.__loader__ is not None:  # it is just being loaded, and does not have it yet
                    raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
                self.load()
        return getattr(self, name)

    def load(self) -> None:
        """Makes it the module that it stands for."""
        spec = _spec_of(self.__name__) if self.__spec__.loader is None else self.__spec__
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"No module named {self.__name__!r}", name=self.__name__)
        self.__spec__, self.__loader__, self.__package__ = spec, spec.loader, spec.parent
        self._place(spec)
        try:
            spec.loader.exec_module(self)
        except BaseException:
            self.__loader__ = None  # the next one tries again
            raise
        self.__file__ = spec.origin
        self.__class__ = ModuleType  # type: ignore[assignment]

    def _place(self, spec: ModuleSpec) -> None:
        if spec.submodule_search_locations is not None:
            self.__path__ = spec.submodule_search_locations


class _ParentsFirst:
    """A finder for modules inside of a late one, which is to be loaded before them, as always."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        parent = sys.modules.get(name.rpartition(".")[0])
        if type(parent) is not _Late or parent.__loader__ is not None:
            return None
        getattr(parent, "any", None)  # whatever it has
        module = sys.modules.get(name)
        if module is None:
            return None
        module.__spec__ = ModuleSpec(name, _Loaded(module))  # of a module that is there, Python asks for its own
        return module.__spec__


class _Loaded(Loader):
    """A loader of a module that was loaded with the one that it is in."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _spec_of(name: str) -> ModuleSpec | None:
    parent = name.rpartition(".")[0]
    return PathFinder.find_spec(name, import_module(parent).__path__ if parent else None)


def _put_late(name: str) -> None:
    """Has a module loaded late, unless it is there or is not installed."""
    if name in sys.modules:
        return
    parent, _, child = name.rpartition(".")
    if parent.startswith("tensorflow"):  # whose own modules bind it
        spec: ModuleSpec | None = ModuleSpec(name, None)
    else:
        try:
            spec = _spec_of(name)
        except ImportError:
            return
    if spec is not None:
        sys.modules[name] = _Late(spec)
        if parent in sys.modules:
            setattr(sys.modules[parent], child, sys.modules[name])


class _Absent:
    """A finder of modules for which some are not installed while this thread loads one of `loaders`, or any module."""

    def __init__(self, names: Collection[str], loaders: Collection[str]) -> None:
        self._names, self._loaders, self._thread = names, loaders, threading.get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._names and threading.get_ident() == self._thread and self._loads():
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def _loads(self) -> bool:
        """Whether one is being imported: as the import system itself notes it, while the module is in sys.modules."""
        modules = (sys.modules.get(name) for name in self._loaders)
        return not self._loaders or any(
            getattr(module.__spec__, "_initializing", False) for module in modules if module
        )


def lean_imports(*unused: str) -> AbstractContextManager[None]:
    """Wraps imports of frameworks, which then load only what is needed; what else is imported loads all it asks for.

    Args:
      unused: packages that this process does not need either, in addition to UNUSED.
    """
    if not any(isinstance(finder, _ParentsFirst) for finder in sys.meta_path):
        sys.meta_path = [_ParentsFirst(), *sys.meta_path]
    for name in LATE:
        _put_late(name)
    return _absent(UNUSED.union(unused), FRAMEWORKS)


def sklearn_imports() -> AbstractContextManager[None]:
    """Wraps imports of scikit-learn: it loads pandas if it is there, 70 MB, for tables that nothing here gives it."""
    return _absent(("pandas",), ("sklearn",))


@cache
def spare_pandas() -> None:
    """Has pyarrow take pandas for absent, which it would load, 0.2 s and 30 MB, to see that a list is no Series of it.

    For programs of our own; before a module of the user's is imported, `find_pandas` gives it back.
    """
    import pyarrow as pa

    with _absent(("pandas",), ()):
        pa.array([])  # it asks once


def find_pandas() -> None:
    """Where pandas was spared, has pyarrow know it if it is installed: what is a Series is taken for one again."""
    if spare_pandas.cache_info().currsize:
        with suppress(Exception):  # a pandas that is broken is the user's to meet
            sys.modules["pyarrow"].array([]).to_pandas()


@contextmanager
def _absent(names: Collection[str], loaders: Collection[str]) -> Iterator[None]:
    finder = _Absent(names, loaders)
    sys.meta_path = [finder, *sys.meta_path]  # a list of its own: another thread may be going through the old one
    try:
        yield
    finally:
        sys.meta_path = [other for other in sys.meta_path if other is not finder]


@contextmanager
def heavy_imports(*unused: str) -> Iterator[None]:
    """Wraps the imports of Beam and TensorFlow, while the process has a single thread.

    What is written to file descriptor 2 is held back, and shown if the body raises
    something else than a UserError, which says all itself: TensorFlow tells of CPU
    features and absent GPUs there before any log level can reach it. The
    garbage collector pauses: modules are no garbage, and looking through their
    hundreds of thousands of objects takes a quarter of the time. Where a framework
    was loaded, it is never looked through again.

    Args:
      unused: see `lean_imports`.

    Raises:
      UserError: if one of PARTS is not installed.
    """
    sys.stderr.flush()
    saved = os.dup(2)
    before = {name for name in FRAMEWORKS if name in sys.modules}
    collects = gc.isenabled()
    with _scratch() as captured:
        os.dup2(captured.fileno(), 2)
        gc.disable()
        try:
            with lean_imports(*unused):
                yield
        except BaseException as error:
            if isinstance(error, ModuleNotFoundError) and error.name in PARTS:
                raise not_installed(error.name) from None
            if not isinstance(error, UserError):
                captured.seek(0)
                os.write(saved, captured.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            if any(name in sys.modules for name in FRAMEWORKS if name not in before):
                gc.freeze()  # at every call it would keep what is garbage by then, in a notebook all that ran there
            if collects:
                gc.enable()


def _scratch() -> IO[bytes]:
    """A file without a name; where no folder takes one, what is written to it is lost."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return open(os.devnull, "r+b")
