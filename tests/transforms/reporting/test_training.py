"""The chapter on a training run."""

import pytest

from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import Review, SplitReview
from beamfeed.transforms.reporting.page import Table
from beamfeed.transforms.reporting.training import Run, training


@pytest.mark.parametrize(("of", "name"), [(10, "linear floor"), (60_000, "linear floor, of all 60,000")])
def test_a_floor_of_other_windows_says_so(of, name):
    floor = TrainResult.model_construct(best_split="eval", best_loss=2.0, metrics={}, test_loss=3.0, test_metrics={})
    split = SplitReview(windows=10, of=of, model={"loss": 1.0}, guesses={"the mean": {"loss": 4.0}}, assets=1, worst=[])
    lines = [
        {"step": epoch, "epoch": epoch, "split": split, "loss": 1.0} for epoch in (1, 2) for split in ("train", "eval")
    ]
    review = Review(fingerprint="1", splits={"test": split})
    chapter = training(Run("model", TrainResult.model_construct(metrics={}), lines, review, floor, []))
    (table,) = [part for part in chapter.parts if isinstance(part, Table)]
    assert [row[0] for row in table.rows] == ["the model", "the mean", name]
