"""Windows, splits and batches for fleets of any size: each split gets something, and a full batch can be had."""

import pytest

from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.splits import cut_rows, split_of_asset, wanted_splits
from beamfeed.transforms.suggest.windowing import choose_shape


def windows_of(shape, names, rows):
    """By split, how many windows assets of so many rows each have."""
    split = Split.model_validate(shape.split)
    found = dict.fromkeys(wanted_splits(split), 0)
    for name in names:
        if split.by == "asset":
            parts = {split_of_asset(name, split): rows}
        else:
            cuts = (0, *cut_rows(rows, split))
            parts = {one: end - start for one, start, end in zip(SPLITS, cuts, cuts[1:], strict=False)}
        for one, part in parts.items():
            found[one] += count_windows(part, shape.length, shape.stride)
    return found


@pytest.mark.parametrize("assets", [1, 2, 3, 4, 5, 7, 10, 12, 50, 200])
@pytest.mark.parametrize("rows", [2, 3, 9, 15, 16, 17, 40, 100, 200, 1000, 20_000])
def test_each_split_gets_windows_and_a_batch_is_full(assets, rows):
    names = [f"asset-{i:03d}" for i in range(assets)]
    shape = choose_shape([rows] * assets, [rows] * assets, names, rows * assets)
    found = windows_of(shape, names, rows)
    assert found["train"] >= shape.batch_size
    assert all(found.values()), found
    if rows >= 100:
        assert set(found) == set(SPLITS)
        assert shape.length > 2


def test_an_asset_of_which_some_rows_were_looked_at_has_more():
    shape = choose_shape([900], [900], ["a"], 4500, share=0.2)
    assert shape.why[0].startswith("an asset has about 4,500 rows;")
    assert shape.stride == shape.length // 2
    assert shape.why[2] == f"about {round(0.7 * 5 * count_windows(900, 32, 16))} windows train"


def test_gaps_make_windows_shorter():
    names = [f"asset-{i}" for i in range(12)]
    whole = choose_shape([1000] * 12, [1000] * 12, names, 12_000)
    parts = choose_shape([1000] * 12, [10] * 1200, names, 12_000)
    assert (whole.length, parts.length) == (32, 8)


def test_few_rows_are_not_held_back():
    shape = choose_shape([3], [3], ["one"], 3)
    assert shape.split == {"by": "asset", "train": 1.0, "eval": 0.0, "test": 0.0}
    assert (shape.length, shape.stride, shape.batch_size) == (2, 1, 1)


@pytest.mark.parametrize(
    ("examples", "batch"), [(1e6, 256), (12_800, 256), (3245, 64), (1474, 32), (200, 32), (100, 16), (3, 1)]
)
def test_an_epoch_has_many_steps(examples, batch):
    assert choose_batch(examples) == batch
