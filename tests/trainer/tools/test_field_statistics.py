"""Statistics and histograms of columns, of times as well."""

import numpy as np
import pytest

from beamfeed.trainer.tools.field_statistics import BINS, describe

NOW = 1_735_689_600_000_000_000  # nanoseconds since 1970, which float64 cannot tell apart by one


@pytest.mark.parametrize("values", [[NOW], [NOW, NOW], [NOW, NOW + 1000], [-(2**63), 2**63 - 1], [5, 5, 5]])
def test_times_and_large_numbers(values):
    found = describe("t", np.array(values, np.int64), "instant")
    assert (found.values, found.min, found.max) == (len(values), min(values), max(values))
    assert sum(found.histogram) == len(values)


def test_each_bin_has_its_values():
    counts = describe("x", np.arange(BINS * 4, dtype=np.int64) + NOW).histogram
    assert counts == [4] * BINS
    alike = describe("x", np.array([1.0, np.nan, np.inf, 1.0], np.float32)).histogram
    assert (sum(alike), max(alike), alike[BINS // 2]) == (2, 2, 2)
