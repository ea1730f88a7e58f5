"""Windows, splits and batches for fleets of any size: each split gets something, and a full batch can be had."""

import pytest

from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.dataset.batches import choose_batch, train_steps
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.splits import cut_rows, split_of_asset, wanted_splits
from beamfeed.transforms.suggest.traits import Likeness
from beamfeed.transforms.suggest.windowing import choose_schedule, choose_shape


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
    shape = choose_shape([90_000], [90_000], ["a"], 450_000, share=0.2)
    assert shape.why_length.startswith("an asset has about 450,000 rows;")
    assert shape.stride == shape.length // 2
    assert shape.trains == f"about {round(0.7 * 5 * count_windows(90_000, 32, 16)):,} windows train"


@pytest.mark.parametrize(("rows", "stride"), [(1000, 1), (20_000, 1), (100_000, 4), (10_000_000, 16)])
def test_windows_overlap_as_far_as_that_gives_enough_of_them(rows, stride):
    assert choose_shape([rows], [rows], ["a"], rows).stride == stride


@pytest.mark.parametrize(
    ("period", "features", "rows", "length"),
    [(24, 7, 20_000, 24), (12, 1, 20_000, 24), (7, 3, 5000, 28), (48, 1, 10_000, 48), (288, 1, 20_000, 288),
     (288, 20, 20_000, 32), (288, 1, 2000, 32), (1000, 1, 100_000, 32), (0, 7, 20_000, 32), (0, 1000, 20_000, 8)],
)  # fmt: skip
def test_a_window_holds_whole_periods_where_that_is_not_too_much(period, features, rows, length):
    shape = choose_shape([rows], [rows], ["a"], rows, features=features, period=period)
    assert shape.length == length
    repeats = f"values repeat after {period} rows: a window holds "
    assert shape.why_length.startswith(repeats) == (period > 0 and length % period == 0)


@pytest.mark.parametrize(
    ("other", "later", "rows", "by"),
    [(1.0, 1.0, 2000, "rows"), (1.3, 1.4, 2000, "rows"), (1.1, 1.5, 2000, "asset"), (1.3, 1.0, 200, "asset")],
)
def test_a_model_sees_each_asset_unless_what_comes_late_differs_more(other, later, rows, by):
    names = [f"asset-{i}" for i in range(12)]
    shape = choose_shape([rows] * 12, [rows] * 12, names, 12 * rows, likeness=lambda length: Likeness(other, later))
    assert shape.split["by"] == by
    assert (f"{later:.3g} times as much on later rows" in shape.why_split) == (rows == 2000)


def test_small_data_train_to_the_end_and_large_ones_an_hour():
    def schedule(rows, features=7):
        shape = choose_shape([rows], [rows], ["a"], rows, features=features)
        chosen = choose_schedule(shape, features, 8)
        return chosen, train_steps(round(shape.windows), shape.batch_size)

    for rows in (200, 2000, 20_000, 200_000, 2_000_000):
        chosen, steps = schedule(rows)
        total = chosen.epochs * steps
        assert 2500 <= total < 2500 + steps or chosen.epochs in (3, 200)
        assert total <= 20 * (chosen.evaluate_every or steps)  # each evaluation writes a checkpoint
        assert chosen.max_steps is None
    chosen, steps = schedule(2000)
    assert chosen.why == "2,500 steps, about 20 s on two cores"
    chosen, steps = schedule(10**9, features=64)
    assert (chosen.epochs, chosen.max_steps < steps) == (1, True)
    assert chosen.why.endswith(" steps, about 60 minutes on two cores")


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
