"""Which shards of a dataset that has grown are of its last runs."""

import pytest
from manifests import manifest_of

from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.config.train import On
from beamfeed.contract.dataset.manifest import Increment, Shard, SplitInfo
from beamfeed.contract.dataset.recent import by_age, recent_shards, replayed
from beamfeed.contract.errors import UserError


def shard(file, windows):
    return Shard(records=1, windows=windows, rows=windows, bytes=windows, crc32c="0" * 8, file=file)


def grown(windows, *, kept=()):
    """A dataset whose runs added so many windows to each split; of some, they were copied elsewhere."""
    files = [
        f"data-9/{{}}/kept-{run}.tfrecord" if run in kept else f"data-{run}/{{}}/part-0" for run in range(len(windows))
    ]
    splits = {
        name: SplitInfo(
            assets=1, windows=sum(windows), records=len(windows), bytes=sum(windows),
            shards=[shard(file.format(name), count) for file, count in zip(files, windows, strict=True)],
        )
        for name in SPLITS
    }  # fmt: skip
    manifest = manifest_of([], splits)
    increments = [
        Increment(
            **manifest.counts.model_dump(),
            data=f"data-{run}",
            fingerprint=str(run),
            windows=len(SPLITS) * count,
            in_splits=[1, 1, 1],
        )
        for run, count in enumerate(windows)
    ]
    return manifest.model_copy(update={"increments": increments, "data": "data-9"})


def test_the_last_runs():
    assert recent_shards(grown([50, 3, 4, 5]), 2)["train"] == {2, 3}
    assert recent_shards(grown([50, 3]), 2)["train"] == recent_shards(grown([50, 3]), 9)["train"] == {0, 1}


def test_runs_that_cannot_be_told_apart_are_refused():
    with pytest.raises(UserError, match=r"is 3, but not all windows .*; at most 1 can be given; train before"):
        recent_shards(grown([50, 3, 4, 5], kept=(1, 2)), 3)
    with pytest.raises(UserError, match=r"is 1, but .*; not even those of the last run are"):
        recent_shards(grown([50, 3], kept=(1,)), 1)


def test_older_shards_are_replayed_up_to_a_share():
    shards = grown([10] * 50 + [3]).splits["train"].shards
    assert replayed(shards, {50}, 0) == set()
    some = replayed(shards, {50}, 0.2)
    assert len(some) == 10
    assert some < replayed(shards, {50}, 0.5) < replayed(shards, {50}, 1) == set(range(50))


def test_windows_by_age():
    parts = by_age(On(runs=1), grown([50, 3, 4]))
    assert {words: part.splits["eval"].windows for words, part in parts.items()} == {
        "of the last run": 4,
        "before the last run": 53,
    }
    assert list(by_age(On(runs=2), grown([50, 3, 4]))) == ["of the last 2 runs", "before the last 2 runs"]
    assert by_age(On(runs=3), grown([50, 3, 4])) == {}
