"""What a user asks for when a folder is adopted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Role

Value = int | float | str
Shape = tuple[int | None, ...]


class Asked(NamedTuple):
    """What is asked of one feature; None where nothing is. See `Request`."""

    role: Role | None
    classes: tuple[str, ...] | None
    default: Value | None
    shape: Shape | None


@dataclass(frozen=True)
class Request:
    """What is to become of a folder. Features are named as the records name them, or as the fields are called.

    Attributes:
      folder: of the shards, local or gs://
      out: where manifest and index go; the folder itself, as a rule.
      name: of the dataset.
      targets, weights, keys, inputs: features with these roles; the others have the role that fits them.
      classes: of a target, the names of its classes in the order of its numbers; none are named: those that it has.
      defaults: of a feature that records may lack, what stands for each of its numbers or strings then.
      shapes: of a feature, the shape of its value; None is an axis of any length.
      splits: by split, a glob of the files' paths below the folder, or a fraction of the files.
    """

    folder: str
    out: str
    name: str
    targets: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    splits: Mapping[SplitName, str | float] = field(default_factory=dict)

    @property
    def watched(self) -> frozenset[str]:
        """The features whose values are counted."""
        return frozenset((*self.targets, *self.weights))

    @property
    def _roles(self) -> dict[Role, tuple[str, ...]]:
        return {"target": self.targets, "weight": self.weights, "key": self.keys, "input": self.inputs}

    @property
    def named(self) -> dict[str, list[str]]:
        """The features that are named, by the option that names them."""
        values = {"--classes": self.classes, "--default": self.defaults, "--shape": self.shapes}
        named = {f"--{role}": names for role, names in self._roles.items()} | values
        return {option: [*names] for option, names in named.items()}

    def of(self, name: str, called: str) -> Asked:
        """What is asked of a feature.

        Args:
          name: what the records call it.
          called: what its field is called.
        """
        role = next((role for role, names in self._roles.items() if name in names or called in names), None)
        options: tuple[Mapping[str, Any], ...] = self.classes, self.defaults, self.shapes
        return Asked(role, *(values.get(name, values.get(called)) for values in options))
