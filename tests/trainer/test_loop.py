"""The loop on one device: resuming, stopping, and what it writes."""

import json
import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from contract.errors import JobFailed, UserError
from contract.layout import RunLayout
from trainer import loop
from trainer.strategy import Place, connect


def train(job, written):
    return loop.train_and_evaluate(job, written.manifest, connect(Place()))


def lines(job):
    with open(RunLayout(job.train.workdir).metrics) as file:
        return [json.loads(line) for line in file]


def without_times(epochs):
    return [
        {k: v for k, v in epoch.items() if k not in ("seconds", "windows_per_second", "waiting")} for epoch in epochs
    ]


def exported(job):
    return keras.saving.load_model(RunLayout(job.train.workdir).model)


@pytest.fixture(scope="module")
def trained(helpers_module, tmp_path_factory):
    """A finished training of three epochs: its job, what it returned, and its data."""
    folder = tmp_path_factory.mktemp("trained")
    data = helpers_module.write_three_splits(str(folder / "data"))
    made = helpers_module.make_job(data.output, workdir=str(folder / "run"), epochs=3)
    return made, train(made, data), data


def test_it_learns_and_writes_what_it_did(trained):
    job, result, written = trained
    epochs = lines(job)
    assert [line["epoch"] for line in epochs] == [1, 2, 3]
    assert [line["step"] for line in epochs] == [8, 16, 24]
    assert epochs[-1]["loss"] < epochs[0]["loss"]
    assert result.best_loss == min(line["eval_loss"] for line in epochs)
    with open(RunLayout(job.train.workdir).complete) as file:
        assert json.load(file) == result.model_dump()
    model = exported(job)
    for split, loss in (("eval", result.best_loss), ("test", result.test_loss)):
        windows = written.windows[split]
        assert np.mean((model.predict(windows, verbose=0) - windows) ** 2) == pytest.approx(loss, rel=1e-5)


def test_tensorboard_has_the_same_numbers(trained):
    job, _, _ = trained
    (name,) = os.listdir(RunLayout(job.train.workdir).tensorboard)
    found = {}
    for serialized in tf.data.TFRecordDataset(os.path.join(RunLayout(job.train.workdir).tensorboard, name)):
        event = tf.compat.v1.Event.FromString(serialized.numpy())
        for value in event.summary.value:
            array = tf.make_ndarray(value.tensor)
            found[event.step, value.tag] = array if array.ndim else float(array)
    assert found[8, "reconstruction"][2].startswith(b"\x89PNG")
    steps = {step for step, tag in found if tag == "steps/loss"}
    assert {8, 16, 24} <= steps
    assert steps == {step for step, tag in found if tag == "steps/gradient_norm"}
    for line in lines(job):
        assert found[line["step"], "loss"] == pytest.approx(line["loss"], rel=1e-6)
        assert found[line["step"], "eval_loss"] == pytest.approx(line["eval_loss"], rel=1e-6)


def test_the_export_agrees_with_the_model(trained):
    job, _, written = trained
    names = RunLayout(job.train.workdir)
    model = exported(job)
    windows = written.windows["test"][:5]
    served = tf.saved_model.load(names.saved_model).signatures["prepared"](windows=tf.constant(windows))
    np.testing.assert_allclose(served["latent"], model.get_layer("encoder")(windows), atol=1e-6)
    np.testing.assert_allclose(served["reconstruction"], model(windows), atol=1e-6)
    assert served["latent"].shape == (5, 2)
    with open(names.report, "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


def test_two_epochs_and_two_more_equal_four(job, written, tmp_path):
    other = str(tmp_path / "whole")
    train(job(epochs=2), written)
    train(job(epochs=4), written)
    train(job(epochs=4, workdir=other), written)
    assert without_times(lines(job())) == without_times(lines(job(workdir=other)))
    for resumed, whole in zip(exported(job()).get_weights(), exported(job(workdir=other)).get_weights(), strict=True):
        np.testing.assert_array_equal(resumed, whole)


def test_a_lost_epoch_is_run_again_and_told_once(job, written):
    made = job(epochs=3)
    train(made, written)
    before = lines(made)
    # As after a crash between the third epoch's metrics and its checkpoint.
    os.remove(os.path.join(RunLayout(made.train.workdir).checkpoints, "step-000000024.json"))
    train(made, written)
    assert without_times(lines(made)) == without_times(before)


def test_early_stopping_stops_and_stays_stopped(job, written):
    made = job(epochs=9, early_stopping={"patience": 2, "min_delta": 10.0})
    result = train(made, written)
    # The first epoch is the reference; none of the next two is better by 10.
    assert (result.epochs, result.stopped_early) == (3, True)
    assert train(made, written).epochs == 3
    assert len(lines(made)) == 3


def test_without_an_eval_split_the_train_loss_decides(helpers, job, tmp_path):
    segments = {"train": helpers.segments_of([40, 40], 2), "eval": [], "test": []}
    written = helpers.write_dataset(str(tmp_path / "data"), segments, length=8, stride=4)
    result = train(job(), written)
    assert result.test_loss is None
    assert result.best_loss == min(line["loss"] for line in lines(job()))
    assert [line["eval_loss"] for line in lines(job())] == [None, None]


def test_a_loss_that_is_not_finite_fails_the_job(helpers, job, tmp_path):
    segments = {"train": [np.full((40, 2), np.nan, "f4")], "eval": [], "test": []}
    written = helpers.write_dataset(str(tmp_path / "data"), segments, length=8, stride=4)
    with pytest.raises(JobFailed, match="the loss is nan in epoch 1"):
        train(job(), written)


@pytest.mark.parametrize("feed", [{"cache": "memory"}, {"cache": "file"}])
def test_feeds(job, written, feed):
    result = train(job(feed={"batch": 8, "shuffle": 32, **feed}), written)
    assert result.last_loss < result.first_loss


def test_shards_that_changed_are_noticed(job, written):
    os.replace(written.shards("eval")[0], written.shards("eval")[1])
    with open(written.shards("eval")[0], "wb"):
        pass
    with pytest.raises(UserError, match="the manifest says"):
        train(job(), written)
