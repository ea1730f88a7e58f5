"""How steps of preprocessing follow each other: written once, in the operations of a driver.

A step is a pure function. `Driver` runs steps in this process, on lists, and `beam_driver.OnBeam` in Beam, on
PCollections: so `beamfeed check` takes the very steps of a run, and loads neither Beam nor TensorFlow.
"""

from collections.abc import Callable, Iterable
from typing import Any

Collection = Any  # a list, or Beam's PCollection


class Driver:
    """Operations on collections, each done when it is called. Labels name them where a runner shows its steps."""

    def once(self, label: str) -> Collection:
        """A collection of one: None."""
        return [None]

    def map(self, label: str, items: Collection, step: Callable[..., Any], *arguments: Any) -> Collection:
        """What a step makes of each item.

        Args:
          label: of the operation.
          items: the first argument of each call.
          step: a function.
          arguments: of each call, the same ones; `single` and `every` make them of collections.
        """
        return [step(item, *arguments) for item in items]

    def flat_map(
        self, label: str, items: Collection, step: Callable[..., Iterable[Any]], *arguments: Any
    ) -> Collection:
        """All that a step gives for each item; arguments as for `map`."""
        return [result for item in items for result in step(item, *arguments)]

    def group(self, label: str, items: Collection, key: Callable[[Any], Any]) -> Collection:
        """A collection of (key, the items that have it), in any order."""
        groups: dict[Any, list[Any]] = {}
        for item in items:
            groups.setdefault(key(item), []).append(item)
        return list(groups.items())

    def add_up(self, label: str, items: Collection, zero: Any) -> Collection:
        """A collection of one: the sum of the items in any order; of none `zero`, which adds nothing."""
        return [sum(items, zero)]

    def single(self, items: Collection) -> Any:
        """A collection of one, as an argument of a step."""
        (item,) = items
        return item

    def every(self, items: Collection) -> Any:
        """All items, as an argument of a step."""
        return items

    def made(self, items: Collection, make: Callable[[Collection, str], Collection]) -> Collection | None:
        """A collection of one, the path of what steps of Beam make of the items; None in this process.

        Args:
          items: that they are applied to.
          make: of the items, and a folder for files that the job needs until its end -> the path.
        """
        return None
