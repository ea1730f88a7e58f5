import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.transforms.beam_driver import AddUp
from beamfeed.transforms.statistics.moments import Moments


@given(seed=st.integers(0, 1000), pieces=st.integers(1, 9), order=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_any_order_gives_the_same_bits(seed, pieces, order):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=(200, 3)) * [1e-3, 1, 1e6] + [1e4, 0, -1e8]).astype("f4")
    values[rng.random(values.shape) < 0.1] = np.nan
    parts = [Moments.of(part) for part in np.array_split(values, pieces)]
    combine = AddUp(Moments.zero(3))
    first = combine.merge_accumulators(parts)
    order.shuffle(parts)
    middle = len(parts) // 2
    second = combine.merge_accumulators(
        [combine.merge_accumulators(parts[:middle]), combine.merge_accumulators(parts[middle:])]
    )
    assert first == second
    np.testing.assert_allclose(first.mean(), np.nanmean(values.astype("f8"), 0), rtol=1e-12)
    np.testing.assert_allclose(first.std(), np.nanstd(values.astype("f8"), 0), rtol=1e-7)


def test_of_no_rows():
    assert Moments.of(np.empty((0, 2), "f4")) == Moments.zero(2)
