"""Times as people write them."""

import pytest

from beamfeed.contract.dataset.times import time_text

SECOND = 10**9


@pytest.mark.parametrize(
    ("ticks", "time", "text"),
    [
        (1_709_294_405 * SECOND, "instant", "2024-03-01 12:00:05"),
        (1_709_294_405 * SECOND + 250_000_000, "instant", "2024-03-01 12:00:05.25"),
        (-SECOND, "instant", "1969-12-31 23:59:59"),
        (2**62, "instant", "2116-02-20 23:53:38.427387904"),
        (1_709_294_405 * SECOND, "duration", "2024-03-01 12:00:05"),
        (90 * SECOND + 500_000_000, "duration", "90.5 s"),
        (-90 * SECOND, "duration", "-90 s"),
        (3 * SECOND, "decimal", "3"),
        (177, "number", "177"),
        (1_709_294_405 * SECOND, None, "1709294405000000000"),
    ],
)
def test_a_time_is_told_as_what_it_counts(ticks, time, text):
    assert time_text(ticks, time) == text
