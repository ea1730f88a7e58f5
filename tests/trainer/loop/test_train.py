"""The loop on one device: resuming, stopping, and what it writes."""

import glob
import json
import math
import os
import signal

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml
from trained import Stopping, exported, lines, summaries, without_times

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Increment, write_manifest
from beamfeed.contract.dataset.result import write_result
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.storage import write_text
from beamfeed.trainer.cluster.strategy import connect
from beamfeed.trainer.cluster.watchdog import Preempted
from beamfeed.trainer.export.run import export_run
from beamfeed.trainer.loop import train as loop
from beamfeed.trainer.loop.start import Start
from beamfeed.trainer.loop.workdir import claim, find_finished, note_done, was_done
from beamfeed.trainer.main import main
from beamfeed.trainer.tools import list_checkpoints


def train(job, written):
    """Trains and exports, as `trainer.main` does."""
    trained = loop.train_and_evaluate(job, written.manifest, connect(WorkerInfo()))
    export_run(job, written.manifest, trained)
    return trained.result


def train_only(job, written):
    """The same without the export, which takes longer."""
    trained = loop.train_and_evaluate(job, written.manifest, connect(WorkerInfo()))
    write_result(job.train.workdir, trained.result)
    return trained


def assert_same_weights(trained, other):
    for a, b in zip(trained.weights, other.weights, strict=True):
        np.testing.assert_array_equal(a, b)


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
    with open(RunLayout(job.train.workdir).run) as file:
        assert json.load(file)["watched"] == {"metric": "loss", "mode": "min"}
    model = exported(job)
    for split, loss in (("eval", result.best_loss), ("test", result.test_loss)):
        windows = written.windows[split]
        assert np.mean((model.predict(windows, verbose=0) - windows) ** 2) == pytest.approx(loss, rel=1e-5)


def test_tensorboard_has_the_same_numbers(trained):
    job, _, _ = trained
    by_tag = {}
    for step, value in summaries(job):
        array = tf.make_ndarray(value.tensor)
        by_tag[step, value.tag] = array if array.ndim else float(array)
    assert by_tag[8, "reconstruction"][2].startswith(b"\x89PNG")
    with open(RunLayout(job.train.workdir).report, "rb") as file:
        report = tf.image.decode_png(file.read(), channels=3)
    np.testing.assert_array_equal(tf.image.decode_png(by_tag[24, "report"][2]), report)
    steps = {step for step, tag in by_tag if tag == "steps/loss"}
    assert {8, 16, 24} <= steps
    assert steps == {step for step, tag in by_tag if tag == "steps/gradient_norm"}
    for line in lines(job):
        assert by_tag[line["step"], "loss"] == pytest.approx(line["loss"], rel=1e-6)
        assert by_tag[line["step"], "eval_loss"] == pytest.approx(line["eval_loss"], rel=1e-6)


def test_the_export_agrees_with_the_model(trained):
    job, _, written = trained
    names = RunLayout(job.train.workdir)
    model = exported(job)
    windows = written.windows["test"][:5]
    served = tf.saved_model.load(names.saved_model).signatures["preprocessed"](windows=tf.constant(windows))
    np.testing.assert_allclose(served["latent"], model.get_layer("encoder")(windows), atol=1e-6)
    np.testing.assert_allclose(served["reconstruction"], model(windows), atol=1e-6)
    assert served["latent"].shape == (5, 2)
    with open(names.report, "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n"


@pytest.mark.slow
def test_two_epochs_and_two_more_equal_four(job, written, tmp_path):
    other = str(tmp_path / "whole")
    train_only(job(epochs=2), written)
    names = RunLayout(job().train.workdir)
    unfinished = [os.path.join(folder, "step-000000017.index") for folder in (names.checkpoints, names.best)]
    for path in unfinished:  # as a process leaves it that is killed
        write_text(path, "")
    resumed = train_only(job(epochs=4), written)
    assert not any(map(os.path.exists, unfinished))
    whole = train_only(job(epochs=4, workdir=other), written)
    assert without_times(lines(job())) == without_times(lines(job(workdir=other)))
    assert_same_weights(resumed, whole)


@pytest.mark.long
def test_a_lost_epoch_is_run_again_and_told_once(job, written):
    made = job(epochs=3)
    train_only(made, written)
    before = lines(made)
    # As after a crash between the third epoch's metrics and its checkpoint.
    os.remove(os.path.join(RunLayout(made.train.workdir).checkpoints, "step-000000024.json"))
    train_only(made, written)
    assert without_times(lines(made)) == without_times(before)


@pytest.mark.slow
def test_early_stopping_stops_and_stays_stopped(job, written):
    made = job(epochs=9, early_stopping={"patience": 2, "min_delta": 10.0})
    result = train_only(made, written).result
    # The first epoch is the reference; none of the next two is better by 10.
    assert (result.epochs, result.stopped_early) == (3, True)
    assert train_only(made, written).result.epochs == 3
    assert len(lines(made)) == 3


@pytest.mark.slow
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
    with pytest.raises(JobFailed, match=r"the loss is nan in epoch 1.* --from-step N goes back to an earlier"):
        train(job(), written)


@pytest.mark.slow
@pytest.mark.parametrize("feed", [{"cache": "memory"}, pytest.param({"cache": "file"}, marks=pytest.mark.long)])
def test_feeds(job, written, feed):
    result = train_only(job(feed={"batch_size": 8, "shuffle": 32, **feed}), written).result
    assert result.last_loss < result.first_loss


def test_shards_that_changed_are_noticed(job, written):
    os.replace(written.shards("eval")[0], written.shards("eval")[1])
    with open(written.shards("eval")[0], "wb"):
        pass
    with pytest.raises(UserError, match="differ from the manifest"):
        train(job(), written)


RANDOM_MODEL = """
import keras

@keras.saving.register_keras_serializable("test")
class Random(keras.Model):
    def __init__(self, length, features, **kwargs):
        super().__init__(**kwargs)
        self._sizes = {"length": length, "features": features}
        self.layer = keras.Sequential([
            keras.Input((length, features)),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(features),
        ])

    def call(self, windows, training=False):
        return self.layer(windows, training=training)

    def get_config(self):
        return {**super().get_config(), **self._sizes}
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", [pytest.param("recurrent", marks=pytest.mark.long), "random"])
def test_stopped_anywhere_and_started_again_nothing_changes(job, written, tmp_path, monkeypatch, kind):
    """With moving statistics, random layers, a schedule and clipping as well."""
    (tmp_path / "random_model.py").write_text(RANDOM_MODEL)
    monkeypatch.syspath_prepend(tmp_path)
    options = {
        "epochs": 4,
        "feed": {"batch_size": 8, "shuffle": 32},
        "checkpoint": {"every_steps": 3},
        "optimizer": {"clip_norm": 0.5, "schedule": {"name": "cosine", "decay_steps": 30, "warmup_steps": 4}},
    }
    if kind == "random":
        options["model"] = {"class": "random_model:Random"}
        options["optimizer"]["ema"] = 0.9
        options["devices"] = {"accumulate": 3}
    whole, stopped = (job(workdir=str(tmp_path / name), **options) for name in ("whole", "stopped"))
    expected = train_only(whole, written)
    stops = 0
    for calls in (2, 4, 1, 3):
        with pytest.raises(Preempted):
            loop.train_and_evaluate(stopped, written.manifest, connect(WorkerInfo()), Stopping(calls))
        stops += 1
    resumed = train_only(stopped, written)
    assert stops == 4
    assert without_times(lines(stopped)) == without_times(lines(whole))
    assert_same_weights(resumed, expected)


@pytest.mark.slow
def test_some_steps_are_recorded_and_change_nothing(job, tmp_path, capsys, without_export):
    path = tmp_path / "job.yaml"
    made = job(epochs=1, feed={"batch_size": 8, "shuffle": 32})
    path.write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
    found = []
    for number, more in enumerate(([], ["--profile-steps", "2-3"])):
        workdir = f"{tmp_path}/run-{number}"
        assert main(["--job", str(path), "--set", f"train.workdir={workdir}", *more]) == 0
        with open(RunLayout(workdir).metrics) as file:
            found.append(without_times([json.loads(line) for line in file]))
    assert found[0] == found[1]
    assert f"{workdir}/tensorboard: holds a profile of the steps 2 to 3" in capsys.readouterr().err
    (recorded,) = glob.glob(f"{workdir}/tensorboard/plugins/profile/*/*.xplane.pb")
    with open(recorded, "rb") as file:
        assert b"step_num" in file.read()
    assert glob.glob(f"{tmp_path}/run-0/tensorboard/plugins/*") == []


@pytest.mark.slow
def test_evaluated_every_few_steps_and_ended_by_their_number(job, written, tmp_path):
    options = {"epochs": 4, "feed": {"batch_size": 8, "shuffle": 32}, "evaluate_every": 5, "max_steps": 13}
    whole, stopped = (job(workdir=str(tmp_path / name), **options) for name in ("whole", "stopped"))
    expected = train_only(whole, written)
    found = lines(whole)
    assert [line["step"] for line in found] == [5, 10, 13]
    assert (expected.result.steps, find_finished(whole, written.manifest)) == (13, expected.result)
    with pytest.raises(Preempted):
        loop.train_and_evaluate(stopped, written.manifest, connect(WorkerInfo()), Stopping(3))
    resumed = train_only(stopped, written)
    assert without_times(lines(stopped)) == without_times(found)
    assert_same_weights(resumed, expected)
    ended = job(workdir=str(tmp_path / "ended"), **{**options, "max_steps": 2})  # calls of one step at first
    with pytest.raises(Preempted):  # in the call that ends with the last step
        loop.train_and_evaluate(ended, written.manifest, connect(WorkerInfo()), Stopping(1))
    assert list(find_checkpoints(RunLayout(ended.train.workdir).checkpoints)) == [2]
    train_only(ended, written)
    assert [line["step"] for line in lines(ended)] == [2]
    more = job(workdir=str(tmp_path / "whole"), **{**options, "max_steps": 16})
    assert find_finished(more, written.manifest) is None
    train_only(more, written)
    assert [line["step"] for line in lines(more)] == [5, 10, 13, 15, 16]


def test_a_run_on_a_dataset_that_has_grown_is_told_how_to_go_on(job, written, tmp_path):
    workdir, before = str(tmp_path / "model"), written.manifest.fingerprint
    os.makedirs(workdir)
    with open(RunLayout(workdir).run, "w") as file:
        json.dump({"fingerprint": "of before", "data": before}, file)
    runs = [
        Increment(
            **written.manifest.counts.model_dump(), data="data-0", fingerprint=name, windows=1, in_splits=[1, 1, 1]
        )
        for name in (before, "grown")
    ]
    grown = written.manifest.model_copy(update={"fingerprint": "grown", "increments": runs})
    with pytest.raises(
        UserError, match=f"as it was before; .* --set train.init.from={workdir} and another train.workdir"
    ):
        find_finished(job(workdir=workdir), grown)


@pytest.mark.slow
def test_a_damaged_checkpoint_and_a_step_to_go_back_to_end_with_the_same_bits(job, written, tmp_path, capsys):
    options = {"epochs": 4, "feed": {"batch_size": 8, "shuffle": 32}, "checkpoint": {"every_steps": 3, "keep": 9}}
    whole, damaged = (job(workdir=str(tmp_path / name), **options) for name in ("whole", "damaged"))
    expected = train_only(whole, written)
    with pytest.raises(Preempted):
        loop.train_and_evaluate(damaged, written.manifest, connect(WorkerInfo()), Stopping(6))
    names = RunLayout(damaged.train.workdir)
    before, last = list(find_checkpoints(names.checkpoints))[-2:]
    with open(find_checkpoints(names.checkpoints)[last] + ".data-00000-of-00001", "r+b") as file:
        file.truncate(1000)
    train_only(damaged, written)
    assert f"is damaged (Read less bytes than requested); going on from step {before}" in capsys.readouterr().err
    assert without_times(lines(damaged)) == without_times(lines(whole))

    told = list_checkpoints.describe(list_checkpoints.read(names.workdir))
    steps = list(find_checkpoints(names.checkpoints))
    assert [int(line.split()[0]) for line in told[1:]] == steps
    again = loop.train_and_evaluate(damaged, written.manifest, connect(WorkerInfo()), start=Start(from_step=steps[3]))
    assert again.result.model_copy(update={"seconds": 0}) == expected.result.model_copy(update={"seconds": 0})
    assert without_times(lines(damaged)) == without_times(lines(whole))
    assert_same_weights(again, expected)


@pytest.mark.slow
def test_the_last_checkpoints_stay(job, written):
    made = job(epochs=3, checkpoint={"every_steps": 2, "keep": 2})
    train_only(made, written)
    names = RunLayout(made.train.workdir)
    assert list(find_checkpoints(names.checkpoints)) == [22, 24]
    assert len(os.listdir(names.checkpoints)) == 2 * 3
    assert 1 <= len(find_checkpoints(names.best)) <= 3


@pytest.mark.long
def test_the_best_weights_that_any_checkpoint_knows_of_stay(job, written):
    model = {"name": "dense_autoencoder", "units": [6], "latent": 2, "linear": False}  # all is still to be learned
    made = job(epochs=8, checkpoint={"keep": 4}, optimizer={"learning_rate": 0.001}, model=model)
    train_only(made, written)
    names = RunLayout(made.train.workdir)
    known = []
    for prefix in find_checkpoints(names.checkpoints).values():
        with open(prefix + ".json") as file:
            known.append(json.load(file)["best_step"])
    assert len(set(known)) == 4  # each epoch was better than those before
    assert set(known) <= find_checkpoints(names.best).keys()


@pytest.mark.slow
def test_a_start_that_is_named_counts_once(job, tmp_path, capsys, request, without_export):
    handler = signal.getsignal(signal.SIGTERM)
    request.addfinalizer(lambda: signal.signal(signal.SIGTERM, handler))
    made = job(epochs=2, checkpoint={"every_steps": 3, "keep": 9})
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(made.model_dump(mode="json", by_alias=True)))
    complete = RunLayout(made.train.workdir).complete

    def start(*options):
        capsys.readouterr()
        code = main(["--job", str(path), *options])
        return code, "".join(capsys.readouterr())

    assert start()[0] == 0
    with open(complete) as file:
        first = file.read()
    code, told = start("--from-step=5")
    assert (code, "holds no checkpoint of step 5 (there: 3, 6, 8, 9, 12, 15, 16)" in told) == (2, True)
    with open(complete) as file:
        assert file.read() == first  # a slip costs nothing
    code, told = start("--from-step=3", "--once=a")
    assert (code, "epoch 2/2" in told) == (0, True)
    code, told = start("--from-step=3", "--once=a")
    assert (code, "nothing to do" in told) == (0, True)


def test_what_a_start_has_done_is_known_as_long_as_it_is_started_again(job, written):
    made = job()
    workdir = made.train.workdir
    claim(made, written.manifest, restart=True, once="a")
    for _ in range(2):
        assert was_done(workdir, "a")
        assert not was_done(workdir, "b")
        claim(made, written.manifest, restart=False, once="a")
    claim(made, written.manifest, restart=False, once="b")  # whose turn to go back is still to come
    assert not was_done(workdir, "b")
    note_done(workdir, "b")
    assert was_done(workdir, "b")
    assert not was_done(workdir, "")


def test_a_finished_run_that_goes_on_or_begins_anew_is_not_finished(job, written, monkeypatch):
    made = job()
    names = RunLayout(made.train.workdir)
    claim(made, written.manifest, restart=False)
    write_text(names.complete, "{}")
    claim(job(epochs=9), written.manifest, restart=False)
    assert not os.path.exists(names.complete)

    os.mkdir(names.saved_model)
    write_text(names.complete, "{}")
    monkeypatch.setattr(tf.io.gfile, "rmtree", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # as if it was killed there
        claim(made, written.manifest, restart=True)
    assert os.path.exists(names.run)
    assert not os.path.exists(names.complete)


@pytest.mark.slow
@pytest.mark.parametrize("precision", [pytest.param("mixed_bfloat16", marks=pytest.mark.long), "mixed_float16"])
def test_mixed_precision_learns_and_exports_float32(job, written, precision):
    made = job(epochs=3, devices={"precision": precision})
    result = train(made, written)
    assert result.last_loss < result.first_loss
    assert {weight.dtype for weight in exported(made).get_weights()} == {np.dtype("float32")}
    assert keras.config.dtype_policy().name == "float32"
    assert all(0 < line["gradient_norm"] < math.inf for line in lines(made))  # the first steps of float16 overflow
    assert [line.get("skipped_steps") for line in lines(made)] == [None if precision == "mixed_bfloat16" else 0] * 3


# Of `bound`, the loss is finite and the gradient is not, at any scale; of `steep`, at the first scales.
STEEP = """
import keras

class Bound(keras.Model):
    def __init__(self, length, features, steep, **more):
        super().__init__(**more)
        self.made_of = {"length": length, "features": features, "steep": steep}
        self.dense = keras.layers.Dense(features)
        self.bound = self.add_weight(shape=(), initializer="zeros", name="bound", dtype="float32")
        self.steep = steep

    def get_config(self):
        return {**super().get_config(), **self.made_of}

    def call(self, windows):
        more = keras.ops.sqrt(self.bound * 0.0) if self.steep == "always" else self.bound * 1e4
        return self.dense(windows) + keras.ops.cast(more, windows.dtype)
"""


@pytest.mark.slow
def test_steps_of_float16_that_are_skipped_are_counted(job, written, tmp_path, monkeypatch, capsys):
    name = f"steep_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(STEEP)
    monkeypatch.syspath_prepend(tmp_path)

    def made(steep, **more):
        model = {"class": f"{name}:Bound", "args": {"steep": steep}}
        return job(model=model, epochs=12, devices={"precision": "mixed_float16"}, **more)

    some = made("first", workdir=str(tmp_path / "some"), optimizer={"name": "sgd", "learning_rate": 1e-12})
    train_only(some, written)
    skipped = [line["skipped_steps"] for line in lines(some)]
    assert skipped[0] == 8
    assert min(skipped) == 0
    assert f"{skipped[0]} steps skipped" in capsys.readouterr().err
    with pytest.raises(JobFailed, match=r"the gradients are not finite in epoch .* all steps are skipped"):
        train_only(made("always"), written)


@pytest.mark.slow
def test_data_prepared_anew_under_a_running_training_are_told(job, written, capsys):
    shown = written.manifest.model_copy(update={"fingerprint": "1f" * 32})
    write_manifest(written.output, shown)
    train_only(job(epochs=1), written)
    assert "was preprocessed again while this training runs" in capsys.readouterr().err


@pytest.mark.slow
def test_a_checkpoint_of_another_model_is_told(job, written):
    train_only(job(epochs=1), written)
    other = {"name": "recurrent_autoencoder", "cell": "gru", "units": [5], "latent": 2}
    with pytest.raises(UserError, match="another model or optimizer"):
        train_only(job(epochs=2, model=other), written)
