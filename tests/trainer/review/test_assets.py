"""The error of each asset, where losses are numbers and where they are none."""

import numpy as np
import pytest

from beamfeed.contract.dataset.review import Review, SplitReview, read_review, write_review
from beamfeed.trainer.review.assets import assets_csv, errors_by_asset, most_of_error

LOSSES = np.array([1.0, 3.0, 4.0, np.inf, 0.5])
ASSETS = np.array(["a", "a", "b", "c", "d"])


def test_the_worst_come_first():
    found = errors_by_asset(LOSSES[[0, 1, 2, 4]], ASSETS[[0, 1, 2, 4]])
    assert [(one.asset, one.windows, one.loss, one.worst) for one in found] == [
        ("b", 1, 4.0, 4.0), ("a", 2, 2.0, 3.0), ("d", 1, 0.5, 0.5),
    ]  # fmt: skip
    assert most_of_error(found) == (["b"], 4.0 / 8.5)


def test_most_of_the_error_is_of_the_asset_with_the_largest_sum_where_it_is_worse_than_others():
    assets = np.repeat(["few", "many", *map(str, range(10))], [20, 9000, *[400] * 10])
    worse = {"few": 0.5, "many": 0.3}
    losses = np.array([worse.get(asset, 0.08) for asset in assets])
    assert most_of_error(errors_by_asset(losses, assets)) == (["many"], pytest.approx(2700 / 3030))
    losses[assets == "many"] = 0.1  # still three quarters of it, as most windows are its
    assert most_of_error(errors_by_asset(losses, assets)) is None


def test_a_loss_that_is_no_number_is_told_and_read_back(tmp_path):
    found = errors_by_asset(LOSSES, ASSETS)
    assert (found[0].asset, found[0].loss, found[0].worst) == ("c", None, None)
    assert most_of_error(found) is None
    assert assets_csv({"eval": found}).splitlines()[1] == "eval,c,1,,"
    split = SplitReview(windows=5, of=5, model={"loss": None}, guesses={}, assets=4, worst=found)
    review = Review(fingerprint="f", splits={"eval": split})
    write_review(str(tmp_path), review)
    assert read_review(str(tmp_path), "f") == review
