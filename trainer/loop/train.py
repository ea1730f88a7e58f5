"""From a dataset to trained weights: the distributed training loop."""

from contextlib import ExitStack, closing
from dataclasses import dataclass

import keras
import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.fingerprint import run_fingerprint
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.tracking import MLFLOW
from beamfeed.contract.verbosity import note
from beamfeed.trainer.cluster.strategy import Cluster, describe
from beamfeed.trainer.cluster.watchdog import Watchdog
from beamfeed.trainer.feed.read_errors import explained
from beamfeed.trainer.loop.metrics import Epoch, MetricsLog, describe_run
from beamfeed.trainer.loop.mlflow_writer import check_server
from beamfeed.trainer.loop.start import Start
from beamfeed.trainer.loop.state import is_over, until_evaluation
from beamfeed.trainer.loop.training import Training
from beamfeed.trainer.loop.workdir import claim


@dataclass(frozen=True)
class TrainedModel:
    """What a finished training run gives to the export.

    Weights and losses are the same on every worker; times are each worker's own.

    Attributes:
      result: for complete.json.
      weights: the best ones, as `model.get_weights()` returns them.
      epochs: the lines of metrics.jsonl.
      model: the model itself, with these weights.
    """

    result: TrainResult
    weights: list[np.ndarray]
    epochs: list[Epoch]
    model: keras.Model | None = None


def train_and_evaluate(
    job: TrainingJob, manifest: Manifest, cluster: Cluster, watchdog: Watchdog | None = None, start: Start | None = None
) -> TrainedModel:
    """Trains the job's model on a dataset, from the last checkpoint on, and evaluates the best weights.

    Every worker calls this, and must not end before the chief has: it would take the
    chief with it. After each epoch, or so many steps, all windows of the eval split are
    evaluated once and a checkpoint is written; the weights with the best eval
    loss, or what else is watched (of the train split, where there is no eval
    split), are evaluated on the test split and returned.

    Raises:
      UserError: if the dataset cannot be read or has too few windows.
      JobFailed: if the loss or the gradients are not finite.
      Preempted: if a worker was asked to stop.
    """
    train = job.train
    watchdog, start = watchdog or Watchdog(), start or Start()
    with ExitStack() as stack:
        stack.enter_context(explained(manifest, job.output.path))
        training = stack.enter_context(closing(Training(job, manifest, cluster, watchdog, start)))

        def make_ready() -> None:
            if MLFLOW in train.writers:
                check_server(training.names, start.restart)
            watched = {"metric": training.watched.metric, "mode": training.watched.mode}
            # Not before the model could be made of the job.
            for change in claim(job, manifest, start.restart, start.once, watched):
                note(change)

        training.together("getting ready", make_ready)
        watchdog.long("reading the last checkpoint")
        state = training.keep_first(training.saving.restore(start.from_step, start.once))
        if cluster.worker.is_chief:
            begins = f", from step {state.step:,}" if state.step else ""
            note(f"train: {describe(cluster)}{begins}")
        measured, is_chief = training.objective.names(), cluster.worker.is_chief
        metrics = MetricsLog(job, state, measured, training.steps, training.callbacks, is_chief, start.progress)
        stack.push(lambda kind, *_: metrics.close(finished=kind is None))
        batches = None
        # What was stopped right before its last evaluation is over, and still to be evaluated.
        while not is_over(state.epoch, state.step, state.stale, train) or (
            state.since and not until_evaluation(state, training.steps, train)
        ):
            if batches is None:
                watchdog.long("opening the data")
                at = state.next_epoch(training.steps)
                batches = training.feed.train(at.epoch, at.done, state.lanes)
            state = training.run(batches, state, metrics)
            state = training.end(state, metrics)
            training.saving.save(state)  # last: what is newer than it is dropped on resuming

        training.saving.restore_best(state)
        result = TrainResult(
            fingerprint=run_fingerprint(train, manifest.fingerprint),
            watched=training.watched.metric,
            workers=cluster.worker.count,
            **describe_run(state, train, metrics.epochs, training.watched.metric, training.evaluate("test")),
        )
        training.together("telling of the end", lambda: training.callbacks.tell("on_end", result.model_dump()))
        return TrainedModel(result, training.model.get_weights(), metrics.epochs, training.model)
