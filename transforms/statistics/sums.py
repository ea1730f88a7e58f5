"""Adds statistics up."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam


class CountRows(beam.CombineFn):
    """Elements -> how many there are, and the rows of all.

    Args:
      rows_of: gives the rows of one.
    """

    def __init__(self, rows_of: Callable[[Any], int]):
        self._rows_of = rows_of

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add_input(self, accumulator: tuple[int, int], element: Any) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + self._rows_of(element)

    def merge_accumulators(self, accumulators: Iterable[tuple[int, int]]) -> tuple[int, int]:
        count, rows = 0, 0
        for more, more_rows in accumulators:
            count, rows = count + more, rows + more_rows
        return count, rows

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
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
