"""Which files a check reads: all of a small fleet, whole assets of a large one."""

import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.manifest import Counts, Manifest, SplitInfo
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.pipelines.sample import RowEstimate, choose_files, estimate_rows, scaled, weigh
from beamfeed.transforms.rehearsal import AssetRows

FILES = [FileStat(f"in/m{asset:02d}/{day}.parquet", 10, 0) for asset in range(20) for day in range(5)]

EMPTY = SplitInfo(assets=0, windows=0, records=0, bytes=0, shards=[])
MANIFEST = Manifest(
    name="m",
    kind="timeseries",
    fingerprint="f",
    data="data-f",
    fields=[],
    windows=Windows(length=8),
    records="segments",
    compression="none",
    counts=Counts(files=2, assets=2, rejected_assets=1, rejected_files=1, rows_read=100),
    splits={
        "train": EMPTY.model_copy(update={"assets": 1, "windows": 10, "records": 5, "bytes": 100}),
        "eval": EMPTY,
        "test": EMPTY,
    },
)


def asset_of(path: str) -> str:
    return path.split("/")[1]


def test_a_small_fleet_is_read_wholly():
    assert choose_files(FILES, asset_of, 1000) == FILES
    assert choose_files(FILES, asset_of, None) == FILES


@pytest.mark.parametrize("most", [50, 120, 500, 999])
def test_of_a_large_fleet_whole_assets_are_read_up_to_the_limit(most):
    chosen = choose_files(FILES, asset_of, most)
    names = {asset_of(file.path) for file in chosen}
    assert chosen == [file for file in FILES if asset_of(file.path) in names]  # whole, and in the order of the listing
    assert len(names) == most // 50
    assert choose_files(list(reversed(FILES)), asset_of, most) == list(reversed(chosen))  # always the same


def test_an_asset_is_read_also_where_it_is_more_but_not_far_more():
    assert len(choose_files(FILES, asset_of, 20)) == 5
    with pytest.raises(UserError, match=r"the files of m\d\d alone have 50 B.*--full reads all files"):
        choose_files(FILES, asset_of, 10)


def test_files_that_name_no_asset_stand_for_themselves():
    assert len(choose_files(FILES, lambda _: None, 70)) == 7


def test_of_each_split_that_paths_tell_some_files_are_read():
    chosen = choose_files(FILES, asset_of, 100, stratum_of=lambda path: "eval" if "m07" in path else "train")
    assert {asset_of(file.path) for file in chosen} >= {"m07"}
    assert len(chosen) == 10


def test_of_files_that_are_read_in_part_more_are_read():
    assert len({file.path for file in choose_files(FILES, asset_of, 60, most_of_each=1)}) == 60


def test_what_was_read_stands_for_its_own_split():
    files = [FileStat(f"in/{name}", size, 0) for name, size in (("a", 10), ("b", 30), ("c", 5), ("d", 5), ("e", 7))]
    strata = {"in/a": "train", "in/b": "train", "in/c": "eval", "in/d": "eval", "in/e": "test"}
    stands = weigh(files, [files[0], files[2]], lambda path: path, strata.__getitem__)
    assert stands.rows == {"in/a": 4, "in/c": 2}
    assert stands.assets == {"in/a": 2, "in/c": 2}
    assert stands.unread == {"test": (1, 7)}
    read = {
        "in/a": AssetRows(100, 100, splits={"train": 100}, windows={"train": 10}),
        "in/c": AssetRows(50, rejected=True, set_aside=50),
    }
    found = scaled(MANIFEST, read, stands)
    told = {name: (info.assets, info.windows, info.records, info.bytes) for name, info in found.splits.items()}
    assert told == {"train": (2, 40, 20, 400), "eval": (0, 0, 0, 0), "test": (1, round(10 * 7 / 15), 2, 47)}
    assert (found.counts.assets, found.counts.rejected_assets, found.counts.rows_read) == (5, 2, 400)
    assert estimate_rows(read, stands) == RowEstimate(500, {}, 100)
