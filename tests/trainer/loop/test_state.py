"""When a training ends, and which epoch is the best one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamfeed.contract.config.train import EarlyStopping, Train
from beamfeed.trainer.loop.metrics import describe, describe_run
from beamfeed.trainer.loop.state import TrainingState, is_over, until_evaluation


def run(losses, min_delta=0.0):
    progress = TrainingState()
    for loss in losses:
        progress = progress.train(10, {"loss": 1.0}, 4.0).evaluate(loss, {"loss": loss}, min_delta).next_epoch(10)
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


@pytest.mark.parametrize(("epochs", "steps", "early"), [(5, None, True), (3, None, False), (5, 30, False)])
def test_what_ends_with_its_epochs_or_steps_is_not_stopped_early(epochs, steps, early):
    state = run([1.0, 2.0, 3.0])  # best in epoch 1 of 3
    values = {"model": {"name": "recurrent_autoencoder"}, "workdir": "out", "early_stopping": {"patience": 2}}
    train = Train.model_validate({**values, "epochs": epochs, "max_steps": steps})
    assert describe_run(state, train, [], "loss", None)["stopped_early"] is early


def test_small_gains_are_the_best_but_do_not_count_against_stopping():
    progress = run([1.0, 0.95, 0.9], min_delta=0.2)
    assert (progress.best, progress.reference, progress.stale) == (0.9, 1.0, 2)


@given(
    epochs=st.integers(1, 4),
    steps=st.integers(1, 7),
    most=st.none() | st.integers(1, 30),
    every=st.none() | st.integers(1, 9),
    calls=st.lists(st.integers(1, 9), min_size=1),
)
def test_evaluations_come_where_they_are_due_however_steps_are_called(epochs, steps, most, every, calls):
    train = Train(
        model={"name": "recurrent"}, workdir="w", task={"name": "classify", "target": "t"},
        epochs=epochs, max_steps=most, evaluate_every=every,
    )  # fmt: skip
    last = min(epochs * steps, most or epochs * steps)
    due = {step for step in range(1, last + 1) if step % (every or steps) == 0} | {last}
    state, found, turn = TrainingState(), [], 0
    while not is_over(state.epoch, state.step, state.stale, train):
        while left := until_evaluation(state, steps, train):
            state = TrainingState(**json.loads(json.dumps(state._asdict())))  # stopped and started again
            state = state.next_epoch(steps)
            assert state.epoch * steps + state.done == state.step
            some = min(calls[turn % len(calls)], left, steps - state.done)
            turn += 1
            state = state.train(some, {"loss": 1.0}, 1.0)
        found.append((state.step, state.since))
        state = state.evaluate(1.0, {"loss": 1.0}).next_epoch(steps)
    assert [step for step, _ in found] == sorted(due)
    assert sum(since for _, since in found) == last
    assert state.epoch == last // steps


def test_lanes_stay_those_of_the_beginning():
    state = TrainingState(lanes=64).train(10, {"loss": 1.0}, 1.0).evaluate(1.0, {"loss": 1.0}).next_epoch(10)
    assert state.lanes == 64


@pytest.mark.parametrize(("stale", "stops"), [(0, False), (1, False), (2, True), (3, True)])
def test_patience(stale, stops):
    train = Train(model={"name": "recurrent"}, workdir="w", task={"name": "classify", "target": "t"})
    assert not is_over(0, 0, stale, train)
    assert is_over(0, 0, stale, train.model_copy(update={"early_stopping": EarlyStopping(patience=2)})) is stops


def test_a_loss_that_is_small_is_told_as_it_is():
    line = {"epoch": 1, "step": 10, "loss": 3.1e-8, "eval_loss": 4.4e-8, "windows_per_second": 9.0, "seconds": 1.0}
    assert "  loss 3.1e-08  eval loss 4.4e-08  " in describe(line, ["loss"], 9)
