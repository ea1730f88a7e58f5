import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract.config.prepare import Scale
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.scale import Table, offset_and_divisor
from beamfeed.transforms.statistics.sums import AddUp


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


def test_constant_and_empty_columns_scale_to_finite_values():
    values = np.stack([np.full(1000, 518.67), np.full(1000, np.nan), np.arange(1000)], 1).astype("f4")
    moments = Moments.of(values[:300]) + Moments.of(values[300:])
    assert moments.std()[0] == 0
    for how in ("standard", "minmax", "none"):
        offset, divisor = offset_and_divisor(moments, how)
        assert np.isfinite(offset).all()
        assert (divisor > 0).all()
        if how != "none":
            assert ((values[:, 0] - offset[0]) / divisor[0] == 0).all()
    assert Moments.of(np.empty((0, 2), "f4")) == Moments.zero(2)


def test_table_is_sorted_by_key_and_ends_with_the_fleet():
    moments = {f"asset {i}": Moments.of(np.full((4, 1), i, "f4")) for i in range(50)}
    table = Table.of(Moments.of(np.full((4, 1), 99, "f4")), moments, Scale().how)
    assert (np.diff(table.keys) > 0).all()
    assert table.offset.shape == (51, 1)
    assert table.offset[-1, 0] == 99
    assert sorted(table.offset[:, 0]) == [*range(50), 99]
