"""Which files a check reads: all of a small fleet, whole assets of a large one."""

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.pipelines.sample import choose_files

FILES = [FileStat(f"in/m{asset:02d}/{day}.parquet", 10, 0) for asset in range(20) for day in range(5)]


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
