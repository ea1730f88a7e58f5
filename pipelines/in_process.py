"""What Beam does for jobs of many machines, and need not for one that stays in this process: a third of a small one."""

import bz2
import functools
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from apache_beam import DoFn
from apache_beam.internal import cloudpickle_pickler, pickler
from apache_beam.runners.worker import bundle_processor
from apache_beam.runners.worker.statesampler import StateSampler
from apache_beam.transforms import core, userstate

SAMPLING_MS = 5
_STAY = ContextVar("steps stay in this process", default=False)


def remember_specs() -> None:
    """Lets Beam look only once through the methods of a class of DoFns for the states and timers that they name.

    It does so eight times for every step of a pipeline, from the signatures of some thirty methods: a third of the
    processor's time of a small job.
    """
    find = userstate.get_dofn_specs
    if hasattr(find, "__wrapped__"):
        return
    known: dict[Any, Any] = {}

    @functools.wraps(find)
    def specs_of(dofn: DoFn) -> Any:
        own = vars(dofn)
        if any(isinstance(value, MethodType | DoFn) for value in own.values()):  # these are looked through, too
            return find(dofn)
        key = type(dofn), frozenset(name for name in own if hasattr(type(dofn), name))  # which it has in their place
        if key not in known:
            known[key] = find(dofn)
        return known[key]

    userstate.get_dofn_specs = specs_of


def remember_arguments() -> None:
    """Lets Beam look only once at a method for the arguments that it takes, and not at each of some forty calls."""
    find = core.get_function_args_defaults
    if hasattr(find, "__wrapped__"):
        return
    known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @functools.wraps(find)
    def arguments_of(function: Any) -> Any:
        if not isinstance(function, MethodType):
            return find(function)
        if function.__func__ not in known:
            known[function.__func__] = find(function)
        return known[function.__func__]

    core.get_function_args_defaults = arguments_of  # type: ignore[assignment]


def sample_often() -> None:
    """Lets a step of Beam end as soon as it is done.

    It ends when the thread that samples what it does wakes next, which is up to 200 ms later where it took a second.
    """
    StateSampler.__init__.__defaults__ = (SAMPLING_MS,)


@contextmanager
def steps_stay(here: bool) -> Iterator[None]:
    """Lets Beam, in this thread, pack steps for this process alone: not with bz2, and by the names of what has one.

    Args:
      here: whether they do stay in this process; if not, it packs them as ever.
    """
    if here:
        _pack_less()
    token = _STAY.set(here)
    try:
        yield
    finally:
        _STAY.reset(token)


@functools.cache
def _pack_less() -> None:
    pickled = cloudpickle_pickler._dumps

    def dumps(step: Any, *options: Any) -> bytes:
        if _STAY.get():
            with suppress(Exception):  # of what has no name
                return pickle.dumps(step, pickle.HIGHEST_PROTOCOL)
        return pickled(step, *options)

    def dumps_here(step: Any) -> bytes:
        with steps_stay(True):
            return pickler.dumps(step)

    cloudpickle_pickler._dumps = dumps  # type: ignore[assignment]
    cloudpickle_pickler.bz2 = SimpleNamespace(  # type: ignore[assignment]
        compress=lambda step, compresslevel: step if _STAY.get() else bz2.compress(step, compresslevel),
        decompress=lambda packed: bz2.decompress(packed) if packed.startswith(b"BZh") else packed,  # as no pickle does
    )
    # Its workers pack for themselves.
    bundle_processor.pickler = SimpleNamespace(dumps=dumps_here, loads=pickler.loads)  # type: ignore[assignment]
