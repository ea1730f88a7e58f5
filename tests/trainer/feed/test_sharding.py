"""The arithmetic of batches and shares."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.dataset.batches import check_split
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.sharding import Distribution, Share, lanes_of


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 200))
def test_shares_cover_the_batch_once_and_differ_by_a_row_at_most(workers, replicas, more):
    batch = workers * replicas + more
    shares = [Share(batch, Distribution(worker, workers, replicas)) for worker in range(workers)]
    assert [share.first for share in shares] == [0, *[share.end for share in shares[:-1]]]
    assert shares[-1].end == batch
    sizes = [size for share in shares for size in share.replica_sizes]
    assert all(sum(share.replica_sizes) == share.size for share in shares)
    assert max(sizes) - min(sizes) <= 1


def test_lanes_are_for_all_workers_and_their_number_is_that_of_few_unless_it_must_be_more():
    assert [lanes_of(None, workers) for workers in (1, 2, 16, 17, 64, 65)] == [16, 16, 16, 17, 64, 65]
    assert lanes_of(3, 64) == 3


def test_a_batch_smaller_than_the_devices_is_told():
    with pytest.raises(UserError, match=r"batch_size\) is 3"):
        Share(3, Distribution(0, 2, 2))


def test_a_split_that_the_dataset_lacks_is_empty(written):
    manifest = written.manifest.model_copy(update={"splits": {"train": written.manifest.splits["train"]}})
    with pytest.raises(UserError, match="eval holds no window"):
        check_split(manifest, "eval", 8, full_batch=False)
