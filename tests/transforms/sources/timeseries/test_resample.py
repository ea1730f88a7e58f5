import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series import unlabelled

from beamfeed.transforms.sources.readers import batch_rows
from beamfeed.transforms.sources.timeseries.resample import resample_stream
from beamfeed.transforms.sources.timeseries.rows import Rows

HOW = {
    "mean": lambda v: np.float32(np.mean(v.astype("f8"))),
    "first": lambda v: v[0],
    "last": lambda v: v[-1],
    "min": np.min,
    "max": np.max,
}


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 80),
    every=st.integers(1, 20),
    how=st.sampled_from(sorted(HOW)),
    limit=st.integers(0, 3),
    chunk=st.integers(1, 40),
)
@settings(max_examples=200, deadline=None)
def test_steps_equal_a_plain_loop(seed, size, every, how, limit, chunk):
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.integers(1, 12, size)) - 100
    values = rng.normal(size=(size, 2)).astype("f4")
    values[rng.random((size, 2)) < 0.2] = np.nan
    rows = unlabelled(np.arange(size), time, values, rng.random(size) < 0.05)
    stream = (rows.take(slice(at, at + chunk)) for at in range(0, size, chunk))
    found = Rows.concatenate(list(resample_stream(stream, every, how, limit)))

    expected, last = {}, None
    for step in sorted(set(time // every)):
        inside = time // every == step
        hole = 0 if last is None else step - last - 1
        if 0 < hole <= limit and not rows.gap[inside].any():
            expected.update({last + 1 + i: [np.nan, np.nan] for i in range(hole)})
        columns = [values[inside, i][~np.isnan(values[inside, i])] for i in range(2)]
        expected[step] = [HOW[how](column) if len(column) else np.nan for column in columns]
        last = step
    assert found.position.tolist() == sorted(expected)
    assert (found.time == found.position * every).all()
    np.testing.assert_allclose(found.values, [expected[step] for step in sorted(expected)], rtol=1e-6)
    gaps = {int(step) for step in time[rows.gap] // every}
    assert set(found.position[found.gap].tolist()) == gaps


def test_means_are_taken_wide():
    values = np.full((100_000, 1), 16_777_217.0, "f8").astype("f4")
    rows = unlabelled(np.arange(len(values)), np.arange(len(values)), values, np.zeros(len(values), bool))
    (found,) = resample_stream(iter([rows]), 100_000, "mean", 0)
    assert found.values[0, 0] == pytest.approx(values[0, 0], rel=1e-7)


# Of many features first and min are taken by the same steps as last and max.
@pytest.mark.parametrize(
    ("features", "how"), [*((1, how) for how in sorted(HOW)), (400, "last"), (400, "max"), (400, "mean")]
)
def test_memory_does_not_grow_with_the_rows_of_a_step(how, features):
    """A step of 40 chunks, as files are read."""
    chunk = batch_rows(features)
    rows = 40 * chunk

    def stream():
        for at in range(0, rows, chunk):
            time = np.arange(at, at + chunk)
            yield unlabelled(time, time, np.full((len(time), features), at, "f4"), np.zeros(len(time), bool))

    tracemalloc.start()
    try:
        (found,) = resample_stream(stream(), rows, how, 0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    per_row = 4 * features + 8 + 8 + 1  # values, time, position, gap
    assert peak < 25 * chunk * per_row
    assert found.values.shape == (1, features)
