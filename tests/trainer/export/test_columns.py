"""The SavedModel of a table: raw columns give what training measured, missing and unseen values too."""

import json

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from beamfeed.contract.dataset.argument_names import argument_names
from beamfeed.trainer.main import main
from tests.tables import FEATURES, Lake, make_table

pytestmark = pytest.mark.slow
ODD = {"kind": "class", "count": "Größe (m)"}  # names that no argument of Python can have


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A small model of texts and all other types, and its lake."""
    lake = Lake(tmp_path_factory.mktemp("columns"))
    lake.write("a.parquet", make_table(400).rename(columns=ODD))
    features = {**FEATURES, "both": {**FEATURES["both"], "of": ["class", "city"]}}
    features |= {"count_bucket": {**FEATURES["count_bucket"], "column": ODD["count"]}}
    lake.job["features"] = {ODD.get(name, name): section for name, section in features.items()}
    lake.job["train"] = {
        "model": {"name": "text", "embedding": 4, "units": 3, "dense": [5]},
        "task": {"name": "classify", "threshold": "best_f1", "metrics": ["accuracy"]},
        "feed": {"batch_size": 32},
        "epochs": 2,
        "review": {"baselines": "none"},
        "workdir": str(lake.folder / "model"),
    }
    assert lake.preprocess() == 0
    assert main(["--job", str(lake.folder / "job.yaml")]) == 0
    return lake


@pytest.fixture(scope="module")
def model(trained):
    return tf.saved_model.load(str(trained.folder / "model" / "saved_model"))


def columns_of(table: pd.DataFrame) -> dict[str, tf.Tensor]:
    seconds = table["when"].astype("datetime64[s]").astype("int64")
    return {
        "amount": tf.constant(table["amount"].to_numpy("f4")),
        "Gr_e_m": tf.constant(table["count"].to_numpy("f4")),
        "class_": tf.constant(table["kind"].fillna("").tolist()),
        "city": tf.constant(table["city"].tolist()),
        "note": tf.constant(table["note"].fillna("").tolist()),
        "when": tf.constant(seconds.to_numpy()),
    }


def test_raw_columns_give_what_records_give(trained, model):
    table = make_table(400).set_index("row", drop=False)
    table.index.name = None
    for split in ("train", "eval", "test"):
        rows = trained.rows(split)
        preprocessed = {
            name: tf.constant(np.stack([values[name] for values in rows.values()]).astype(dtype))
            for name, dtype in (("numbers", "f4"), ("categories", "i8"), ("note", "i8"))
        }
        expected = model.signatures["preprocessed"](**preprocessed)
        found = model.signatures["serving_default"](**columns_of(table.loc[list(rows)]))
        np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)
        assert (found["class"].numpy() == expected["class"].numpy()).all()
        assert set(found["class"].numpy()) <= {b"0", b"1"}


def test_what_was_never_seen_and_what_is_missing(model):
    table = make_table(5, seed=9)
    table.loc[0, ["kind", "city", "note"]] = ["never", "nowhere", "quite unheard"]
    table["amount"] = np.float32("nan")
    found = model.signatures["serving_default"](**columns_of(table))["probabilities"].numpy()
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)


def test_names_that_no_argument_can_have(model):
    told = model.signatures["columns"]()
    names = dict(zip(told["columns"].numpy().tolist(), told["arguments"].numpy().tolist(), strict=True))
    assert names.pop(b"class") == b"class_"
    assert names.pop("Größe (m)".encode()) == b"Gr_e_m"
    assert all(column == argument for column, argument in names.items())
    assert b"row" not in names  # nothing is learned from it
    found = argument_names(["a b", "a_b", "a-b", "1st", "", "金額", "温 度", "%", "in", "self"])
    plain = ["a_b_2", "a_b", "a_b_3", "column_1st", "column", "u91d1u984d", "u6e29u5ea6", "column_2", "in_", "self_"]
    assert list(found.values()) == plain


def test_names_that_differ_in_capitals_alone(tmp_path):
    columns = ["Kurt.maxis", "Kurt.Maxis", "a", "A", "A_2"]
    found = argument_names(columns)
    assert list(found.values()) == ["Kurt_maxis", "Kurt_Maxis_2", "a", "A_3", "A_2"]
    specs = {name: tf.TensorSpec([None], tf.string, name) for name in found.values()}
    joined = tf.function(lambda **values: {"all": tf.strings.join([values[name] for name in found.values()])})
    saved = str(tmp_path / "model")
    tf.saved_model.save(tf.Module(), saved, signatures={"rows": joined.get_concrete_function(**specs)})
    values = {name: tf.constant([column]) for column, name in found.items()}
    given = tf.saved_model.load(saved).signatures["rows"](**values)
    assert given["all"].numpy()[0].decode() == "".join(columns)


def test_examples_are_columns_in_another_form(model):
    table = make_table(6, seed=3)
    columns = columns_of(table)
    raw = {"class_": "class", "Gr_e_m": "Größe (m)"}
    kinds = {tf.float32: "float_list", tf.string: "bytes_list", tf.int64: "int64_list"}
    examples = []
    for place in range(len(table)):
        example = tf.train.Example()
        for name, column in columns.items():
            if name == "city" and place == 2:
                continue  # not there: missing
            getattr(example.features.feature[raw.get(name, name)], kinds[column.dtype]).value.append(
                column[place].numpy()
            )
        examples.append(example.SerializeToString())
    found = model.signatures["examples"](tf.constant(examples))
    columns["city"] = tf.constant([("" if place == 2 else one) for place, one in enumerate(table["city"])])
    expected = model.signatures["serving_default"](**columns)
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-6)


def test_the_threshold_is_that_of_the_best_epoch(trained, model):
    result = json.loads((trained.folder / "model" / "complete.json").read_text())
    told = model.signatures["columns"]()
    assert told["threshold"].numpy() == pytest.approx(result["metrics"]["best_threshold"])
    assert told["classes"].numpy().tolist() == [b"0", b"1"]
    found = model.signatures["serving_default"](**columns_of(make_table(300, seed=4)))
    said = found["probabilities"].numpy()[:, 1] >= told["threshold"].numpy()
    assert (found["class"].numpy() == np.where(said, b"1", b"0")).all()
