"""Figures that are measured again until they agree. Pure."""

import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

ROUNDS, MOST_ROUNDS = 3, 9  # of one figure: the last ones that must agree, and after how many it is given up
STEADY = 0.1  # by so much of their median, at most, may they differ


class Figure(NamedTuple):
    """What was measured.

    Attributes:
      value: the median of the last rounds.
      spread: how far these are apart, as a part of it.
    """

    value: float
    spread: float

    @property
    def is_steady(self) -> bool:
        """Whether the rounds agree."""
        return self.spread <= STEADY


def figure_of(rounds: Sequence[float]) -> Figure:
    """The figure that the last rounds make."""
    last = rounds[-ROUNDS:]
    middle = statistics.median(last)
    return Figure(middle, (max(last) - min(last)) / middle if middle else 0.0)


def until_steady(measure: Callable[[], Sequence[float]]) -> list[Figure]:
    """Measures several things in turn, so that what slows the machine down slows them all, until they are steady.

    Args:
      measure: a round: a number for each of them.
    """
    rounds: list[Sequence[float]] = []
    while True:
        rounds.append(measure())
        found = [figure_of(one) for one in zip(*rounds, strict=True)]
        if len(rounds) >= ROUNDS and (all(one.is_steady for one in found) or len(rounds) >= MOST_ROUNDS):
            return found
