"""What is watched: which number of an epoch says how good its weights are."""

from collections.abc import Mapping
from dataclasses import dataclass

from beamfeed.contract.config.train import Watch
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.trainer.tasks.objective import Objective


@dataclass(frozen=True)
class Watched:
    """The number that decides.

    Attributes:
      name: loss or a metric.
      high_is_good: whether high values are, not low ones.
    """

    name: str
    high_is_good: bool

    def score(self, measured: Mapping[str, float | None]) -> float | None:
        """The number among all that was measured, turned so that lower ones are better."""
        value = measured[self.name]
        return -value if value is not None and self.high_is_good else value


def find_watched(section: Watch, objective: Objective) -> Watched:
    """What the job wants to be watched.

    Raises:
      UserError: if it is not measured, or cannot tell which values are good.
    """
    names = objective.names()
    if section.metric not in names:
        hint = near_miss(section.metric, names)
        raise UserError(f"train.watch.metric: {section.metric!r} is not measured{hint} (there is: {', '.join(names)})")
    mode = objective.direction(section.metric) if section.mode == "auto" else section.mode
    if mode is None:
        raise UserError(
            f"train.watch.mode: auto cannot tell whether high or low values of {section.metric!r} are good; "
            "say min or max"
        )
    return Watched(section.metric, mode == "max")
