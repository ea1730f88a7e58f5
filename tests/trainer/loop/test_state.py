"""When a training ends, and which epoch is the best one."""

import pytest

from beamfeed.contract.config.train import EarlyStopping
from beamfeed.trainer.loop.state import TrainingState, stops_early


def run(losses, min_delta=0.0):
    progress = TrainingState()
    for loss in losses:
        progress = progress.train(10, {"loss": 1.0}, 4.0).end_epoch(loss, {"loss": loss}, min_delta)
    return progress


def test_the_best_loss_is_kept_and_stale_epochs_are_counted():
    assert run([3.0, 1.0, 2.0, 2.0]) == TrainingState(
        epoch=4, step=40, best=1.0, best_step=20, measured={"loss": 1.0}, reference=1.0, stale=2
    )
    assert run([]).best is None


def test_what_is_no_number_is_never_better_but_the_first_weights_are_kept():
    assert run([None, None]) == TrainingState(epoch=2, step=20, best_step=10, measured={"loss": None}, stale=2)
    assert run([None, 3.0, None]) == TrainingState(
        epoch=3, step=30, best=3.0, best_step=20, measured={"loss": 3.0}, reference=3.0, stale=1
    )


def test_small_gains_are_the_best_but_do_not_count_against_stopping():
    progress = run([1.0, 0.95, 0.9], min_delta=0.2)
    assert (progress.best, progress.reference, progress.stale) == (0.9, 1.0, 2)


@pytest.mark.parametrize(("stale", "stops"), [(0, False), (1, False), (2, True), (3, True)])
def test_patience(stale, stops):
    assert stops_early(stale, EarlyStopping(patience=2)) is stops
    assert not stops_early(stale, None)
