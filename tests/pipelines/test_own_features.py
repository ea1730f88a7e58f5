"""A preprocessing_fn of the user's own beside the features: its analyzers see the training rows, serving runs it."""

import sys

import numpy as np
import pandas as pd
import pytest

from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.fingerprint import data_fingerprint
from tests.tables import Lake, make_table

CODE = """
import tensorflow as tf
import tensorflow_transform as tft

def preprocessing_fn(inputs):
    per_unit = inputs["amount"] / (inputs["count"] + 1)
    per_unit = tf.where(tf.math.is_nan(per_unit), 0.0, per_unit)
    return {
        "per_unit": tft.scale_to_0_1(per_unit),
        "kind_number": tft.compute_and_apply_vocabulary(inputs["kind"], num_oov_buckets=1),
        "pair": tf.stack([per_unit, per_unit**2], axis=-1),
    }

def fails(inputs):
    return {"x": inputs["amount"] + inputs["kind"]}

def list_(inputs):
    return [inputs["amount"]]

def halves(inputs):
    return {"x": tf.cast(inputs["amount"], tf.float16)}

def total(inputs):
    return {"x": tf.reduce_sum(inputs["amount"])}

class Ended(tf.Module):
    def __init__(self):
        self.number = tf.Variable(1.0)

    @tf.function(input_signature=[])
    def ends(self):
        tf.raw_ops.Abort(error_msg="ended")
        return self.number

def reads(inputs):
    file = tf.io.read_file("/etc/hostname")
    return {"x": inputs["amount"] + tf.cast(tf.strings.length(file), tf.float32)}

def keeps(inputs):
    kept = tft.make_and_track_object(Ended, name="kept")
    return {"x": inputs["amount"] * kept.number}

def label(inputs):
    return {"label": inputs["amount"]}
"""
OWN = {"type": "own", "columns": {"amount": "number", "count": "number", "kind": "text"}}


@pytest.fixture
def lake(tmp_path, monkeypatch):
    found = Lake(tmp_path)
    (tmp_path / "of_mine.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "of_mine", raising=False)
    found.job["features"] = {"row": "pass", "amount": "numeric"}
    return found


def test_its_outputs_are_fields_and_its_analyzers_see_training_rows(lake):
    for day in range(2):
        lake.write(f"{day}.parquet", make_table(200, day), row_group_size=50)
    lake.job["features"]["mine"] = {**OWN, "function": "of_mine:preprocessing_fn"}
    assert lake.preprocess() == 0
    fields = {field["name"]: field for field in lake.manifest["fields"]}
    assert (fields["per_unit"]["dtype"], fields["pair"]["shape"]) == ("float32", [2])
    assert fields["kind_number"]["dtype"] == "int64"
    table = pd.concat([make_table(200, day) for day in range(2)]).set_index("row")
    per_unit = (table["amount"] / (table["count"] + 1)).fillna(0)
    train = per_unit.loc[list(lake.rows("train"))]
    for split in ("train", "eval", "test"):
        for row, values in lake.rows(split).items():
            expected = (per_unit[row] - train.min()) / (train.max() - train.min())
            assert values["per_unit"] == pytest.approx(expected, abs=1e-6)
            np.testing.assert_allclose(values["pair"], [per_unit[row], per_unit[row] ** 2], rtol=1e-6)
    job = load_job(str(lake.folder / "job.yaml"))
    before = data_fingerprint(job, [])
    assert data_fingerprint(job, []) == before
    (lake.folder / "of_mine.py").write_text(CODE.replace("per_unit**2", "per_unit**3"))
    assert data_fingerprint(job, []) != before


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "features.mine.function: of_mine:fails fails: "),
        ("list_", "of_mine:list_ gives a list, it must give a dict of tensors"),
        ("halves", "of_mine:halves gives 'x' as float16, it must be one of float32, int64, string"),
        ("total", "of_mine:total gives 'x' of shape (), it must be [batch, ...] with sizes that are known"),
        ("reads", "features.mine.function: of_mine:reads uses the operation ReadFile, which reaches beyond its values"),
        ("keeps", "the transform graph with mine.function holds the operation Abort, which reaches beyond its values"),
        ("label", "two fields would be called 'label'"),
        ("nothing", "features.mine.function: of_mine ("),
    ],
)
def test_mistakes_in_it_are_one_line(lake, capsys, name, message):
    lake.write("a.parquet", make_table(50))
    lake.job["features"]["mine"] = {**OWN, "function": f"of_mine:{name}"}
    assert lake.preprocess() == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
