"""The SavedModel: it takes raw values and scales them as the dataset's shards were."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from contextlib import suppress
from dataclasses import dataclass

import keras
import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from fleets import Fleet, make_table
from sampling import sample
from tensorflow.core.protobuf import saved_model_pb2

from beamfeed.contract.config.columns import resolve_ranges
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.config.prepare import Missing
from beamfeed.contract.config.task import Reconstruct
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.result import TrainResult, read_result
from beamfeed.trainer import models
from beamfeed.trainer.export.run import export_run, replacing
from beamfeed.trainer.export.saved_model import save_serving
from beamfeed.trainer.loop.train import TrainedModel
from beamfeed.trainer.tasks.objective import Objective

LENGTH, STRIDE = 8, 2
NAMES = ["x0", "x1", "x2"]


@dataclass
class Served:
    """A preprocessed fleet and the export of a model on it."""

    fleet: Fleet
    job: TrainingJob
    per_asset: bool

    @property
    def names(self) -> RunLayout:
        return RunLayout(self.job.train.workdir)

    @property
    def transform(self) -> str:
        return self.fleet.manifest.data_layout(str(self.fleet.output)).transform_fn

    def rows(self, asset: str) -> np.ndarray:
        """As the user's file has them, float32 [rows, features]."""
        table = pq.read_table(self.fleet.files / f"{asset}.parquet", columns=NAMES)
        return np.stack([table[name].to_numpy() for name in NAMES], 1).astype("f4")

    def windows(self, asset: str) -> np.ndarray:
        rows = self.rows(asset)
        return np.stack([rows[start : start + LENGTH] for start in range(0, len(rows) - LENGTH + 1, STRIDE)])

    def asset(self, value: object) -> dict[str, tf.Tensor]:
        return {"asset": tf.constant(value)} if self.per_asset else {}

    def scale(self, rows: np.ndarray, asset: str) -> np.ndarray:
        """By the dataset's graph, loaded here again."""
        inputs = {"values": tf.constant(rows)}
        if self.per_asset:
            inputs["asset"] = tf.fill([len(rows)], asset)
        return tf.saved_model.load(self.transform).transform_fn(inputs)["values"].numpy()


def objective_of(job: TrainingJob, manifest) -> Objective:
    return Objective(job.train.task, manifest)


def prepare_fleet(folder, prepare: dict, assets: int = 6, labels: list[dict] | None = None, **columns) -> Fleet:
    fleet = Fleet(folder)
    if labels:
        fleet.job["label"] = labels
        fleet.job["train"]["task"] = {"name": "reconstruct"}
    for i in range(assets):
        fleet.write(f"a{i}.parquet", make_table(60, seed=i, **columns))
    fleet.job["prepare"] = prepare
    assert fleet.preprocess() == 0
    return fleet


@pytest.fixture(scope="module", params=["fleet", "asset"])
def served(request, tmp_path_factory) -> Served:
    folder = tmp_path_factory.mktemp(request.param)
    scale = {"fleet": {"how": "standard"}, "asset": {"how": "robust", "clip": 1.5}}[request.param]
    fleet = prepare_fleet(folder, {"scale": {**scale, "per": request.param}})
    job = load_as(TrainingJob, str(fleet.write_job()))
    weights = models.build(job.train.model, objective_of(job, fleet.manifest).signature, seed=3).get_weights()
    result = TrainResult(
        fingerprint="0",
        epochs=1,
        stale=0,
        stopped_early=False,
        first_loss=1.0,
        last_loss=1.0,
        best=1.0,
        best_loss=1.0,
        test_loss=None,
        seconds=1.0,
        workers=1,
    )
    epochs = [{"epoch": 1, "step": 1, "loss": 1.0, "eval_loss": 1.0, "seconds": 1.0, "windows_per_second": 1.0}]
    os.makedirs(job.train.workdir)
    export_run(job, fleet.manifest, TrainedModel(result, weights, epochs))
    return Served(fleet, job, request.param == "asset")


@pytest.fixture(scope="module")
def signatures(served):
    return tf.saved_model.load(served.names.saved_model).signatures


def numbers(outputs: dict) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in outputs.items()}


def test_raw_windows_are_scaled_reconstructed_and_scored(served, signatures):
    model = keras.saving.load_model(served.names.model)
    for asset in ("a0", "a3"):
        raw = served.windows(asset)
        found = numbers(signatures["serving_default"](windows=tf.constant(raw), **served.asset([asset] * len(raw))))
        preprocessed = served.scale(raw.reshape(-1, 3), asset).reshape(raw.shape)
        expected = model.predict(preprocessed, verbose=0)
        np.testing.assert_allclose(found["reconstruction"], expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found["score"], np.mean((expected - preprocessed) ** 2, (1, 2)), rtol=1e-5)
        np.testing.assert_allclose(
            found["latent"], model.get_layer("encoder").predict(preprocessed, verbose=0), atol=1e-5
        )
        # Scaled once more, the reconstruction in raw units is the one in preprocessed units.
        again = served.scale(found["reconstruction_raw"].reshape(-1, 3), asset).reshape(raw.shape)
        limit = 1.5 if served.per_asset else np.inf  # prepare.scale.clip
        np.testing.assert_allclose(again, np.clip(expected, -limit, limit), atol=1e-5)


def test_a_batch_of_several_assets_and_a_stranger(served, signatures):
    assets = ["a1", "a4", "stranger"]
    raw = np.stack([served.windows(asset)[5] for asset in ["a1", "a4", "a4"]])
    found = numbers(signatures["serving_default"](windows=tf.constant(raw), **served.asset(assets)))
    for i, asset in enumerate(assets):
        alone = signatures["serving_default"](windows=tf.constant(raw[i : i + 1]), **served.asset([asset]))
        for name, value in numbers(alone).items():
            np.testing.assert_allclose(found[name][i], value[0], rtol=1e-5, atol=1e-6)
    assert (found["score"][1] == pytest.approx(found["score"][2], rel=1e-6)) is not served.per_asset


def test_it_tells_the_order_of_the_columns(served, signatures):
    names = [name.decode() for name in signatures["features"]()["features"].numpy()]
    assert names == served.fleet.manifest.features


def test_scores_are_those_of_the_shards(served, signatures):
    seen = 0
    for split in ("train", "eval", "test"):
        for asset, windows in served.fleet.windows(split).items():
            starts = sorted(windows)
            shards = np.stack([windows[start] for start in starts])
            expected = numbers(signatures["preprocessed"](windows=tf.constant(shards)))
            rows = numbers(signatures["rows"](rows=tf.constant(served.rows(asset)), **served.asset(asset)))
            assert rows["start"].tolist() == starts
            for name, value in expected.items():
                np.testing.assert_allclose(rows[name], value, rtol=1e-5, atol=1e-6)
            seen += 1
    assert seen == 6


def test_fewer_rows_than_a_window_make_none(served, signatures):
    found = numbers(signatures["rows"](rows=tf.zeros([LENGTH - 3, 3]), **served.asset("a0")))
    assert {name: value.shape for name, value in found.items()} == {
        "latent": (0, 2),
        "reconstruction": (0, LENGTH, 3),
        "reconstruction_raw": (0, LENGTH, 3),
        **dict.fromkeys(("nearest", "pca_q", "pca_t2", "score"), (0,)),
        "start": (0,),
    }


def test_a_missing_value_spoils_its_window_alone(served, signatures):
    raw = served.windows("a0")[:3].copy()
    whole = signatures["serving_default"](windows=tf.constant(raw), **served.asset(["a0"] * 3))["score"].numpy()
    raw[1, 2, 0], raw[2, 0, 1] = np.nan, np.inf
    found = signatures["serving_default"](windows=tf.constant(raw), **served.asset(["a0"] * 3))["score"].numpy()
    assert found[0] == pytest.approx(whole[0], rel=1e-6)
    assert np.isnan(found).tolist() == [False, True, True]


def test_it_is_what_tensorflow_serving_expects(served):
    proto = saved_model_pb2.SavedModel()
    with open(os.path.join(served.names.saved_model, "saved_model.pb"), "rb") as file:
        proto.ParseFromString(file.read())
    (graph,) = proto.meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]
    found = {name: definition for name, definition in graph.signature_def.items() if not name.startswith("__")}
    asset = ["asset"] if served.per_asset else []
    assert {name: sorted(definition.inputs) for name, definition in found.items()} == {
        "serving_default": [*asset, "windows"],
        "rows": [*asset, "rows"],
        "preprocessed": ["windows"],
        "features": [],
    }
    for name, definition in found.items():
        assert definition.method_name == "tensorflow/serving/predict"
        for tensor in [*definition.inputs.values(), *definition.outputs.values()]:
            scalar = name == "rows" and tensor.dtype == tf.string.as_datatype_enum
            if name != "features":
                assert scalar or tensor.tensor_shape.dim[0].size == -1  # batch first


ALONE = """
import json, sys
sys.path.append(sys.argv[1])
for name in ("trainer", "contract", "transforms"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise SystemExit(f"{name} can be imported")
import keras, numpy as np, tensorflow as tf
inputs = np.load("inputs.npz")
model = tf.saved_model.load("saved_model")
found = model.signatures["serving_default"](**{name: tf.constant(inputs[name]) for name in inputs})
whole = keras.saving.load_model("model.keras")
again = whole(tf.constant(np.load("preprocessed.npy"))).numpy()
assert np.allclose(found["reconstruction"], again, atol=1e-5)
assert "tensorflow_transform" not in sys.modules
print(json.dumps(found["score"].numpy().tolist()))
"""


@pytest.mark.parametrize("served", sample(["fleet", "asset"], ["asset"]), indirect=True)
def test_it_loads_where_nothing_of_ours_is_installed(served, signatures, tmp_path):
    """And where the dataset is gone."""
    raw = served.windows("a2")[:4]
    inputs = {"windows": raw, **({"asset": np.array([b"a2"] * 4)} if served.per_asset else {})}
    expected = signatures["serving_default"](**{name: tf.constant(value) for name, value in inputs.items()})
    np.savez(tmp_path / "inputs.npz", **inputs)
    np.save(tmp_path / "preprocessed.npy", served.scale(raw.reshape(-1, 3), "a2").reshape(raw.shape))
    shutil.copytree(served.names.saved_model, tmp_path / "saved_model")
    shutil.copy(served.names.model, tmp_path / "model.keras")
    away = served.fleet.output.with_name("away")
    served.fleet.output.rename(away)
    try:
        # -I: no current folder, no PYTHONPATH; -S: no .pth files, so no editable install.
        command = [sys.executable, "-I", "-S", "-c", ALONE, sysconfig.get_paths()["purelib"]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    finally:
        away.rename(served.fleet.output)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), expected["score"], rtol=1e-5)


def identity(length: int, features: int) -> keras.Model:
    windows = keras.Input((length, features))
    return keras.Model(windows, keras.layers.Identity()(windows))


def test_the_way_back_to_raw_units_is_exact_for_large_values(tmp_path):
    rng = np.random.default_rng(1)
    far = (1e6 + rng.normal(size=60) * 50).astype("f4")
    fleet = prepare_fleet(tmp_path, {"scale": {"how": "standard"}}, assets=3, x1=far, x2=np.full(60, 5, "f4"))
    served = Served(fleet, load_as(TrainingJob, str(fleet.write_job())), per_asset=False)
    folder = str(tmp_path / "saved_model")
    objective = objective_of(served.job, fleet.manifest)
    save_serving(identity(LENGTH, 3), objective, fleet.manifest, served.transform, Missing(), folder)
    raw = served.windows("a0")
    found = numbers(tf.saved_model.load(folder).signatures["serving_default"](windows=tf.constant(raw)))
    np.testing.assert_allclose(found["reconstruction_raw"], raw, rtol=1e-6, atol=1e-6)
    assert found["score"].max() == 0
    assert "latent" not in found


def test_what_is_out_of_its_range_is_missing_when_it_is_served(tmp_path):
    """As when files were read: what fills it is the constant."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=60).astype("f4")
    values[::7] = -999
    missing = {"fill": "constant", "value": 0.25}
    fleet = prepare_fleet(tmp_path, {"range": {"x1": [-50, 50]}, "missing": missing}, assets=3, x1=values)
    served = Served(fleet, load_as(TrainingJob, str(fleet.write_job())), per_asset=False)
    ranges = resolve_ranges(served.job.prepare.range, fleet.manifest.features)
    folder, objective = str(tmp_path / "saved_model"), objective_of(served.job, fleet.manifest)
    rule = served.job.prepare.missing
    save_serving(identity(LENGTH, 3), objective, fleet.manifest, served.transform, rule, folder, ranges)
    raw = served.windows("a0")
    assert (raw == -999).any()
    found = numbers(tf.saved_model.load(folder).signatures["serving_default"](windows=tf.constant(raw)))
    trained = {
        start: w for split in ("train", "eval", "test") for start, w in fleet.windows(split).get("a0", {}).items()
    }
    np.testing.assert_array_equal(found["reconstruction"], np.stack([trained[start] for start in sorted(trained)]))


def test_clipped_values_come_back_as_the_limits_in_raw_units(tmp_path):
    """By the name of an asset that no text file would hold as it is, from a SavedModel that was moved."""
    fleet = Fleet(tmp_path)
    for i in range(4):
        fleet.write(f"a\t{i}\nb.parquet", make_table(60, seed=i))
    fleet.job["prepare"] = {"scale": {"how": "minmax", "per": "asset", "clip": 0.5}}
    assert fleet.preprocess() == 0
    served = Served(fleet, load_as(TrainingJob, str(fleet.write_job())), per_asset=True)
    folder = tmp_path / "saved_model"
    objective = objective_of(served.job, fleet.manifest)
    save_serving(identity(LENGTH, 3), objective, fleet.manifest, served.transform, Missing(), str(folder))
    folder.rename(tmp_path / "moved")
    fleet.output.rename(tmp_path / "away")
    signatures = tf.saved_model.load(str(tmp_path / "moved")).signatures
    for name in ("a\t0\nb", "a\t3\nb"):
        rows, raw = served.rows(name), served.windows(name)
        low, high = rows.min(0), rows.max(0)
        expected = np.minimum(raw, (low + high) / 2)  # scaled they are from 0 to 1
        for found in (
            signatures["serving_default"](windows=tf.constant(raw), asset=tf.fill([len(raw)], name)),
            signatures["rows"](rows=tf.constant(rows), asset=tf.constant(name)),
        ):
            np.testing.assert_allclose(found["reconstruction"], (expected - low) / (high - low), atol=1e-6)
            np.testing.assert_allclose(found["reconstruction_raw"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("missing", [{"fill": "constant", "value": 0.5}, {"limit": 1, "then": "constant", "value": -2}])
def test_the_constant_of_missing_values_is_in_the_graph(tmp_path, missing):
    holes = np.arange(60, dtype="f4")
    holes[[0, 1, 2, 3, 4, 5]], holes[40] = np.nan, np.inf
    fleet = prepare_fleet(tmp_path, {"missing": missing}, assets=3, x1=holes)
    served = Served(fleet, load_as(TrainingJob, str(fleet.write_job())), per_asset=False)
    folder = str(tmp_path / "saved_model")
    objective = objective_of(served.job, fleet.manifest)
    save_serving(identity(LENGTH, 3), objective, fleet.manifest, served.transform, served.job.prepare.missing, folder)
    rows = served.rows("a0")
    if "limit" in missing:
        rows[40] = np.where(np.isinf(rows[40]), rows[39], rows[40])  # filling forward is not in the graph
    found = numbers(tf.saved_model.load(folder).signatures["rows"](rows=tf.constant(rows)))
    (windows,) = [split["a0"] for split in map(fleet.windows, ("train", "eval", "test")) if "a0" in split]
    assert found["start"].tolist() == sorted(windows)
    np.testing.assert_allclose(found["reconstruction"], np.stack([windows[s] for s in sorted(windows)]), atol=1e-6)
    assert np.isclose(found["reconstruction"], missing["value"]).any()


def test_a_dataset_without_a_transform_graph_leaves_only_preprocessed(written, tmp_path):
    folder = str(tmp_path / "saved_model")
    transform = written.manifest.data_layout(written.output).transform_fn
    objective = Objective(Reconstruct(name="reconstruct"), written.manifest)
    save_serving(identity(8, 3), objective, written.manifest, transform, Missing(), folder)
    assert sorted(tf.saved_model.load(folder).signatures) == ["features", "preprocessed"]


LABELS = [
    {"name": "fault", "column": "fault", "classes": ["fine", "loose", "broken"]},
    {"name": "life", "derive": "remaining_life"},
]
TASKS = {
    "classify": {"name": "classify", "target": "fault"},
    "regress": {"name": "regress", "target": "life"},
    "several": {
        "outputs": {"state": {"name": "classify", "target": "fault"}, "left": {"name": "regress", "target": "life"}}
    },
}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    states = np.array(["fine", "loose", "broken"])[np.arange(60) // 20]
    folder = tmp_path_factory.mktemp("labelled")
    return prepare_fleet(folder, {"scale": {"how": "standard", "per": "asset"}}, labels=LABELS, fault=states)


@pytest.mark.parametrize("task", list(TASKS))
def test_rows_and_windows_of_raw_values_are_classified_and_regressed(labelled, tmp_path, task):
    labelled.job["train"].update(model={"name": "recurrent", "units": [4]}, task=TASKS[task])
    served = Served(labelled, load_as(TrainingJob, str(labelled.write_job())), per_asset=True)
    objective = objective_of(served.job, labelled.manifest)
    model = models.build(served.job.train.model, objective.signature, seed=3)
    folder = str(tmp_path / "saved_model")
    save_serving(model, objective, labelled.manifest, served.transform, Missing(), folder)
    loaded = tf.saved_model.load(folder).signatures
    raw = served.windows("a3")
    found = numbers(loaded["serving_default"](windows=tf.constant(raw), asset=tf.constant(["a3"] * len(raw))))
    rows = numbers(loaded["rows"](rows=tf.constant(served.rows("a3")), asset=tf.constant("a3")))
    assert rows.pop("start").tolist() == list(range(0, 60 - LENGTH + 1, STRIDE))
    given = model(served.scale(raw.reshape(-1, 3), "a3").reshape(raw.shape))
    state, left = ("state_", "left_") if task == "several" else ("", "")
    expected = {}
    if task != "regress":
        probabilities = tf.nn.softmax(given["state"] if task == "several" else given).numpy()
        expected[f"{state}probabilities"] = probabilities
        expected[f"{state}class"] = np.array([b"fine", b"loose", b"broken"])[probabilities.argmax(1)]
        assert loaded["features"]()[f"{state}classes"].numpy().tolist() == [b"fine", b"loose", b"broken"]
    if task != "classify":
        expected[f"{left}prediction"] = (given["left"] if task == "several" else given).numpy()[:, 0]
        train = labelled.manifest.splits["train"].targets["life"]
        assert abs(expected[f"{left}prediction"].mean() - train.mean) < 2 * train.std
    assert set(found) == set(rows) == set(expected)
    for name, value in expected.items():
        for one in (found, rows):
            if value.dtype.kind == "S":
                assert one[name].tolist() == value.tolist()
            else:
                np.testing.assert_allclose(one[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("served", ["fleet"], indirect=True)
@pytest.mark.parametrize("layer", [keras.layers.LSTM, keras.layers.GRU])
def test_what_was_trained_on_a_gpu_runs_without_one(served, tmp_path, monkeypatch, layer):
    rows = keras.Input((LENGTH, 3))
    hidden = keras.layers.Bidirectional(layer(4, return_sequences=True))(rows)
    model = keras.Model(rows, keras.layers.Dense(3)(layer(4, return_sequences=True)(hidden)))
    objective = Objective.of(served.job.train, served.fleet.manifest)
    list_devices = tf.config.list_logical_devices
    # Keras asks for one when it traces; the kernel itself is only looked for when the graph runs.
    monkeypatch.setattr(
        tf.config, "list_logical_devices", lambda kind=None: list_devices("CPU" if kind == "GPU" else kind)
    )
    traced = tf.function(model).get_concrete_function(tf.TensorSpec((None, LENGTH, 3)))
    assert "CudnnRNNV3" in {operation.type for operation in traced.graph.get_operations()}
    save_serving(model, objective, served.fleet.manifest, served.transform, Missing(), str(tmp_path))
    outputs = tf.saved_model.load(str(tmp_path)).signatures["preprocessed"](windows=tf.ones((2, LENGTH, 3)))
    assert np.isfinite(outputs["reconstruction"]).all()


def test_an_export_replaces_the_one_before_only_when_it_is_whole(tmp_path, monkeypatch):
    folder = tmp_path / "saved_model"
    for name, is_whole in (("old", True), ("half", False), ("new", True)):
        with suppress(KeyboardInterrupt), replacing(str(folder)) as written:
            os.mkdir(written)
            open(os.path.join(written, name), "w").close()
            assert os.path.isdir(folder) == (name != "old")
            if not is_whole:
                raise KeyboardInterrupt
        assert os.listdir(folder) == [name if is_whole else "old"]
    assert os.listdir(tmp_path) == ["saved_model"]
    monkeypatch.setattr("beamfeed.contract.storage.is_remote", lambda path: True)
    with replacing(str(folder)) as written:  # in a bucket
        assert (written, os.path.exists(folder)) == (str(folder), False)


@pytest.mark.parametrize("served", ["fleet"], indirect=True)  # how values are scaled has no part in it
def test_a_review_that_fails_does_not_undo_a_training_run(served, monkeypatch, capsys):
    def fails(*_):
        raise ValueError("of a picture")

    names = RunLayout(served.job.train.workdir)
    weights = keras.saving.load_model(names.model).get_weights()
    result = read_result(names.workdir)
    os.remove(names.complete)
    monkeypatch.setattr("beamfeed.trainer.export.run.look_back", fails)
    export_run(served.job, served.fleet.manifest, TrainedModel(result, weights, []))
    assert read_result(names.workdir) == result
    assert "its review could not be written: ValueError: of a picture" in capsys.readouterr().err
