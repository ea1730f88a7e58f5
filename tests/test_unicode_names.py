"""A table and a series whose columns have names in several scripts, from the files to the served model."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml
from exports import in_same_process

from beamfeed.launcher.cli import main
from beamfeed.pipelines import preprocess
from beamfeed.trainer import main as trainer

pytestmark = pytest.mark.slow

FEATURES = {
    "温度": {"type": "numeric", "indicator": True},
    "压力": "numeric",
    "é ü": "numeric",
    "तापमान": "numeric",
    "城市": "categorical",
    "号": "categorical",
    "дата": {"type": "date", "parts": ["hour"]},
    "номер": "pass",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    rng, rows = np.random.default_rng(0), 1200
    table = pd.DataFrame({name: rng.normal(size=rows) for name in ("温度", "压力", "é ü", "तापमान")})
    table["城市"], table["号"] = rng.choice(["北京", "上海"], rows), rng.choice(["一", "二"], rows)
    table["дата"] = pd.date_range("2024", periods=rows, freq="h").astype(str)
    table["номер"] = [f"№{row}" for row in range(rows)]
    table["цель"] = (table["温度"] > table["压力"]).map({True: "да", False: "нет"})
    table.to_csv(folder / "表.csv", index=False)
    job = {
        "name": "scripts",
        "source": {"kind": "table", "files": str(folder / "表.csv")},
        "features": FEATURES,
        "label": {"column": "цель", "classes": "auto"},
        "output": {"path": str(folder / "data")},
        "train": {
            "model": {"name": "tabular", "wide": True},
            "task": {"name": "classify"},
            "epochs": 1,
            "review": {"baselines": "none"},
            "workdir": str(folder / "model"),
        },
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job, allow_unicode=True))
    arguments = ["--job", str(folder / "job.yaml")]
    assert preprocess.main(arguments) == 0
    with in_same_process():
        assert trainer.main(arguments) == 0
    return folder, table


def test_columns_keep_their_names(trained):
    folder, _ = trained
    manifest = json.loads((folder / "data" / "manifest.json").read_text())
    columns = {field["name"]: field["columns"] for field in manifest["fields"]}
    assert set(columns["numbers"]) == {"温度", "压力", "é_ü", "तापमान", "温度_missing"}
    assert set(columns["categories"]) == {"城市", "号", "дата_hour"}
    assert {"номер", "label"} <= columns.keys()


def test_other_readers_find_them(trained, tmp_path):
    folder, table = trained
    assert main(["export", str(folder / "job.yaml"), "--to", "parquet", "--out", str(tmp_path / "out")]) == 0
    rows = pa_rows(tmp_path / "out" / "train")
    assert set(rows) <= set(table["номер"])


def pa_rows(folder):
    values = pq.read_table(folder).column("номер").to_pylist()
    return [one.decode() if isinstance(one, bytes) else one for one in values]


def test_the_served_model_says_which_argument_is_which_column(trained):
    import tensorflow as tf

    folder, table = trained
    model = tf.saved_model.load(str(folder / "model" / "saved_model"))
    told = model.signatures["columns"]()
    arguments = {
        column.decode(): argument.decode()
        for column, argument in zip(told["columns"].numpy(), told["arguments"].numpy(), strict=True)
    }
    assert arguments == {
        "温度": "u6e29u5ea6",
        "压力": "u538bu529b",
        "é ü": "ue9ufc",
        "तापमान": arguments["तापमान"],
        "城市": "u57ceu5e02",
        "号": "u53f7",
        "дата": "u434u430u442u430",
    }
    assert len(set(arguments.values())) == 7
    some = table.head(5)
    when = (pd.to_datetime(some["дата"]) - pd.Timestamp(0)) // pd.Timedelta("1s")
    values = {name: some[name].to_numpy("f4") for name in ("温度", "压力", "é ü", "तापमान")}
    values |= {"城市": some["城市"].tolist(), "号": some["号"].tolist(), "дата": when.to_numpy("i8")}
    found = model.signatures["serving_default"](**{arguments[name]: tf.constant(one) for name, one in values.items()})
    assert {one.decode() for one in found["class"].numpy().ravel()} <= {"да", "нет"}
