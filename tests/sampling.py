"""Slow tests of many cases: a sample in `.ci/run`, all of them by hand."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sample(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """All cases for `pytest.mark.parametrize`; those that are not kept are `long`."""
    cases = list(cases)
    assert all(one in cases for one in kept)
    return [
        one if one in kept else pytest.param(*(one if isinstance(one, tuple) else (one,)), marks=pytest.mark.long)
        for one in cases
    ]
