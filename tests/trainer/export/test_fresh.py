"""An export is asked again in a fresh process: what is the trained model passes, what is another one does not."""

import os
import shutil

import pytest
import tensorflow as tf
import yaml

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import JobFailed
from beamfeed.trainer.export.fresh import Call, FreshProcess, check_answers
from beamfeed.trainer.main import main

DRIFTING = """
import keras

made = []


class Drifting(keras.Model):
    \"\"\"The third that is made, the one that is exported, is another function than the two before training.\"\"\"

    def __init__(self, length, features, **kwargs):
        super().__init__(**kwargs)
        made.append(self)
        self.scale = 1.0 if len(made) < 3 else 3.0
        self.settings = {"length": length, "features": features}
        self.dense = keras.layers.Dense(features)

    def call(self, windows):
        return self.scale * self.dense(windows)

    def get_config(self):
        return self.settings
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A SavedModel of a signature that doubles, and gives a class."""
    folder = str(tmp_path_factory.mktemp("saved"))
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="rows")])
    def double(rows):
        return {"prediction": 2 * rows, "class": tf.where(rows[:, 0] > 1, "high", "low")}

    module.double = double
    tf.saved_model.save(module, folder, signatures={"serving_default": double})
    return folder


def calls(prediction, classes=("low", "high"), name="prediction"):
    rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    expected = {name: tf.constant(prediction), "class": tf.constant(classes)}
    return [Call("serving_default", {"rows": rows}, expected, ["a from row 0 (eval)", "b from row 8 (eval)"])]


@pytest.fixture(scope="module")
def answers(saved, tmp_path_factory):
    """What a strange process says of a SavedModel in a folder whose name is a glob."""
    folder = tmp_path_factory.mktemp("strange") / "in[1]"
    shutil.copytree(saved, folder / "model")
    with pytest.MonkeyPatch.context() as patch, FreshProcess() as process:
        patch.chdir(folder)  # what a job names, such as out/model, is relative to it
        process.ask("model", calls([[2.0, 4.0], [6.0, 8.0]]))
        return process.answers("model")


def test_a_folder_that_is_there_may_lie_in_one_whose_name_is_a_glob(answers):
    (found,) = answers
    assert found["prediction"].numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_what_a_strange_process_says_is_compared_row_by_row(saved, answers):
    check_answers(saved, calls([[2.0, 4.0], [6.0, 8.0]]), answers, {})
    what = "the SavedModel is not the trained model: 'prediction' of its signature 'serving_default'"
    with pytest.raises(
        JobFailed, match=what + r" is 8 where the model gives 8\.5, for b from row 8 \(eval\); do not serve it$"
    ):
        check_answers(saved, calls([[2.0, 4.0], [6.0, 8.5]]), answers, {})
    with pytest.raises(JobFailed, match=r"'class' .* is 'high' where the model gives 'low', for b"):
        check_answers(saved, calls([[2.0, 4.0], [6.0, 8.0]], ("low", "low")), answers, {})
    with pytest.raises(JobFailed, match="'latent' of its signature 'serving_default' is not there"):
        check_answers(saved, calls([[2.0, 4.0], [6.0, 8.0]], name="latent"), answers, {})
    with pytest.raises(JobFailed, match=r"is \[2, 2\], the model gives \[2, 1\]"):
        check_answers(saved, calls([[2.0], [6.0]]), answers, {})


def test_a_saved_model_that_cannot_be_loaded_or_called_is_one_line(saved, tmp_path):
    right = calls([[2.0, 4.0], [6.0, 8.0]])
    other = [Call("serving_default", {"columns": right[0].inputs["rows"]}, {}, [])]
    for folder, asked in ((str(tmp_path), right), (saved, other)):
        with FreshProcess() as process:
            process.ask(folder, asked)
            with pytest.raises(JobFailed, match="fails in a fresh process") as caught:
                process.answers(folder)
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_a_model_that_is_another_one_when_it_is_made_again_is_not_exported(job, tmp_path, capsys, monkeypatch):
    (tmp_path / "drifting.py").write_text(DRIFTING)
    monkeypatch.syspath_prepend(str(tmp_path))
    run = job(max_steps=2, model={"class": "drifting:Drifting"})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(run.model_dump(mode="json", by_alias=True)))
    assert main(["--job", str(tmp_path / "job.yaml")]) == 1
    told = capsys.readouterr().err.strip().splitlines()
    assert "the SavedModel is not the trained model: " in told[-1]
    assert " of its signature 'preprocessed' is " in told[-1]
    assert "do not serve it" in told[-1]
    assert not os.path.exists(RunLayout(run.train.workdir).complete)
