"""docs/own_model.md: each of its models trains for its task, in each precision, and is exported."""

import re
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml
from labelled import FEATURES, LENGTH, labelled_job, write_labelled

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.trainer.cluster.strategy import connect
from beamfeed.trainer.export.run import export_run
from beamfeed.trainer.loop import train as loop


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_labelled(str(tmp_path_factory.mktemp("data")), {"train": 200, "eval": 60, "test": 20})


@pytest.fixture
def sections(root, tmp_path, monkeypatch):
    """The sections `train` of the page; its modules can be imported."""
    page = (root / "docs" / "own_model.md").read_text()
    modules = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", page, re.DOTALL)
    assert [name for name, _ in modules] == ["conv_autoencoder", "conv_networks"]
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, code in modules:
        (tmp_path / f"{name}.py").write_text(code)
        sys.modules.pop(name, None)
    yield [yaml.safe_load(text)["train"] for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    for name, _ in modules:
        sys.modules.pop(name, None)


UNUSUAL = ("pca_q", "pca_t2", "nearest")
CASES = {  # the section of the page, the task, the precision, what the export returns
    "reconstruct": (0, {"name": "reconstruct"}, "mixed_bfloat16", {"reconstruction", "latent", "score", *UNUSUAL}),
    "classify": (1, {"name": "classify", "target": "hot"}, "float32", {"probabilities", "class"}),
    "regress": (1, {"name": "regress", "target": "life"}, "float32", {"prediction"}),
    "several": (
        2,
        {"outputs": {"fault": {"name": "classify", "target": "fault"}, "window": {"name": "reconstruct"}}},
        "mixed_float16",
        {
            "fault_probabilities",
            "fault_class",
            "window_reconstruction",
            "window_score",
            *(f"window_{name}" for name in UNUSUAL),
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        "reconstruct",
        "several",
        pytest.param("classify", marks=pytest.mark.long),
        pytest.param("regress", marks=pytest.mark.long),
    ],
)
def test_a_model_of_the_page(data, sections, tmp_path, case):
    number, task, precision, outputs = CASES[case]
    job = labelled_job(
        data.output,
        model=sections[number]["model"],
        task=task,
        feed={"batch_size": 20, "shuffle": 200},
        optimizer={"name": "adam", "learning_rate": 0.02},
        devices={"precision": precision},
        epochs=4,
        workdir=str(tmp_path / "model"),
    )
    outcome = loop.train_and_evaluate(job, data.manifest, connect(WorkerInfo()))
    export_run(job, data.manifest, outcome)
    assert outcome.result.last_loss < 0.8 * outcome.result.first_loss
    windows = np.random.default_rng(1).normal(size=(3, LENGTH, FEATURES)).astype("f4")
    saved = tf.saved_model.load(str(tmp_path / "model" / "saved_model"))
    served = saved.signatures["preprocessed"](windows=tf.constant(windows))
    assert set(served) == outputs
    again = keras.saving.load_model(tmp_path / "model" / "model.keras")(windows)
    if case == "regress":
        np.testing.assert_allclose(served["prediction"], again[:, 0], rtol=1e-5)
    if case == "classify":
        np.testing.assert_allclose(served["probabilities"], tf.nn.softmax(again), rtol=1e-4)


def test_the_page_names_tasks_that_there_are(sections):
    assert sections[1]["task"] == {"name": "classify"}
    assert list(sections[2]["task"]["outputs"]) == ["fault", "window"]
