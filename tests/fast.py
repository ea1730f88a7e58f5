"""Makes many small jobs in one process cheaper, where frameworks work for longer than the rows do.

Beam works out the signatures, types and options of each step again; they depend on classes alone and are kept, as are
the graphs of equal columns. TensorFlow optimizes each graph,
a quarter of the time of tests that read a dataset once; where tests run side by side it is told not to. Jobs in
processes of their own, as slow tests and a share of the torture's fleets run them, know nothing of this.
"""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

from beamfeed.contract.imports import Later, heavy_imports


def skip_graph_optimizer() -> None:
    """Once a process, before TensorFlow's runtime begins."""
    with heavy_imports():
        import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def keep_what_beam_works_out() -> None:
    """Replaces functions of Beam by ones that remember; once a process."""
    with heavy_imports():  # what frameworks tell when they are loaded would be taken for what the first fleet is told
        import tensorflow_transform  # noqa: F401
    keep_all()


def keep_all() -> None:
    """Of all that is here; where it is loaded already."""
    keep_signatures()
    keep_options()
    keep_packed()
    keep_types()
    run_in_one_thread()
    keep_graphs()
    skip_what_only_people_read()


def keep_signatures() -> None:
    """Beam asks for the arguments of each method of each step, and for the source of each."""
    from apache_beam.runners.worker import statecache
    from apache_beam.transforms import core

    from beamfeed.pipelines.in_process import remember_arguments

    remember_arguments()
    # Only what is to be dropped from a full cache hangs on sizes, and Beam looks at all modules for each of them.
    statecache.get_deep_size = lambda *objects: len(objects)
    core._check_fn_use_yield_and_return = lambda function: False  # it reads the source of each, to warn


def keep_packed() -> None:
    """Pipelines that tests make themselves pack their steps as those of jobs do that stay in this process."""
    from apache_beam.options.pipeline_options import DirectOptions
    from apache_beam.pipeline import Pipeline
    from apache_beam.runners.portability.fn_api_runner import FnApiRunner

    from beamfeed.pipelines import in_process

    make = Pipeline.__init__
    if getattr(make, "remembers", False):
        return

    def make_pipeline(self: Any, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        mode = self._options.view_as(DirectOptions).direct_running_mode
        in_process._STAY.set(isinstance(self.runner, FnApiRunner) and mode == "in_memory")

    make_pipeline.remembers = True  # type: ignore[attr-defined]
    in_process._pack_less()
    Pipeline.__init__ = make_pipeline


def skip_what_only_people_read() -> None:
    """Beam keeps for each type where in the code it was named, and looks for IPython at each step."""
    from apache_beam.typehints.decorators import IOTypeHints
    from apache_beam.utils import interactive_utils

    IOTypeHints._make_origin = classmethod(lambda cls, bases, tb=True, msg=(): [])
    interactive_utils.is_in_ipython = lambda: False


def keep_types() -> None:
    """Beam reads annotations, and the code of functions, each time it is to know what a step gives."""
    from apache_beam.typehints import trivial_inference
    from apache_beam.typehints.decorators import IOTypeHints

    if getattr(trivial_inference.infer_return_type, "remembers", False):
        return
    read, infer = IOTypeHints.from_callable, trivial_inference.infer_return_type
    hints: WeakKeyDictionary[Callable, dict[bool, Any]] = WeakKeyDictionary()
    types: dict[tuple, Any] = {}

    def from_callable(function: Any) -> Any:
        if not isinstance(function, MethodType | FunctionType):
            return read(function)
        by_binding = hints.setdefault(getattr(function, "__func__", function), {})
        bound = isinstance(function, MethodType)
        if bound not in by_binding:
            by_binding[bound] = read(function)
        return by_binding[bound]

    def infer_return_type(function: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        code, step = getattr(function, "__func__", function), getattr(function, "__self__", None)
        if not isinstance(code, FunctionType) or code.__closure__ or code.__defaults__:
            return infer(function, inputs, *more, **named)
        values = tuple((name, type(value)) for name, value in getattr(step, "__dict__", {}).items())
        key = code.__code__, code.__module__, type(step), values, tuple(inputs), more, tuple(named.items())
        try:
            if key not in types:
                types[key] = infer(function, inputs, *more, **named)
        except TypeError:  # of what has no hash
            return infer(function, inputs, *more, **named)
        return types[key]

    infer_return_type.remembers = True  # type: ignore[attr-defined]
    trivial_inference.infer_return_type = infer_return_type
    IOTypeHints.from_callable = staticmethod(from_callable)


def run_in_one_thread() -> None:
    """Beam unpacks the steps of each bundle in a thread of its own, lest that takes for ever."""
    from apache_beam.runners.worker import bundle_processor

    class Here:
        def __init__(self, **options: Any): ...

        def __enter__(self) -> "Here":
            return self

        def __exit__(self, *raised: object) -> None: ...

        def submit(self, function: Callable, *arguments: Any) -> Future:
            future: Future = Future()
            try:
                future.set_result(function(*arguments))
            except Exception as error:
                future.set_exception(error)
            return future

    bundle_processor.concurrent = SimpleNamespace(
        futures=SimpleNamespace(ThreadPoolExecutor=Here, TimeoutError=TimeoutError)
    )


def keep_graphs() -> None:
    """A graph has marks in the place of what is learned, so it is the same for all that is of equal columns."""
    from beamfeed.transforms.tracing import Tracing

    trace = Tracing.trace
    if getattr(trace, "remembers", False):
        return
    files: dict[bytes, dict[str, bytes]] = {}

    def trace_once(self: Tracing, graph: Callable[[str], None], folder: str) -> None:
        if self._process is not None or not isinstance(graph, Later) or "://" in folder:
            trace(self, graph, folder)
            return
        schema, *rest = graph._first
        if hasattr(schema, "typical"):
            schema = replace(schema, typical=None)  # a file, which is in another place each time
        key = pickle.dumps((graph._function, schema, *rest))
        if key not in files:
            trace(self, graph, folder)
            paths = [path for path in Path(folder).rglob("*") if path.is_file()]
            files[key] = {str(path.relative_to(folder)): path.read_bytes() for path in paths}
            return
        for name, content in files[key].items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    trace_once.remembers = True  # type: ignore[attr-defined]
    Tracing.trace = trace_once


def keep_options() -> None:
    """Beam parses the options of a job anew for each view of them."""
    from apache_beam.options.pipeline_options import PipelineOptions

    if getattr(PipelineOptions.view_as, "remembers", False):
        return
    views: dict[tuple[type, tuple[str, ...]], Any] = {}

    def view_as(self: Any, cls: type) -> Any:
        key = cls, tuple(self._flags or ())
        if key not in views:
            views[key] = cls(self._flags)
        view = object.__new__(cls)
        view.__dict__.update(views[key].__dict__)
        view._visible_options = copy.deepcopy(view._visible_options)
        for name in view._visible_option_list():
            self._all_options.setdefault(name, getattr(view._visible_options, name))
        view._all_options = self._all_options
        return view

    view_as.remembers = True  # type: ignore[attr-defined]
    PipelineOptions.view_as = view_as
