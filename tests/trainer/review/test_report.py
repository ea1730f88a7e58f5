"""The report's panels and what they are drawn of."""

from types import SimpleNamespace

import numpy as np
import pytest

from beamfeed.contract.dataset.result import TrainResult
from beamfeed.trainer import figures
from beamfeed.trainer.review.report import best_step, draw_curve, draw_losses, in_rows

RESULT = TrainResult(
    fingerprint="f", epochs=3, steps=30, stale=1, stopped_early=False, first_loss=1.0, last_loss=0.5, best=0.25,
    best_loss=0.25, test_loss=None, seconds=1.0, workers=1,
)  # fmt: skip
EPOCHS = [
    {"epoch": epoch, "step": 10 * epoch, "loss": loss, "eval_loss": evaluated}
    for epoch, loss, evaluated in ((1, 1.0, 0.5), (2, 0.25, 0.25), (3, 0.5, 0.75))
]


@pytest.mark.parametrize(("count", "rows"), [(1, [1]), (3, [3]), (4, [2, 2]), (5, [3, 2]), (7, [3, 2, 2])])
def test_panels_stand_in_rows_as_alike_as_can_be(count, rows):
    assert in_rows(count) == rows


def test_the_best_epoch_is_marked_and_lines_differ_without_colour():
    axes = figures.figure(4, 4).subplots()
    draw_curve(axes, EPOCHS, "loss", "loss", best_step(EPOCHS, RESULT), reached=0.9)
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert list(lines) == ["train", "eval", "best: epoch 2", "linear floor"]
    assert list(lines["best: epoch 2"].get_xdata()) == [2, 2]
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines.values()}) == 4


def test_without_an_eval_split_the_best_epoch_is_that_of_the_train_loss():
    epochs = [{**line, "eval_loss": None} for line in EPOCHS]
    assert best_step(epochs, RESULT) == 20
    assert best_step(epochs, RESULT.model_copy(update={"best": 0.125})) is None


@pytest.mark.parametrize(
    ("losses", "windows"), [([1e18, 1e18], 2), ([1e18], 1), ([np.inf, 1.0, 2.0], 2), ([0.0, 0.0], 2), ([np.nan], 0)]
)
def test_losses_of_any_size_are_drawn(losses, windows):
    axes = figures.figure(4, 4).subplots()
    draw_losses(axes, SimpleNamespace(losses=np.array(losses), guesses={}), "loss")
    assert sum(bar.get_height() for bar in axes.patches) == windows
