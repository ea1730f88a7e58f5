"""What is told of the best weights at the end of a run, against plain NumPy."""

import csv
import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from labelled import labelled_job, write_labelled
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import read_review
from beamfeed.trainer import models
from beamfeed.trainer.review import look_back as module
from beamfeed.trainer.review.look_back import look_back
from beamfeed.trainer.tasks.objective import Objective

RESULT = TrainResult(
    fingerprint="f", epochs=1, steps=9, stale=0, stopped_early=False, first_loss=1.0, last_loss=0.5, best=0.5,
    best_loss=0.5, test_loss=None, seconds=1.0, workers=1,
)  # fmt: skip
ALL = {"baselines": "all"}
EPOCHS = [{"epoch": 1, "step": 9, "loss": 1.0, "eval_loss": 0.5}]


def review_of(job, manifest):
    """The review of a model with its first weights, and the model."""
    objective = Objective(job.train.task, manifest)
    model = models.build(job.train.model, objective.signature, seed=1)
    os.makedirs(job.train.workdir, exist_ok=True)
    png = look_back(job, manifest, objective, model, RESULT, EPOCHS)
    with open(RunLayout(job.train.workdir).report, "rb") as file:
        assert file.read() == png
    assert min(tf.image.decode_png(png).shape[:2]) > 300
    return read_review(job.train.workdir, "f"), model


@pytest.fixture(scope="module")
def series(helpers_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    written = helpers_module.write_three_splits(str(folder / "data"))
    job = helpers_module.make_job(written.output, workdir=str(folder / "run"), review=ALL)
    return job, written, *review_of(job, written.manifest)


def test_the_loss_stands_beside_what_costs_nothing(series):
    _, written, review, model = series
    train = written.windows["train"].astype("f8")
    flat = train.reshape(len(train), -1)
    middle = flat.mean(axis=0)
    _, _, directions = np.linalg.svd(flat - middle)
    for split in ("eval", "test"):
        windows, found = written.windows[split].astype("f8"), review.splits[split]
        away = windows.reshape(len(windows), -1) - middle
        expected = {
            "the mean": np.mean((windows - train.mean(axis=(0, 1))) ** 2),
            "the last row": np.mean((windows - windows[:, -1:]) ** 2),
            "PCA, 2 numbers": np.mean((away - away @ directions[:2].T @ directions[:2]) ** 2),
        }
        losses = {name: one["loss"] for name, one in found.guesses.items()}
        centers = losses.pop("k-means, 64 centers", None)
        assert losses == pytest.approx(expected, rel=1e-5)
        assert centers is None or expected["the mean"] > centers > 0
        loss = np.mean((model.predict(windows, verbose=0) - windows) ** 2)
        assert found.model == {"loss": pytest.approx(loss, rel=1e-5)}
        assert (found.windows, found.of, found.skipped) == (len(windows), len(windows), [])


def test_each_asset_has_its_error(series):
    job, written, review, model = series
    with open(RunLayout(job.train.workdir).assets) as file:
        lines = list(csv.DictReader(file))
    windows = written.windows["eval"]
    errors = np.mean((model.predict(windows, verbose=0) - windows) ** 2, axis=(1, 2))
    parts = np.split(errors, [6, 11])  # segments of 28, 24 and 8 rows: windows of 8, every 4
    assert sum(map(len, parts)) == len(windows)
    expected = {f"asset-{i:02d}": (len(part), part.mean(), part.max()) for i, part in enumerate(parts)}
    found = {line["asset"]: line for line in lines if line["split"] == "eval"}
    assert sorted(found) == sorted(expected)
    for asset, (count, mean, worst) in expected.items():
        told = [float(found[asset][name]) for name in ("windows", "loss", "worst")]
        assert told == pytest.approx([count, mean, worst], rel=1e-4)
    told = review.splits["eval"]
    assert [one.asset for one in told.worst] == [line["asset"] for line in lines if line["split"] == "eval"]
    assert [one.loss for one in told.worst] == sorted((one.loss for one in told.worst), reverse=True)
    sums, (windows, *_) = (
        np.array([mean * count for count, mean, _ in expected.values()]),
        np.array([*expected.values()]).T,
    )
    most = sums.argmax()
    if sums[most] / windows[most] > 2 * (sums.sum() - sums[most]) / (windows.sum() - windows[most]):
        assert told.most_of_error == ([sorted(expected)[most]], pytest.approx(sums[most] / sums.sum(), rel=1e-4))
    else:
        assert told.most_of_error is None


def test_columns_that_differ_from_train_are_told(series):
    _, written, review, _ = series
    train = written.windows["train"].reshape(-1, 3).astype("f8")
    for split in ("eval", "test"):
        means = written.windows[split].reshape(-1, 3).astype("f8").mean(axis=0)
        away = (means - train.mean(axis=0)) / train.std(axis=0)
        found = review.splits[split].drift
        assert found == pytest.approx({f"sensor_{i}": away[i] for i in range(3)}, rel=1e-5)
        assert list(found) == sorted(found, key=lambda name: -abs(found[name]))


def test_of_many_windows_some_from_all_over_are_looked_at(helpers, tmp_path, monkeypatch):
    segments = {"train": helpers.segments_of([40] * 4, 2), "eval": helpers.segments_of([8] * 90, 2)}
    written = helpers.write_dataset(str(tmp_path / "data"), segments, length=8, stride=4, block_bytes=1)
    job = helpers.make_job(written.output, workdir=str(tmp_path / "run"))
    for name in ("MOST", "LEAST"):
        monkeypatch.setattr(module, name, 24)
    review, _ = review_of(job, written.manifest)
    found = review.splits["eval"]
    assert 20 <= found.windows <= 24  # where the split does not go into lanes, some have padding
    assert (found.of, found.assets) == (90, found.windows)
    with open(RunLayout(job.train.workdir).assets) as file:
        numbers = [int(line["asset"].removeprefix("asset-")) for line in csv.DictReader(file)]
    assert min(numbers) < 30
    assert max(numbers) > 60


def test_of_classes_their_shares_are_what_to_beat(tmp_path):
    written = write_labelled(str(tmp_path / "data"))
    job = labelled_job(written.output, workdir=str(tmp_path / "run"), review=ALL)
    review, _ = review_of(job, written.manifest)
    field = written.manifest.field(job.train.task.target)
    counts = {split: np.array(info.targets[field.name].counts) for split, info in written.manifest.splits.items()}
    shares = counts["train"] / counts["train"].sum()
    found = review.splits["eval"].guesses[f"always {field.classes[int(shares.argmax())]!r}"]
    here = counts["eval"] / counts["eval"].sum()
    assert found["loss"] == pytest.approx(-(here * np.log(shares)).sum(), rel=1e-5)
    assert found["accuracy"] == pytest.approx(here[shares.argmax()])
    train, test = (written.fields[split]["values"].reshape(counts[split].sum(), -1) for split in ("train", "eval"))
    scaler = StandardScaler().fit(train)
    truth = [np.ravel(written.fields[split][field.name]) for split in ("train", "eval")]
    fitted = LogisticRegression(max_iter=1000).fit(scaler.transform(train), truth[0])
    found = review.splits["eval"].guesses["logistic regression"]
    assert found["accuracy"] == pytest.approx(fitted.score(scaler.transform(test), truth[1]), abs=0.02)
    assert set(review.splits["eval"].guesses) >= {"gradient boosting"}


def test_of_numbers_their_mean_is_what_to_beat(tmp_path):
    written = write_labelled(str(tmp_path / "data"))
    task = {"name": "regress", "target": "life"}
    job = labelled_job(written.output, workdir=str(tmp_path / "run"), task=task, review=ALL)
    review, _ = review_of(job, written.manifest)
    mean, here = (written.fields[split]["life"].astype("f8") for split in ("train", "eval"))
    found = review.splits["eval"].guesses["the mean"]
    assert found["loss"] == pytest.approx(np.mean((here - mean.mean()) ** 2), rel=1e-4)
    assert found["mean_absolute_error"] == pytest.approx(np.abs(here - mean.mean()).mean(), rel=1e-4)
    assert set(review.splits["eval"].guesses) == {"the mean", "a linear model", "gradient boosting"}


def test_without_baselines_the_model_stands_alone(tmp_path):
    written = write_labelled(str(tmp_path / "data"))
    job = labelled_job(written.output, workdir=str(tmp_path / "run"), review={"baselines": "none"})
    review, _ = review_of(job, written.manifest)
    assert (review.splits["eval"].guesses, review.splits["eval"].skipped) == ({}, [])
    assert review.splits["eval"].model["loss"] > 0


def test_a_review_of_another_run_is_none(series):
    job, *_ = series
    assert read_review(job.train.workdir, "another") is None


def test_models_without_an_encoder_have_no_pca(series):
    _, written, _, _ = series
    plain = keras.Sequential([keras.Input((8, 3)), keras.layers.Dense(3)])
    job = series[0]
    assert module.latent_size(plain, Objective(job.train.task, written.manifest)) is None


def test_an_encoder_behind_other_layers_has_a_size(series):
    """It was called with the window itself, which does not fit it, and the review was lost."""
    job, written, _, _ = series
    windows = keras.Input((8, 3))
    wide = keras.layers.Dense(7)(windows)
    encoder = keras.Sequential([keras.Input((8, 7)), keras.layers.Dense(2)], name="encoder")
    model = keras.Model(windows, keras.layers.Dense(3)(encoder(wide)))
    assert module.latent_size(model, Objective(job.train.task, written.manifest)) == 16
