"""Tables with several labels, and texts of any length in a model of the user's own: trained, exported, served."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from beamfeed.trainer.main import main
from tests.tables import Lake, make_table

pytestmark = pytest.mark.slow

ODD_WORKER = os.path.join(os.path.dirname(__file__), "odd_worker.py")

MODEL = """
import keras
from keras import layers

def make(inputs, outputs):
    assert inputs == {"numbers": [1], "note": [None]}, inputs
    found = {
        "numbers": keras.Input(inputs["numbers"], name="numbers"),
        "note": keras.Input(inputs["note"], name="note", dtype="int64"),
    }
    words = layers.Embedding(100, 8, mask_zero=True)(found["note"])
    state = layers.Concatenate()([found["numbers"], layers.GRU(8)(words)])
    return keras.Model(found, {name: layers.Dense(units)(state) for name, units in outputs.items()})
"""
OUTPUTS = {
    "big": {"name": "classify", "target": "big", "metrics": ["roc_auc"], "threshold": "best_f1"},
    "wins": {"name": "classify", "target": "wins", "metrics": ["roc_auc"]},
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, free_ports):
    """Two labels of the same rows, one that the amount tells and one that a word tells."""
    lake = Lake(tmp_path_factory.mktemp("labels"))
    table = make_table(1500)
    table["amount"] = table["amount"].fillna(1)
    table["big"] = (table["amount"] > 25).astype(int)
    table["wins"] = table["note"].fillna("").str.contains("Win").map({True: "yes", False: "no"})
    lake.write("a.parquet", table)
    (lake.folder / "words_and_numbers.py").write_text(MODEL)
    lake.job |= {
        "features": {
            "row": "pass",
            "amount": {"type": "numeric", "scale": "log"},
            "note": {"type": "text", "length": "ragged"},
        },
        "label": [
            {"column": "big", "name": "big", "classes": [0, 1]},
            {"column": "wins", "name": "wins", "classes": "auto"},
        ],
        "train": {
            "model": {"class": "words_and_numbers:make"},
            "task": {"outputs": OUTPUTS},
            "feed": {"batch_size": 16},
            "optimizer": {"learning_rate": 0.02},
            "epochs": 4,
            "review": {"baselines": "none"},
            "workdir": str(lake.folder / "model"),
        },
    }
    path = str(lake.folder / "job.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(lake.folder)
        assert lake.preprocess() == 0
        assert main(["--job", path]) == 0
    command = [sys.executable, ODD_WORKER, "--bare", "--job", path, "--set", f"train.workdir={lake.folder}/two"]
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    workers = []
    for index in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        env = {**os.environ, "TF_CONFIG": json.dumps(config)}
        env["PYTHONPATH"] = os.pathsep.join([str(lake.folder), os.environ.get("PYTHONPATH", "")])
        workers.append(subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
    try:
        for worker in workers:
            _, errors = worker.communicate(timeout=300)
            assert worker.returncode == 0, errors
    finally:
        for worker in workers:
            worker.kill()
    lake.table = table
    return lake


def result(lake, workdir="model"):
    return json.loads((lake.folder / workdir / "complete.json").read_text())


def test_both_labels_are_learned(trained):
    for name in OUTPUTS:
        assert result(trained)["test_metrics"][f"{name}_roc_auc"] > 0.97
    counts = trained.manifest["splits"]["train"]["targets"]
    rows = trained.table.set_index("row").loc[list(trained.rows("train"))]
    assert counts["big"]["counts"] == [int((rows["big"] == value).sum()) for value in (0, 1)]
    assert counts["wins"]["counts"] == [int((rows["wins"] == value).sum()) for value in ("no", "yes")]


def test_two_workers_learn_the_same_of_texts_of_any_length(trained):
    one, two = result(trained), result(trained, "two")
    assert two["workers"] == 2
    for key in ("first_loss", "last_loss", "best_loss", "test_loss"):
        assert one[key] == pytest.approx(two[key], rel=1e-5), key


def test_the_exported_model_gives_each_label_from_raw_columns(trained):
    model = tf.saved_model.load(str(trained.folder / "model" / "saved_model"))
    table = trained.table
    amount, note = tf.constant(table["amount"].to_numpy("f4")), tf.constant(table["note"].fillna("").tolist())
    found = model.signatures["serving_default"](amount=amount, note=note)
    for name, values in (("big", ["0", "1"]), ("wins", ["no", "yes"])):
        said = [values.index(one.decode()) for one in found[f"{name}_class"].numpy()]
        wanted = [values.index(str(one)) for one in table[name]]
        assert np.mean(np.equal(said, wanted)) > 0.9
    # A text by itself gives what it gives beside longer ones.
    alone = model.signatures["serving_default"](amount=amount[:1], note=note[:1])
    for name, values in alone.items():
        if values.dtype != tf.string:
            np.testing.assert_allclose(values[0], found[name][0], atol=1e-6)
