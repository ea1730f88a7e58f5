"""The kinds of source that are tortured, and the one place that looks one up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..check import Problem, compare_windows
from ..fleet import Fleet, Plan, make_fleet
from ..oracle import Expected, expect
from ..write import write_fleet
from .array import expect_array, make_array, write_array
from .rows import compare_rows
from .table import expect_table, make_table


@dataclass(frozen=True)
class Kind:
    """How files of a kind are made and checked.

    Attributes:
      make: the picture of clean files and the job on them.
      write: the files.
      expect: what must come out of a picture.
      compare: a published dataset with that.
    """

    make: Callable[[Plan], Fleet]
    write: Callable[[Fleet, Path], None]
    expect: Callable[[Fleet], Expected]
    compare: Callable[[Path, Any], list[Problem]]


KINDS = {
    "timeseries": Kind(make_fleet, write_fleet, expect, compare_windows),
    "table": Kind(make_table, write_fleet, expect_table, compare_rows),
    "array": Kind(make_array, write_array, expect_array, compare_rows),
}


def kind_of(seed: int) -> tuple[str, int]:
    """The kind of a seed, and its number among those of the kind: every sixteenth is a table, as many are arrays."""
    if seed % 8:
        return "timeseries", seed - seed // 8 - 1
    return ("array" if seed % 16 else "table"), seed // 16
