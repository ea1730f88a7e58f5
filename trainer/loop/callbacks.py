"""The user's own code that is told of a training run: `train.callbacks`."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import import_own, one_line

KEY = "train.callbacks"
METHODS = ("on_steps", "on_evaluation", "on_end")


class Callbacks:
    """What the job names, made once. A function is an `on_evaluation`.

    Args:
      paths: `module:name` of classes that take nothing, and have one or more of the methods, or of functions.

    Raises:
      UserError: if one cannot be imported or made, or has none of the methods.
    """

    def __init__(self, paths: Sequence[str]):
        self._calls: dict[str, list[tuple[str, Callable[..., Any]]]] = {name: [] for name in METHODS}
        for path in paths:
            named = import_own(path, KEY)
            if not inspect.isclass(named):
                self._calls["on_evaluation"].append((path, named))
                continue
            callback = _call(path, named)
            methods = [name for name in METHODS if callable(getattr(callback, name, None))]
            if not methods:
                raise UserError(f"{KEY}: {path} has none of the methods {', '.join(METHODS)}")
            for name in methods:
                self._calls[name].append((f"{path}.{name}", getattr(callback, name)))

    def tell(self, name: str, *arguments: Any) -> None:
        """Calls the method of this name of all that have it.

        - `on_steps`: after a call of some steps; the step, and means over them, by name.
        - `on_evaluation`: its line of metrics.jsonl, and the model with the weights that were evaluated.
        - `on_end`: when all is trained, before the export; what is in complete.json.
        """
        for path, call in self._calls[name]:
            _call(path, call, *arguments)


def _call(path: str, call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        raise UserError(f"{KEY}: {path} failed: {one_line(error)}") from error
