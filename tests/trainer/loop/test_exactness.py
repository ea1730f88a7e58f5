"""How far training in parts, or by several workers, is that of one device: its steps, and what becomes of rounding.

What an optimizer makes of a difference in the last bit is its own affair: where the learning rate is so high that
losses jump, it grows from step to step, in any two programs that add up numbers in another order. So steps are compared
from the same weights, also in such runs, and whole runs where training is calm.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from labelled import labelled_job, write_labelled

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.config.train import Devices
from beamfeed.trainer.cluster.strategy import connect
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.loop.model import make_model
from beamfeed.trainer.loop.optimizer import make_optimizer
from beamfeed.trainer.loop.steps import LOSS, make_train_steps, zero_train
from beamfeed.trainer.loop.train import train_and_evaluate
from beamfeed.trainer.tasks.objective import Objective

BATCH = 20
FEED = {"batch_size": BATCH, "shuffle": 100}
LSTM = {"name": "recurrent", "cell": "lstm", "units": [8]}
AUTOENCODER = {"name": "recurrent_autoencoder", "cell": "gru", "units": [8], "latent": 4}
CLASSIFY = {"name": "classify", "target": "fault", "sample_weight": "importance"}
JUMPY = {"name": "rmsprop", "learning_rate": 0.02, "clip_norm": 0.1}
OF_A_STEP = 1e-5  # of the gradient's norm; a prediction of 1,000 +- 1 has no more digits than that


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """600 windows: 30 steps in an epoch."""
    return write_labelled(str(tmp_path_factory.mktemp("data")), {"train": 600, "eval": 60, "test": 30})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "task", "optimizer"),
    [
        (LSTM, CLASSIFY, JUMPY),
        (LSTM, {"name": "regress", "target": "life"}, {**JUMPY, "name": "adam"}),
        pytest.param(AUTOENCODER, {"name": "reconstruct"}, JUMPY, marks=pytest.mark.slow),
    ],
    ids=["classify", "regress", "reconstruct"],
)
def test_each_step_in_parts_is_that_of_the_whole_batch(data, tmp_path, model, task, optimizer):
    job = labelled_job(data.output, model=model, task=task, optimizer=optimizer, feed=FEED, workdir=str(tmp_path))
    objective = Objective.of(job.train, data.manifest)
    trained = make_model(job.train, objective.signature)
    weights = trained.trainable_variables
    descent = keras.optimizers.SGD(1.0)  # the difference of the weights is the gradient
    descent.build(weights)
    strategy = tf.distribute.get_strategy()

    def steps(optimizer, **options):
        made = make_train_steps(strategy, trained, objective, optimizer, BATCH, **options)

        def run(fields):
            batches = iter(tf.data.Dataset.from_tensors(fields))
            sums, _ = made(batches, tf.constant(1), zero_train(objective), tf.zeros([1]))
            return sums[LOSS].numpy()

        return run

    section = job.train.optimizer
    train = steps(make_optimizer(section, weights), clip_norm=section.clip_norm)
    whole, in_parts = steps(descent), steps(descent, devices=Devices(accumulate=3))

    def differentiate(run, fields):
        before = trained.get_weights()
        loss = run(fields)
        gradient = np.concatenate([(a - b).ravel() for a, b in zip(before, trained.get_weights(), strict=True)])
        trained.set_weights(before)
        return loss, gradient

    for fields in load_dataset(data.output, "train", batch_size=BATCH, shuffle=100, fields=objective.fields()):
        (loss, gradient), (loss_of_parts, of_parts) = differentiate(whole, fields), differentiate(in_parts, fields)
        assert loss_of_parts == pytest.approx(loss, rel=OF_A_STEP)
        assert np.linalg.norm(of_parts - gradient) <= OF_A_STEP * np.linalg.norm(gradient)
        train(fields)


@pytest.mark.slow
@pytest.mark.parametrize(
    "optimizer",
    [
        {"name": "rmsprop", "learning_rate": 0.001, "clip_norm": 0.1},
        pytest.param({"name": "adam", "learning_rate": 0.003}, marks=pytest.mark.long),
    ],
    ids=["rmsprop", "adam"],
)
def test_calm_training_in_parts_ends_with_the_same_weights(data, tmp_path, optimizer):
    ends = []
    for parts in (1, 2):
        job = labelled_job(
            data.output, model=LSTM, task=CLASSIFY, optimizer=optimizer, feed=FEED, epochs=4,
            devices={"accumulate": parts}, workdir=str(tmp_path / str(parts)),
        )  # fmt: skip
        ends.append(train_and_evaluate(job, data.manifest, connect(WorkerInfo())))
    for one, other in zip(*(end.weights for end in ends), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    for one, other in zip(*(end.epochs for end in ends), strict=True):
        assert one["eval_loss"] == pytest.approx(other["eval_loss"], rel=1e-6)
