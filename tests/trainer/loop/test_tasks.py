"""The loop on tasks with labels: what it measures, what it watches, and that stopping changes nothing."""

import os
import sys
from contextlib import closing

import numpy as np
import pytest
import tensorflow as tf
from labelled import labelled_job, write_labelled
from trained import Stopping, exported, lines, pictures, without_times

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.config.train import Watch
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.result import Watched
from beamfeed.contract.errors import UserError
from beamfeed.trainer.cluster.strategy import connect
from beamfeed.trainer.cluster.watchdog import Preempted, Watchdog
from beamfeed.trainer.export.run import export_run
from beamfeed.trainer.loop import train as loop
from beamfeed.trainer.loop.start import Start
from beamfeed.trainer.loop.state import TrainingState
from beamfeed.trainer.loop.training import Training
from beamfeed.trainer.tasks.objective import Objective, find_watched

OWN = """
import keras

def shared(length, features, outputs):
    windows = keras.Input((length, features))
    state = keras.layers.Dropout(0.2)(keras.layers.GRU(6)(windows))
    back = keras.layers.Reshape(outputs["back"])(keras.layers.Dense(length * features)(state))
    return keras.Model(windows, {"fault": keras.layers.Dense(outputs["fault"])(state), "back": back})

class Plain(keras.metrics.Mean):
    def update_state(self, wanted, found, sample_weight=None):
        return super().update_state(found[..., 0], sample_weight)
"""
LEAST = np.log(2) / 22
SEVERAL = {
    "model": {"class": "own_shared:shared"},
    "review": {"baselines": "all"},
    "task": {
        "outputs": {
            "back": {"name": "reconstruct", "weight": 0.5},
            "fault": {
                "name": "classify",
                "target": "fault",
                "class_weights": "balanced",
                "metrics": ["accuracy", "auc"],
            },
        }
    },
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_labelled(str(tmp_path_factory.mktemp("data")))


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_shared.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in ("own_shared", "own_other"):
        sys.modules.pop(name, None)


@pytest.fixture
def job(data, tmp_path):
    return lambda name="run", **train: labelled_job(data.output, workdir=str(tmp_path / name), **train)


def train(job, data, watchdog=None):
    outcome = loop.train_and_evaluate(job, data.manifest, connect(WorkerInfo()), watchdog)
    export_run(job, data.manifest, outcome)
    return outcome.result


@pytest.mark.slow
def test_a_classifier_learns_and_its_numbers_are_those_of_the_export(data, job, capsys):
    made = job(epochs=6)
    result = train(made, data)
    found = lines(made)
    assert list(found[0])[:6] == ["epoch", "step", "loss", "accuracy", "eval_loss", "eval_accuracy"]
    assert found[-1]["loss"] < 0.8 * found[0]["loss"]
    best = min(found, key=lambda line: line["eval_loss"])
    assert (result.watched, result.best, result.best_loss) == ("loss", best["eval_loss"], best["eval_loss"])
    assert result.metrics == {"accuracy": best["eval_accuracy"]}
    model = exported(made)
    for split, loss, accuracy in (
        ("eval", result.best_loss, result.metrics["accuracy"]),
        ("test", result.test_loss, result.test_metrics["accuracy"]),
    ):
        fields = data.fields[split]
        logits = model.predict(fields["values"], verbose=0)
        likelihood = tf.nn.softmax(logits).numpy()[np.arange(len(logits)), fields["fault"]]
        assert -np.log(likelihood).mean() == pytest.approx(loss, rel=1e-5)
        assert (logits.argmax(1) == fields["fault"]).mean() == pytest.approx(accuracy, rel=1e-6)
    assert pictures(made).keys() == {"confusion_matrix", "report"}
    assert "  eval accuracy 0." in capsys.readouterr().err


@pytest.mark.slow
def test_a_regression_begins_and_ends_in_the_units_of_the_target(data, job):
    made = job(epochs=8, task={"name": "regress", "target": "life"})
    result = train(made, data)
    assert lines(made)[0]["eval_mean_absolute_error"] < 60  # of numbers around 1000 that spread by 50
    assert result.metrics["mean_absolute_error"] < 20
    assert result.metrics["root_mean_squared_error"] == pytest.approx(result.best_loss**0.5, rel=1e-5)
    fields = data.fields["test"]
    found = exported(made).predict(fields["values"], verbose=0)[:, 0]
    assert np.abs(found - fields["life"]).mean() == pytest.approx(result.test_metrics["mean_absolute_error"], rel=1e-5)
    assert pictures(made).keys() == {"predictions", "report"}


@pytest.mark.long
def test_several_outputs_stopped_anywhere_and_started_again_nothing_changes(data, job):
    """In the middle of an epoch the sums of all metrics are in the checkpoint, AUC's 800 as well."""
    options = {**SEVERAL, "epochs": 4, "watch": {"metric": "fault_auc"}, "checkpoint": {"every_steps": 3}}
    whole, stopped = job("whole", **options), job("stopped", **options)
    result = train(whole, data)
    for calls in (2, 4, 1, 3):
        with pytest.raises(Preempted):
            train(stopped, data, Stopping(calls))
    assert train(stopped, data).model_dump(exclude={"seconds"}) == result.model_dump(exclude={"seconds"})
    assert without_times(lines(stopped)) == without_times(lines(whole))
    for a, b in zip(exported(stopped).get_weights(), exported(whole).get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    line = lines(whole)[-1]
    names = ["loss", "back_loss", "fault_loss", "fault_accuracy", "fault_auc"]
    assert [name for name in line if name in names] == names
    assert line["eval_loss"] == pytest.approx(0.5 * line["eval_back_loss"] + line["eval_fault_loss"], rel=1e-6)
    assert pictures(whole).keys() == {"back_reconstruction", "fault_confusion_matrix", "report"}
    assert result.best == max(one["eval_fault_auc"] for one in lines(whole))


def test_metrics_of_ones_own_do_not_go_on_with_the_sums_of_others_of_their_name(data, job, tmp_path):
    """Also where they come between the last step and its evaluation."""
    (tmp_path / "own_other.py").write_text(OWN)
    task = {"name": "classify", "target": "fault"}
    of_other = Objective(job(task={**task, "metrics": ["own_other:Plain"]}).train.task, data.manifest)
    made = job(task={**task, "metrics": ["own_shared:Plain", "accuracy"]}, max_steps=1)
    with closing(Training(made, data.manifest, connect(WorkerInfo()), Watchdog(), Start())) as training:
        mine = [name for name in training.objective.zero() if name.startswith("plain/")]
        for names, plain in ((mine, 1.0), (of_other.zero(), 0.0)):
            saved = TrainingState(step=1, done=1, since=1, sums={**dict.fromkeys(names, 3.0), "loss": 2.0})
            state = training.run(None, saved, None)
            assert training.objective.values(state.sums, 1) == {"loss": 2.0, "plain": plain, "accuracy": 0.0}


@pytest.mark.long
@pytest.mark.parametrize("mode", ["max", "min"])
def test_what_is_watched_decides_the_best_weights_and_the_end(data, job, mode):
    made = job(
        epochs=12, watch={"metric": "accuracy", "mode": mode}, early_stopping={"patience": 2},
        optimizer={"name": "sgd", "learning_rate": 1e-9},
    )  # fmt: skip
    result = train(made, data)
    values = [line["eval_accuracy"] for line in lines(made)]
    assert values == [values[0]] * 3  # nothing is learned: two epochs are no better than the first
    assert (result.epochs, result.stopped_early, result.watched, result.best) == (3, True, "accuracy", values[0])
    learning = job(f"learning-{mode}", epochs=5, watch={"metric": "accuracy", "mode": mode})
    result = train(learning, data)
    values = [line["eval_accuracy"] for line in lines(learning)]
    assert result.best == (max if mode == "max" else min)(values)
    assert result.metrics["accuracy"] == result.best
    logits = exported(learning).predict(data.fields["eval"]["values"], verbose=0)
    assert (logits.argmax(1) == data.fields["eval"]["fault"]).mean() == pytest.approx(result.best, rel=1e-6)


@pytest.mark.parametrize(
    ("watch", "message"),
    [
        (
            {"metric": "accuracy"},
            "train.watch.metric: 'accuracy' is not measured; did you mean 'fault_accuracy'? "
            "(there is: loss, back_loss, fault_loss, fault_accuracy, fault_plain)",
        ),
        (
            {"metric": "fault_plain"},
            "train.watch.mode: auto cannot tell whether high or low values of 'fault_plain' are better; "
            "give min or max",
        ),
    ],
)
def test_what_cannot_be_watched_is_one_line_before_anything_is_written(data, job, watch, message):
    task = {"outputs": {**SEVERAL["task"]["outputs"]}}
    task["outputs"]["fault"] = {"name": "classify", "target": "fault", "metrics": ["accuracy", "own_shared:Plain"]}
    made = job(**{**SEVERAL, "task": task}, watch=watch)
    with pytest.raises(UserError) as caught:
        train(made, data)
    assert str(caught.value) == message
    assert not os.path.exists(made.train.workdir)


@pytest.mark.parametrize(
    ("watch", "found"),
    [
        ({}, Watched("loss", False)),
        ({"metric": "fault_auc"}, Watched("fault_auc", True)),
        ({"metric": "fault_auc", "mode": "min"}, Watched("fault_auc", False)),
        ({"metric": "fault_loss"}, Watched("fault_loss", False)),
    ],
)
def test_auto_asks_the_metric(data, job, watch, found):
    objective = Objective(job(**SEVERAL).train.task, data.manifest)
    assert find_watched(Watch(**watch), objective) == found


def test_low_scores_are_good():
    assert Watched("auc", True).score({"loss": 1.0, "auc": 0.7}) == -0.7
    assert Watched("loss", False).score({"loss": 1.0, "auc": 0.7}) == 1.0
    assert Watched("auc", True).score({"loss": 1.0, "auc": None}) is None


@pytest.mark.parametrize(
    ("task", "least"),
    [
        ({"name": "classify", "target": "fault"}, LEAST),
        ({"name": "classify", "target": "fault", "loss": "sparse_categorical_crossentropy"}, LEAST),
        ({"name": "classify", "target": "fault", "class_weights": "balanced"}, LEAST),
        ({"name": "classify", "target": "fault", "class_weights": {"ok": 0.01, "worn": 1, "broken": 1}}, None),
        ({"name": "classify", "target": "fault", "sample_weight": "importance"}, None),
        ({"name": "classify", "target": "fault", "loss": "focal"}, None),
        ({"name": "regress", "target": "life"}, None),
        ({"outputs": {"a": {"name": "classify", "target": "fault", "weight": 0.5},
                      "b": {"name": "classify", "target": "hot"}}}, 1.5 * LEAST),
        (SEVERAL["task"], None),
    ],
)  # fmt: skip
def test_the_least_loss_of_so_many_windows(data, job, task, least):
    found = Objective(job(task=task).train.task, data.manifest).least_loss(21)
    assert found == (None if least is None else pytest.approx(least))


def test_under_the_least_loss_all_windows_are_told_right_and_chance_is_above_it(data, job):
    least = Objective(job(task={"name": "classify", "target": "hot"}).train.task, data.manifest).least_loss
    assert all(windows * least(windows) < np.log(2) for windows in (1, 2, 100, 10**6))


def test_weights_that_are_surer_than_eval_can_tell_are_no_better(tmp_path):
    """Of 2 windows that are told right, a loss under ln 2 / 3 says nothing more: the first such weights are kept."""
    data = write_labelled(str(tmp_path / "data"), {"train": 300, "eval": 2, "test": 5}, seed=0)
    made = labelled_job(
        data.output, workdir=str(tmp_path / "run"), task={"name": "classify", "target": "hot"}, epochs=30,
        early_stopping={"patience": 3}, optimizer={"learning_rate": 0.002},
    )  # fmt: skip
    result = loop.train_and_evaluate(made, data.manifest, connect(WorkerInfo())).result
    losses = [line["eval_loss"] for line in lines(made)]
    sure = next(number for number, loss in enumerate(losses, 1) if loss < np.log(2) / 3)
    assert min(losses) < losses[sure - 1]
    assert (result.best_epoch, result.best) == (sure, losses[sure - 1])
    assert (result.epochs, result.stopped_early) == (sure + 3, True)


@pytest.mark.slow
def test_without_an_eval_split_the_train_split_decides(tmp_path):
    data = write_labelled(str(tmp_path / "data"), {"train": 30, "eval": 0, "test": 0})
    made = labelled_job(data.output, workdir=str(tmp_path / "run"), epochs=3, watch={"metric": "accuracy"})
    result = train(made, data)
    assert result.best == max(line["accuracy"] for line in lines(made))
    assert [line["eval_loss"] for line in lines(made)] == [None] * 3
    assert result.test_metrics == {}


@pytest.mark.slow
def test_an_export_of_several_outputs_has_their_names_in_front(data, job):
    made = job(**SEVERAL, epochs=1)
    train(made, data)
    signatures = tf.saved_model.load(RunLayout(made.train.workdir).saved_model).signatures
    windows = data.fields["test"]["values"]
    found = {name: one.numpy() for name, one in signatures["preprocessed"](windows=tf.constant(windows)).items()}
    expected = exported(made)(windows)
    assert set(found) == {"back_reconstruction", "back_score", "fault_probabilities", "fault_class"}
    np.testing.assert_allclose(found["back_reconstruction"], expected["back"], atol=1e-6)
    np.testing.assert_allclose(found["fault_probabilities"], tf.nn.softmax(expected["fault"]), atol=1e-6)
    names = np.array([b"ok", b"worn", b"broken"])
    assert found["fault_class"].tolist() == names[expected["fault"].numpy().argmax(1)].tolist()
    told = {name: one.numpy().tolist() for name, one in signatures["features"]().items()}
    frame = {"length": windows.shape[1], "stride": data.manifest.windows.stride}
    assert told == {"features": [b"a", b"b", b"c"], "fault_classes": names.tolist(), **frame}
