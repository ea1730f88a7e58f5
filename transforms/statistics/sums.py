"""Adds statistics up."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam


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
