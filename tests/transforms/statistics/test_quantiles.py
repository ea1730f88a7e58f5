import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.transforms.beam_driver import AddUp
from beamfeed.transforms.statistics import quantiles
from beamfeed.transforms.statistics.quantiles import RowSample, capacity, hash_numbers, share
from beamfeed.transforms.statistics.sums import add_known

Q = (0.05, 0.25, 0.5, 0.75, 0.95)


def assert_same(first: RowSample, *others: RowSample) -> None:
    """To the byte."""
    for other in others:
        for one, two in ((first.hashes, other.hashes), (first.values, other.values), (first.settled, other.settled)):
            assert pickle.dumps(one) == pickle.dumps(two)


def parts_of(rng, assets: dict[str, np.ndarray], part: float = 1.0) -> list[RowSample]:
    """The samples of some assets, each cut into runs of rows at random places, in no order."""
    found = []
    for name, values in assets.items():
        cuts = np.sort(rng.integers(0, len(values) + 1, rng.integers(0, 6)))
        for rows in np.split(np.arange(len(values)), cuts):
            found.append(RowSample.zero(values.shape[1]).extend(values[rows], name, rows, part))
    rng.shuffle(found)
    return found


def fleet_of(rng, features: int = 3) -> dict[str, np.ndarray]:
    fleet = {f"asset {i}": rng.normal(size=(rng.integers(0, 90), features)).astype("f4") for i in range(5)}
    for values in fleet.values():
        values[rng.random(values.shape) < 0.1] = np.nan
    return fleet


@given(seed=st.integers(0, 100_000), most=st.sampled_from([1, 7, 60, 10_000]), bits=st.sampled_from([3, 64]))
@settings(max_examples=80, deadline=None)
def test_any_cut_and_any_order_give_the_same_bytes(seed, most, bits):
    rng = np.random.default_rng(seed)
    fleet = fleet_of(rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "MOST_ROWS", most)
        # With three bits nearly all hashes are equal: their order must not hang on the order of adding.
        patch.setattr(
            quantiles, "hash_numbers", lambda at, seed: hash_numbers(at, seed) % np.uint64(1 << min(bits, 63))
        )
        combine = AddUp(RowSample.zero(3))
        first = combine.merge_accumulators(parts_of(rng, fleet))
        parts = parts_of(rng, fleet)
        middle = rng.integers(0, len(parts) + 1)
        second = combine.merge_accumulators(
            [combine.merge_accumulators(parts[:middle]), combine.merge_accumulators(parts[middle:])]
        )
        streamed = RowSample.zero(3)
        for name, values in fleet.items():
            for rows in np.array_split(np.arange(len(values)), 4):
                streamed = streamed.extend(values[rows], name, rows)
    assert_same(first, second, streamed)
    assert len(first) == min(most, sum(map(len, fleet.values())))


@given(seed=st.integers(0, 100_000))
@settings(max_examples=40, deadline=None)
def test_it_holds_the_rows_with_the_smallest_hashes(seed):
    """Against a plain loop over single rows."""
    rng = np.random.default_rng(seed)
    fleet = fleet_of(rng)
    rows = [(_plain_hash(name, i), row) for name, values in fleet.items() for i, row in enumerate(values)]
    expected = sorted(rows, key=lambda pair: pair[0])[:40]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantiles, "MOST_ROWS", 40)
        found = sum(parts_of(rng, fleet), RowSample.zero(3))
        below = sum(parts_of(rng, fleet, part=0.1), RowSample.zero(3))
    assert found.hashes.tolist() == [value for value, _ in expected]
    np.testing.assert_array_equal(found.values, np.array([row for _, row in expected], "f4").reshape(-1, 3))
    assert below.hashes.tolist() == [value for value, _ in expected if value < 0.1 * 2**64]


def _plain_hash(asset: str, position: int) -> int:
    import hashlib

    most = (1 << 64) - 1
    x = position * 0x9E3779B97F4A7C15 + int.from_bytes(
        hashlib.blake2b(asset.encode(), digest_size=8).digest(), "little"
    )
    x &= most
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & most
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & most
    return x ^ (x >> 31)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("missing", [0, 0.3])
def test_quantiles_of_few_rows_are_those_of_numpy(missing):
    rng = np.random.default_rng(4)
    values = (rng.normal(size=(999, 4)) * [1, 1e-6, 1e6, 1] + [0, 1, -1e5, 0]).astype("f4")
    values[rng.random(values.shape) < missing] = np.nan
    values[:, 3] = np.nan
    found = RowSample.zero(values.shape[1]).extend(values, "a", np.arange(999)).quantiles(Q)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[:, :3], np.nanquantile(values[:, :3].astype("f8"), Q, axis=0))
    assert np.isnan(found[:, 3]).all()
    assert np.isnan(RowSample.zero(2).quantiles(Q)).all()


def test_ranks_of_many_rows_are_within_the_bound():
    rng = np.random.default_rng(5)
    sample, seen = RowSample.zero(2), []
    for i in range(20):  # assets of different ranges, so that which rows are drawn matters
        values = rng.gamma(2, 1 + i % 3, (50_000, 2)).astype("f4")
        sample = sample.extend(values, f"asset {i}", np.arange(50_000), share(1_000_000, 2, spare=4))
        seen.append(values)
    assert len(sample) == capacity(2) == 16_384
    everything = np.sort(np.concatenate(seen), axis=0)
    for k in range(2):
        rank = np.searchsorted(everything[:, k], sample.quantiles(Q)[:, k]) / len(everything)
        assert np.abs(rank - Q).max() < np.sqrt(11 / 16_384)


def test_rows_are_drawn_evenly_from_assets_and_positions():
    sample = RowSample.zero(1)
    for i in range(32):
        where = np.arange(20_000)
        sample = sample.extend(np.full((20_000, 1), i, "f4") + (where[:, None] >= 10_000) / 2, f"pump-{i:02d}", where)
    _, counts = np.unique(sample.values, return_counts=True)
    assert len(counts) == 64
    expected = 16_384 / 64
    assert ((counts - expected) ** 2 / expected).sum() < 63 + 6 * np.sqrt(2 * 63)  # chi squared


@pytest.mark.parametrize("features", [1, 8, 1000, 10_000, 1_000_000])
def test_a_sample_is_less_than_a_megabyte(features):
    rows = capacity(features)
    assert rows == 1 or rows * (4 * features + 8) <= 1_000_000
    assert rows == 16_384 or (rows + 1) * (4 * features + 8) > 1_000_000


def test_a_settled_sample_tells_of_the_rows_it_was():
    values = np.random.default_rng(6).normal(size=(5000, 2)).astype("f4")
    whole = RowSample.zero(values.shape[1]).extend(values, "a", np.arange(5000))
    settled = whole.settle(Q, share(5_000_000, 2, spare=1))
    assert len(settled) < 50
    np.testing.assert_array_equal(settled.settled, whole.quantiles(Q))
    assert_same(settled, add_known(None, settled), add_known(settled, None))
    assert (settled + RowSample.zero(2)).settled is None
    assert (settled + RowSample.zero(values.shape[1]).extend(values, "b", np.arange(5000))).settled is None
    assert whole.settle(Q, 1.0).hashes.tobytes() == whole.hashes.tobytes()
