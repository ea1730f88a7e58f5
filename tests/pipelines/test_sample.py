"""Which files a check reads: all of a small fleet, whole assets of a large one."""

from types import SimpleNamespace

import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.config.split import Split
from beamfeed.contract.dataset.manifest import Counts, Manifest, SplitInfo
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.pipelines.sample import RowEstimate, choose, choose_assets, estimate_rows, scaled, weigh
from beamfeed.transforms.rehearsal import AssetRows

ASSETS = {
    f"m{asset:02d}": [FileStat(f"in/m{asset:02d}/{day}.parquet", 10, 0) for day in range(5)] for asset in range(20)
}
ALIKE = dict.fromkeys(ASSETS, "")  # of no split that paths tell

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


@pytest.mark.parametrize("most", [50, 120, 500, 999])
def test_of_a_large_fleet_assets_are_read_up_to_the_limit(most):
    chosen = choose_assets(ASSETS, ALIKE, most)
    assert len(chosen) == most // 50
    assert choose_assets(dict(reversed(ASSETS.items())), ALIKE, most) == chosen  # always the same


def test_an_asset_is_read_also_where_it_is_more_but_not_far_more():
    assert len(choose_assets(ASSETS, ALIKE, 20)) == 1
    with pytest.raises(UserError, match=r"the files of m\d\d alone have 50 B.*--full reads all files"):
        choose_assets(ASSETS, ALIKE, 10)


def test_of_each_split_that_paths_tell_some_files_are_read():
    chosen = choose_assets(ASSETS, ALIKE | {"m07": "eval"}, 100)
    assert chosen >= {"m07"}
    assert len(chosen) == 2


def test_of_files_that_are_read_in_part_more_are_read():
    assert len(choose_assets(ASSETS, ALIKE, 60, most_of_each=1)) == 12


def test_files_that_name_no_asset_stand_for_themselves():
    nothing = lambda *_: None  # noqa: E731
    job = SimpleNamespace(split=Split())
    source = SimpleNamespace(part=nothing, excerpt=nothing, asset_of_path=nothing, stratum=lambda _: "", job=job)
    files = [file for group in ASSETS.values() for file in group]
    look = choose(source, files, 70)
    assert (len(look.files), look.mixed, look.whole) == (7, True, False)
    assert look.files == [file for file in files if file in look.files]  # in the order of the listing
    assert choose(source, files, 1000).files == choose(source, files, None).files == files


def test_empty_files_do_not_stand_for_others():
    assets = {name: [FileStat(name, 0, 0)] for name in "abcdefgh"} | {"large": [FileStat("large", 50, 0)]}
    strata = dict.fromkeys(assets, "")
    chosen = choose_assets(assets, strata, 20)
    assert "large" in chosen
    assert weigh(assets, strata, chosen).other_rows == 1


def test_what_was_read_stands_for_its_own_split():
    assets = {name: [FileStat(f"in/{name}", size, 0)] for name, size in zip("abcde", (10, 30, 5, 5, 7), strict=True)}
    strata = {"a": "train", "b": "train", "c": "eval", "d": "eval", "e": "test"}
    stands = weigh(assets, strata, {"a", "c"})
    assert stands.rows == {"a": 4, "c": 2}
    assert stands.assets == {"a": 2, "c": 2}
    assert stands.unread == {"test": (1, 7)}
    read = {
        "a": AssetRows(100, 100, splits={"train": 100}, windows={"train": 10}),
        "c": AssetRows(50, rejected=True, set_aside=50),
    }
    found = scaled(MANIFEST, read, stands)
    told = {name: (info.assets, info.windows, info.records, info.bytes) for name, info in found.splits.items()}
    assert told == {"train": (2, 40, 20, 400), "eval": (0, 0, 0, 0), "test": (1, round(10 * 7 / 15), 2, 47)}
    assert (found.counts.assets, found.counts.rejected_assets, found.counts.rows_read) == (5, 2, 400)
    assert estimate_rows(read, stands) == RowEstimate(500, {}, 100)
