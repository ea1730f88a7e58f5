"""The weights that come of the data, before the first step."""

import numpy as np
import pytest

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.trainer.cluster.strategy import Together, connect
from beamfeed.trainer.cluster.watchdog import Watchdog
from beamfeed.trainer.loop.first_weights import fit_first_weights
from beamfeed.trainer.loop.train import train_and_evaluate
from beamfeed.trainer.models import build
from beamfeed.trainer.models.autoencoder import linear_path
from beamfeed.trainer.tasks.objective import Objective


def fitted(job, written):
    objective = Objective.of(job.train, written.manifest)
    model = build(job.train.model, objective.signature, seed=1)
    first = [weight.numpy() for weight in linear_path(model)]
    cluster = connect(WorkerInfo())
    together = Together(cluster, Watchdog())
    fit_first_weights(job, written.manifest, objective, model, together)
    together.close()
    return model, first


def loss(model, windows):
    return np.square(model(windows).numpy() - windows).mean()


@pytest.mark.parametrize("section", [{"name": "recurrent_autoencoder"}, {"name": "dense_autoencoder"}])
@pytest.mark.parametrize("latent", [1, 3])
def test_a_model_begins_with_the_loss_of_pca(section, latent, job, written):
    model, _ = fitted(job(model={**section, "latent": latent}), written)
    train = written.windows["train"].reshape(-1, 24).astype("f8")
    mean = train.mean(0)
    _, _, directions = np.linalg.svd(train - mean, full_matrices=False)
    for split in ("train", "test"):
        apart = written.windows[split].reshape(-1, 24) - mean
        rest = apart - apart @ directions[:latent].T @ directions[:latent]
        assert loss(model, written.windows[split]) == pytest.approx(np.square(rest).mean(), rel=1e-4)


def test_more_latent_numbers_than_components_give_the_windows_back(job, written):
    model, first = fitted(job(model={"name": "dense_autoencoder", "latent": 30}), written)
    assert loss(model, written.windows["test"]) < 1e-9
    np.testing.assert_array_equal(linear_path(model)[0].numpy()[:, 24:], first[0][:, 24:])


def test_without_a_linear_path_nothing_is_read(job, written, monkeypatch):
    monkeypatch.setattr("beamfeed.trainer.loop.first_weights.training_windows", None)
    fitted(job(model={"name": "dense_autoencoder", "linear": False}), written)


def test_where_training_finds_nothing_better_the_first_weights_stay(job, written):
    made = job(optimizer={"name": "sgd", "learning_rate": 3.0, "clip_norm": 1.0})
    model, _ = fitted(made, written)
    outcome = train_and_evaluate(made, written.manifest, connect(WorkerInfo()))
    assert outcome.result.best_epoch == 0
    assert outcome.result.best_loss == pytest.approx(loss(model, written.windows["eval"]), rel=1e-5)
    assert outcome.result.test_loss == pytest.approx(loss(model, written.windows["test"]), rel=1e-5)
    assert [line["eval_loss"] > outcome.result.best_loss for line in outcome.epochs] == [True, True]
