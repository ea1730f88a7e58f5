"""Times and spans as a person writes them."""

import numpy as np
import pytest

from beamfeed.transforms.sources.columns.time_units import FLOAT_TICKS, TimeUnits

SECOND = 1_000_000_000
NEW_YEAR = int(np.datetime64("2025-01-01", "ns").astype(np.int64))


@pytest.mark.parametrize(
    ("units", "tick", "message"),
    [
        (TimeUnits("timestamp"), NEW_YEAR, "2025-01-01 00:00:00"),
        (TimeUnits("timestamp"), NEW_YEAR + SECOND // 2, "2025-01-01 00:00:00.5"),
        (TimeUnits("timestamp", aware=True), NEW_YEAR, "2025-01-01 00:00:00 UTC"),
        (TimeUnits("timestamp", zone="Europe/Paris"), NEW_YEAR, "2025-01-01 00:00:00 UTC"),
        (TimeUnits("integer"), 17, "17"),
        (TimeUnits("integer", "s"), 17 * SECOND, "17"),
        (TimeUnits("float"), 3 * FLOAT_TICKS // 2, "1.5"),
        (TimeUnits("row"), 12345678, "12345678"),
    ],
)
def test_a_time_is_told_as_its_column_has_it(units, tick, message):
    assert units.format(tick) == message


@pytest.mark.parametrize(
    ("units", "ticks", "message"),
    [
        (TimeUnits("timestamp"), SECOND, "1s"),
        (TimeUnits("timestamp"), SECOND // 4, "250ms"),
        (TimeUnits("timestamp"), 90 * 60 * SECOND, "1.5h"),
        (TimeUnits("timestamp"), 7, "7ns"),
        (TimeUnits("integer", "m"), 36 * 3600 * SECOND, "1.5d"),
        (TimeUnits("integer"), 10, "10"),
        (TimeUnits("float"), FLOAT_TICKS // 2, "0.5"),
        (TimeUnits("row"), 1, "1"),
    ],
)
def test_a_span_has_a_unit_where_its_column_has_one(units, ticks, message):
    assert units.format_span(ticks) == message
