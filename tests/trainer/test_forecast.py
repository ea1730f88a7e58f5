"""Forecasts: what is learned, the models, what stands beside them, and what is exported."""

import json
import os

import keras
import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from feeds import batch_reader
from fleets import Fleet, make_table

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.model import DLinear, Recurrent
from beamfeed.contract.config.task import Forecast, Reconstruct, Regress
from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.dataset.review import read_review
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.cluster.strategy import Together, connect
from beamfeed.trainer.cluster.watchdog import Watchdog
from beamfeed.trainer.loop.first_weights import fit_first_weights
from beamfeed.trainer.main import main
from beamfeed.trainer.tasks.history import History, HistorySums, autocovariance
from beamfeed.trainer.tasks.objective import Objective
from tests.trainer.tasks.test_named import in_parts

pytestmark = pytest.mark.slow

LENGTH, AHEAD = 24, 6
NAMES = ["load", "heat", "wind"]


@pytest.fixture(scope="module")
def forecast(tmp_path_factory) -> Fleet:
    """Two assets with a period of 8 rows, noise and levels that differ in size by a thousand; trained."""
    fleet = Fleet(tmp_path_factory.mktemp("forecast"))
    rng = np.random.default_rng(1)
    rows = np.arange(300)
    for number in range(2):
        wave = np.sin(2 * np.pi * rows / 8 + number) + 0.1 * rng.normal(size=300)
        drift = np.cumsum(rng.normal(size=300))
        columns = {"load": 5000 + 1000 * wave, "heat": 20 + wave + 0.2 * drift, "wind": rng.normal(size=300)}
        table = {"t": rows, **{name: values.astype("f4") for name, values in columns.items()}}
        fleet.write(f"plant{number}.parquet", pa.table(table))
    fleet.job["source"]["features"] = NAMES
    fleet.job["windows"] = {"length": LENGTH, "stride": 1}
    fleet.job["split"] = {"by": "rows", "train": 180, "eval": 60, "test": 60}
    fleet.job["label"] = {"name": "later", "ahead": {"rows": AHEAD, "columns": ["heat", "load"]}}
    fleet.job["train"] = {
        "model": {"name": "dlinear", "trend": 5},
        "task": {"name": "forecast", "target": "later"},
        "feed": {"batch_size": 32, "shuffle": 500},
        "optimizer": {"learning_rate": 0.01},
        "epochs": 30,
        "workdir": str(fleet.folder / "model"),
    }
    assert fleet.preprocess() == 0
    assert main(["--job", str(fleet.write_job())]) == 0
    return fleet


def windows_of(fleet: Fleet, split: str) -> tuple[np.ndarray, np.ndarray]:
    """All windows of a split, scaled, and the rows behind them."""
    batches = [batch.fields for batch in batch_reader(fleet.output, split, batch_size=1).read()]
    return tuple(np.concatenate([batch[name] for batch in batches]) for name in ("values", "later"))


def objective_of(fleet: Fleet, **task: object) -> Objective:
    return Objective(Forecast(name="forecast", target="later", **task), fleet.manifest)


def scales(fleet: Fleet) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    units = fleet.manifest.field("later").units
    return tuple(np.array([getattr(unit, key) for unit in units]) for key in ("std", "offset", "divisor"))


def test_the_run_beats_what_costs_nothing_and_its_errors_are_those_of_a_plain_loop(forecast):
    workdir = forecast.job["train"]["workdir"]
    result = read_result(workdir)
    review = read_review(workdir, result.fingerprint)
    std, offset, divisor = scales(forecast)
    model = keras.saving.load_model(os.path.join(workdir, "model.keras"))
    for split in ("eval", "test"):
        x, truth = windows_of(forecast, split)
        of_split = review.splits[split]
        assert of_split.windows == len(x) == 2 * (60 - LENGTH - AHEAD + 1)
        history = x[:, :, [1, 0]] * divisor + offset
        guesses = {
            "the last value": np.repeat(history[:, -1:], AHEAD, axis=1),
            "the value 8 rows before": history[:, -8:][:, np.arange(AHEAD) % 8],
        }
        for name, guess in {**guesses, "": model.predict(x, verbose=0)}.items():
            measured = of_split.guesses[name] if name else of_split.model
            apart = guess - truth
            assert measured["loss"] == pytest.approx(np.square(apart / std).mean(), rel=1e-4)
            assert measured["mean_absolute_error"] == pytest.approx(np.abs(apart).mean(), rel=1e-4)
            assert measured["root_mean_squared_error"] == pytest.approx(np.sqrt(np.square(apart).mean()), rel=1e-4)
            assert measured["scaled_mean_absolute_error"] == pytest.approx(np.abs(apart / std).mean(), rel=1e-4)
        assert of_split.model["loss"] < min(of_split.guesses[name]["loss"] for name in guesses)
    assert result.test_loss == pytest.approx(review.splits["test"].model["loss"], rel=1e-4)
    assert os.path.getsize(os.path.join(workdir, "report.png")) > 20_000


def test_what_is_served_is_preprocessing_and_the_model_and_goes_on_in_time(forecast):
    import pyarrow.parquet as pq

    workdir = forecast.job["train"]["workdir"]
    table = pq.read_table(forecast.files / "plant1.parquet")
    rows = np.stack([table[name].to_numpy() for name in NAMES], axis=1)
    loaded = tf.saved_model.load(os.path.join(workdir, "saved_model"))
    facts = {name: value.numpy() for name, value in loaded.signatures["features"]().items()}
    assert facts["features"].tolist() == [name.encode() for name in NAMES]
    assert facts["forecast_columns"].tolist() == [b"heat", b"load"]
    assert (facts["length"], facts["stride"], facts["ahead"]) == (LENGTH, 1, AHEAD)
    served = loaded.signatures["rows"](rows=tf.constant(rows))
    assert served["forecast"].shape == (len(rows) - LENGTH + 1, AHEAD, 2)

    x, _ = windows_of(forecast, "test")  # of both assets, whose windows begin at row 240
    model = keras.saving.load_model(os.path.join(workdir, "model.keras"))
    per_asset = 60 - LENGTH - AHEAD + 1
    here = served["forecast"].numpy()[240 : 240 + per_asset]
    output = model.predict(x, verbose=0)
    assert any(np.allclose(here, part, rtol=1e-4, atol=1e-2) for part in (output[:per_asset], output[per_asset:]))

    windows = np.stack([rows[:LENGTH], rows[50 : 50 + LENGTH]])
    minutes = 60 * np.arange(LENGTH)
    broken = minutes + np.where(np.arange(LENGTH) > 10, 7200, 0)  # a gap in the window
    timed = loaded.signatures["forecast"](
        windows=tf.constant(windows), time=tf.constant(np.stack([1000 + minutes, broken]), tf.int64)
    )
    np.testing.assert_allclose(timed["forecast"], served["forecast"].numpy()[[0, 50]], rtol=1e-5)
    last = np.array([1000 + minutes[-1], broken[-1]])
    np.testing.assert_array_equal(timed["time"], last[:, None] + 60 * (1 + np.arange(AHEAD)))


def test_losses_count_each_column_in_its_own_deviations(forecast):
    std, offset, _ = scales(forecast)
    rng = np.random.default_rng(0)
    truth, output = (offset + std * rng.normal(size=(5, AHEAD, 2)) for _ in range(2))
    apart = (output - truth) / std
    for loss, expected in ((None, np.square(apart)), ("mae", np.abs(apart))):
        (task,) = objective_of(forecast, loss=loss).tasks.values()
        losses = task.losses(tf.constant(truth, tf.float32), tf.constant(output, tf.float32))
        np.testing.assert_allclose(losses, expected.mean(axis=(1, 2)), rtol=1e-4)


def test_metrics_of_scaled_columns_are_named_so(forecast):
    objective = objective_of(forecast, metrics=["mae", "scaled_mse", "scaled_mae"])
    assert objective.names() == ["loss", "mae", "scaled_mse", "scaled_mae"]
    with pytest.raises(UserError, match="'mean_absolute_eror' is not a Keras metric; did you mean"):
        objective_of(forecast, metrics=["scaled_mean_absolute_eror"])


@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("trend", [1, 5])
def test_dlinear_is_two_maps_over_time_that_all_columns_share(forecast, last, trend):
    signature = objective_of(forecast).signature
    model = models.build(DLinear(name="dlinear", trend=trend, last=last), signature, seed=1)
    x = np.random.default_rng(2).normal(size=(4, LENGTH, 3)).astype("f4")
    _, offset, divisor = scales(forecast)
    columns = x[:, :, [1, 0]].astype("f8")
    final = columns[:, -1:] if last else 0.0
    apart = columns - final
    half = trend // 2
    padded = np.concatenate([apart[:, :1]] * half + [apart] + [apart[:, -1:]] * half, axis=1)
    level = np.stack([padded[:, i : i + trend].mean(axis=1) for i in range(LENGTH)], axis=1)
    weights = [weight.astype("f8") for weight in model.get_weights()]
    parts = [level, apart - level] if trend > 1 else [apart]
    expected = final + sum(
        np.einsum("blc,lr->brc", part, weights[2 * i]) + weights[2 * i + 1][None, :, None]
        for i, part in enumerate(parts)
    )
    np.testing.assert_allclose(model.predict(x, verbose=0), expected * divisor + offset, rtol=1e-4, atol=1e-2)
    assert len(weights) == 2 * len(parts)


def test_a_recurrent_model_begins_as_its_linear_part_and_learns(forecast, tmp_path):
    signature = objective_of(forecast).signature
    model = models.build(Recurrent(name="recurrent", cell="gru", units=[4]), signature, seed=1)
    x, truth = windows_of(forecast, "train")
    before = model.predict(x[:8], verbose=0)
    head = model.get_layer("forecast_head")
    assert not head.get_weights()[0].any()
    changed = x[:8].copy()
    changed[:, :, 2] += 3  # a column that is not forecast reaches the recurrent part alone
    np.testing.assert_allclose(model.predict(changed, verbose=0), before)
    std, _, _ = scales(forecast)
    model.compile("adam", loss=lambda y, output: tf.reduce_mean(tf.square((y - output) / std.astype("f4"))))
    losses = model.fit(x, truth, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert head.get_weights()[0].any()
    path = str(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.saving.load_model(path, compile=False)
    np.testing.assert_allclose(loaded.predict(x[:4], verbose=0), model.predict(x[:4], verbose=0))


@pytest.mark.parametrize(
    "section",
    [
        {"name": "dlinear", "trend": 5},
        {"name": "dlinear", "trend": 1, "last": False},
        {"name": "recurrent", "units": [4]},
    ],
)
def test_models_begin_as_the_linear_guess(forecast, section):
    job = load_job(str(forecast.folder / "job.yaml"), [f"train.model={json.dumps(section)}"])
    objective = objective_of(forecast)
    model = models.build(job.train.model, objective.signature, seed=1)
    cluster = connect(WorkerInfo())
    together = Together(cluster, Watchdog())
    fit_first_weights(job, forecast.manifest, objective, model, together)
    together.close()
    sums = HistorySums(objective.tasks["forecast"].history)
    sums.add(*windows_of(forecast, "train"))
    x, _ = windows_of(forecast, "test")
    expected = objective.tasks["forecast"].history.predict(tf.constant(x), *sums.linear())
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, rtol=2e-3)


def test_a_model_of_forecasts_alone_is_refused_for_other_tasks(forecast):
    signature = Objective(Reconstruct(name="reconstruct"), forecast.manifest).signature
    with pytest.raises(UserError, match="'dlinear' is for the task forecast alone"):
        models.build(DLinear(name="dlinear"), signature, seed=1)


def test_a_target_of_rows_behind_windows_is_for_forecasts(forecast):
    with pytest.raises(UserError, match=r"the field .later. is the rows behind a window; use \{name: forecast\}"):
        Objective(Regress(name="regress", target="later"), forecast.manifest)
    with pytest.raises(UserError, match="no rows behind windows called 'late'; did you mean 'later'"):
        Objective(Forecast(name="forecast", target="late"), forecast.manifest)


def test_the_linear_guess_is_ridge_regression_of_all_columns_and_the_period_that_of_the_windows():
    rng = np.random.default_rng(3)
    history = History((0, 2), np.array([2, 3], "f4"), np.array([10, 20], "f4"), 4)
    series = np.cumsum(rng.normal(size=(400, 3)), axis=0) * 0.2 + np.sin(2 * np.pi * np.arange(400) / 6)[:, None]
    x = np.stack([series[i : i + 18] for i in range(370)]).astype("f4")
    truth = np.stack([series[i + 18 : i + 22, [0, 2]] for i in range(370)]) * history.divisor + history.offset
    sums = HistorySums(history)
    for first in range(0, 370, 100):
        sums.add(x[first : first + 100], truth[first : first + 100])
    assert sums.period() == 6
    weights, bias = sums.linear()
    design, future_rows = [], []
    for window, future in zip(x, truth, strict=True):
        for column, place in enumerate((0, 2)):
            scaled = (future[:, column] - history.offset[column]) / history.divisor[column]
            design.append(np.append(window[:, place] - window[-1, place], 1))
            future_rows.append(scaled - window[-1, place])
    design, future_rows = np.array(design), np.array(future_rows)
    penalty = 1e-4 * np.square(design[:, :-1]).sum() / 18 * np.diag([1.0] * 18 + [0])
    solved = np.linalg.solve(design.T @ design + penalty, design.T @ future_rows)
    np.testing.assert_allclose(np.vstack([weights, bias]), solved, rtol=1e-3, atol=1e-4)
    columns = x[:3][:, :, [0, 2]]
    added = np.einsum("blc,la->bac", columns - columns[:, -1:], solved[:-1]) + solved[-1][None, :, None]
    expected = (columns[:, -1:] + added) * history.divisor + history.offset
    np.testing.assert_allclose(history.predict(tf.constant(x[:3]), weights, bias), expected, rtol=1e-4)


def test_the_autocovariance_is_that_of_a_plain_loop():
    series = np.random.default_rng(0).normal(size=(3, 11))
    apart = series - series.mean(axis=1, keepdims=True)
    expected = [(apart[:, : 11 - lag] * apart[:, lag:]).sum(axis=1).mean() / (11 - lag) for lag in range(6)]
    np.testing.assert_allclose(autocovariance(series), expected)


def test_a_forecast_can_be_learned_beside_another_output(new_fleet):
    fleet = new_fleet("beside")
    for number in range(3):
        fleet.write(f"m{number}.parquet", make_table(80, seed=number))
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    fleet.job["label"] = [
        {"name": "later", "ahead": {"rows": 3, "columns": ["x1"]}},
        {"name": "life", "derive": "remaining_life"},
        {"name": "soon", "column": "x1", "at": "horizon", "horizon": 5},
    ]
    fleet.job["source"]["features"] = ["x1", "x2"]
    outputs = {
        "ahead": {"name": "forecast", "target": "later"},
        "soon": {"name": "regress", "target": "soon"},
    }
    fleet.job["train"] = {
        "model": {"name": "recurrent", "cell": "gru", "units": [3]},
        "task": {"outputs": outputs},
        "feed": {"batch_size": 8},
        "max_steps": 2,
        "review": {"baselines": "none"},
        "workdir": str(fleet.folder / "model"),
    }
    assert fleet.preprocess() == 0
    batches = [batch.fields for batch in batch_reader(fleet.output, "train", batch_size=1).read()]
    assert len(batches) == 3 * len(range(0, 80 - 8 - 5 + 1, 2))  # the farthest label decides
    tables = [make_table(80, seed=number) for number in range(3)]
    futures = {float(table["x1"][8 + start].as_py()): (table, start) for table in tables for start in range(0, 70, 2)}
    for batch in batches:
        table, start = futures[float(batch["later"][0, 0, 0])]
        np.testing.assert_array_equal(batch["later"][0, :, 0], table["x1"].to_numpy()[start + 8 : start + 11])
        assert batch["soon"][0] == table["x1"].to_numpy()[start + 7 + 5]
        assert batch["life"][0] == 79 - (start + 7)
    assert main(["--job", str(fleet.write_job())]) == 0
    forecast = tf.saved_model.load(str(fleet.folder / "model" / "saved_model")).signatures["forecast"]
    said = forecast(windows=tf.zeros([2, 8, 2]), time=tf.constant(np.tile(np.arange(8), (2, 1)), tf.int64))
    assert said["ahead_forecast"].shape == (2, 3, 1)
    np.testing.assert_array_equal(said["ahead_time"], [[8, 9, 10]] * 2)
    assert said["soon_prediction"].shape == (2,)
    assert os.path.exists(fleet.folder / "model" / "review.json")


def test_r2_far_from_zero(forecast):
    std, offset, _ = scales(forecast)
    rng = np.random.default_rng(3)
    truth = (offset + 1e-3 * std * rng.normal(size=(200, AHEAD, 2))).astype("f4")
    forecasts = (truth + 5e-4 * std * rng.normal(size=truth.shape)).astype("f4")
    flat, apart = truth.reshape(200, -1).astype("f8"), (forecasts.astype("f8") - truth).reshape(200, -1)
    expected = (1 - np.square(apart).mean(axis=0) / flat.var(axis=0)).mean()
    fields = {"values": np.zeros((200, LENGTH, 3), "f4"), "later": truth}
    measured = in_parts(objective_of(forecast, metrics=["r2_score"]), fields, forecasts, np.split(np.arange(200), 4))
    assert measured["r2_score"] == pytest.approx(expected, abs=1e-3)
