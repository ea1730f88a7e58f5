"""Adds statistics up."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam


class CountRows(beam.CombineFn):
    """Elements -> how many there are, and the rows of all.

    Args:
      rows_of: each gives a number of rows of one.
    """

    def __init__(self, *rows_of: Callable[[Any], int]):
        self._rows_of = rows_of

    def create_accumulator(self) -> tuple[int, ...]:
        return (0,) * (1 + len(self._rows_of))

    def add_input(self, accumulator: tuple[int, ...], element: Any) -> tuple[int, ...]:
        more = (1, *(rows(element) for rows in self._rows_of))
        return tuple(map(sum, zip(accumulator, more, strict=True)))

    def merge_accumulators(self, accumulators: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(map(sum, zip(*accumulators, strict=True)))

    def extract_output(self, accumulator: tuple[int, ...]) -> tuple[int, ...]:
        return accumulator


class AddUp(beam.CombineFn):
    """Statistics -> their sum.

    Args:
      zero: what there is where nothing is added.
    """

    def __init__(self, zero: Any):
        self._zero = zero

    def create_accumulator(self) -> Any:
        return self._zero

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        return sum(accumulators, self._zero)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator
