"""The order of rows that come in parts, against a plain loop over all of them."""

from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pytest

from beamfeed.transforms.sources.timeseries.read import Chunk
from beamfeed.transforms.sources.timeseries.survey import Order


@pytest.mark.parametrize("seed", range(40))
def test_decreases_and_repeats_are_told_by_file_and_row_wherever_rows_are_cut(seed):
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(1, 40))
    times = np.cumsum(
        rng.choice([-1, 0, 1], rows, p=[[0, 0, 1], [0.1, 0, 0.9], [0, 0.1, 0.9], [0.1, 0.1, 0.8]][seed % 4])
    )
    places = [("a" if at < rows // 2 else "b", f"row {at if at < rows // 2 else at - rows // 2}") for at in range(rows)]
    steps = [(place, later - time) for place, time, later in zip(places[1:], times, times[1:], strict=False)]
    decrease = next((place for place, step in steps if step < 0), None)
    repeat = next((place for place, step in steps if step == 0), None)

    cuts = sorted({0, rows // 2, rows, *rng.integers(0, rows + 1, 4).tolist()})
    orders = [Order()]
    for start, end in pairwise(cuts):
        path, first = ("a", start) if start < rows // 2 else ("b", start - rows // 2)
        file_rows, values = first + np.arange(end - start), np.zeros((end - start, 1), "f4")
        orders += [Order.of(Chunk(path, file_rows, start, times[start:end], values, np.zeros(1, int))), Order()]
    middle = int(rng.integers(0, len(orders)))
    total = reduce(add, orders[:middle], Order()) + reduce(add, orders[middle:])
    assert total == Order(int(times[0]), int(times[-1]), places[0], decrease, repeat)
