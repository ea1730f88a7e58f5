"""`python -m beamfeed.trainer.main --job job.yaml [--set key=value ...]`: one worker of a training run.

Exit codes: 0 done, 1 the training run failed, 2 a mistake in the job, the dataset or the
environment. 138 another worker was lost, and 143 this one was asked to stop (SIGTERM): started
again, the training run goes on from its last checkpoint.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from beamfeed.contract import storage, streams
from beamfeed.contract.cluster.environment import read_worker_info
from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.config.duration import seconds_of
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.batches import describe_batch
from beamfeed.contract.dataset.checkpoints import check_step
from beamfeed.contract.dataset.initial import check_init
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import TrainResult, read_result
from beamfeed.contract.ending import leave
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import TRAIN
from beamfeed.contract.progress import Progress
from beamfeed.contract.tracking import check_writers
from beamfeed.contract.verbosity import note
from beamfeed.trainer.cluster.rendezvous import Missing, resolve
from beamfeed.trainer.cluster.watchdog import LINGER_SECONDS, LOST, PREEMPTED, Lost, Preempted, Watchdog
from beamfeed.trainer.feed.remote import set_reads
from beamfeed.trainer.loop.start import Start, open_dataset
from beamfeed.trainer.loop.workdir import changes_of, find_finished, held, was_done


def check(arguments: argparse.Namespace) -> tuple[TrainingJob, Manifest, WorkerInfo]:
    """All that can be known to be wrong before TensorFlow is loaded, which takes seconds.

    Raises:
      UserError: for the first mistake.
    """
    job = load_as(TrainingJob, arguments.job, arguments.set)
    worker = read_worker_info(os.environ)
    if worker.is_chief:
        check_writers(job.train.writers, os.environ)
    fitted, manifest = open_dataset(job)
    if worker.is_chief and fitted is not job:
        note(f"smoke test: {describe_batch(fitted, job)}")
    return fitted, manifest, worker


def train(job: TrainingJob, manifest: Manifest, worker: WorkerInfo, start: Start | None = None) -> TrainResult:
    """Joins the workers, trains and exports; see `beamfeed.trainer.loop.train` and `beamfeed.trainer.export`.

    Raises:
      UserError: if another run trains in the same working folder, or workers have different runs before them.
      Lost: if another worker has gone.
    """
    set_reads(os.environ)
    patience = seconds_of(job.train.join_timeout)
    worker = resolve(worker, patience)
    start = start or Start()
    watchdog = Watchdog(worker.addresses, worker.index, seconds_of(job.train.worker_timeout))
    with watchdog.watching(), ExitStack() as stack:
        if worker.is_chief:
            stack.enter_context(held(job.train.workdir, watchdog.alive))
        with heavy_imports():
            import tensorflow as tf

            from beamfeed.trainer.cluster.agreement import check_run
            from beamfeed.trainer.cluster.strategy import connect, take_share

            take_share()  # where there is no GPU, the search for one is reported
        watchdog.joining("connecting", patience)
        try:
            if job.train.devices.deterministic:
                tf.config.experimental.enable_op_determinism()
            cluster = connect(worker, job.train.devices.collectives)  # before every other TensorFlow operation
            from beamfeed.trainer.export.run import export_run
            from beamfeed.trainer.feed.cache import remove_copies
            from beamfeed.trainer.feed.read_errors import explained
            from beamfeed.trainer.loop.train import train_and_evaluate

            stack.callback(remove_copies)
            check_run(cluster, job, manifest, start.profile)
            watchdog.long("getting ready")
            watchdog.save_on_sigterm()
            trained = train_and_evaluate(job, manifest, cluster, watchdog, start)
            if worker.is_chief:
                watchdog.alone("export")
                with explained(manifest, job.output.path):
                    export_run(job, manifest, trained, start.progress.phase)
            else:
                watchdog.wait_for_chief()
                written = read_result(job.train.workdir)
                if written is None or written.fingerprint != trained.result.fingerprint:
                    raise Lost("worker 0 ended before it had exported the model")
            return trained.result
        except (
            tf.errors.UnavailableError,
            tf.errors.AbortedError,
            tf.errors.CancelledError,
            tf.errors.DeadlineExceededError,  # the chief is frozen, which the others ask whether it is well
            tf.errors.InternalError,  # as NCCL has it
        ) as error:
            if worker.count == 1 or (isinstance(error, tf.errors.InternalError) and "nccl" not in str(error).lower()):
                raise
            raise Lost(watchdog.describe_others()) from error


def describe_length(result: TrainResult) -> str:
    """`8 epochs`; in steps, where it ended before its first epoch did."""
    if not result.epochs:
        return f"{result.steps:,} steps"
    return f"{result.epochs:,} epoch{'s' if result.epochs > 1 else ''}"


def describe_result(result: TrainResult) -> str:
    """`8 epochs, best eval loss 0.012345 (epoch 5), test loss 0.012345`; of what is watched, if that is another."""
    best = "-" if result.best is None else f"{result.best:.6f}"
    tested = result.test_loss if result.watched == "loss" else result.test_metrics.get(result.watched)
    test = "" if tested is None else f", test {result.watched.replace('_', ' ')} {tested:.6f}"
    epoch = "" if result.best_epoch is None else f" (epoch {result.best_epoch:,})"
    best = f"best {result.best_split} {result.watched.replace('_', ' ')} {best}{epoch}"
    return f"{describe_length(result)}, {best}{test}"


def run(arguments: argparse.Namespace, iterators: list[Any], log: FailureLog) -> int:
    """Runs one worker and returns the exit code; of `iterators`, see `beamfeed.trainer.feed.distributed.Feed`.

    Raises:
      UserError: for a mistake in the job, the dataset or the environment.
    """
    job, manifest, worker = check(arguments)
    log.folders = () if storage.is_remote(job.train.workdir) else (RunLayout(job.train.workdir).logs,)
    once = arguments.once or ""
    done = was_done(job.train.workdir, once)
    restart, from_step = arguments.restart and not done, None if done else arguments.from_step
    check_init(job.train, restart)
    if from_step is not None and worker.is_chief:
        check_step(RunLayout(job.train.workdir).checkpoints, from_step)
    finished = None if restart else find_finished(job, manifest)
    if finished is not None and from_step is None:
        for change in changes_of(job) if worker.is_chief else ():
            note(f"{change}; not applied, as the training run is over")
        ending = "stopped early after" if finished.stopped_early else "ran"
        note(f"{job.train.workdir}: nothing to do, the training run {ending} {describe_length(finished)}", sys.stdout)
        return 0
    progress = Progress(arguments.progress_dir if worker.is_chief else None)
    progress.begin()
    start = Start(restart, from_step, once, arguments.profile_steps, iterators, progress)
    try:
        result = train(job, manifest, worker, start)
    except Missing as error:
        print(f"{error}; started again, they may come", file=sys.stderr)
        return LOST
    except Preempted as error:
        time.sleep(LINGER_SECONDS)
        print(f"train: stopped at step {error.step:,}, saved. The same command continues.", file=sys.stderr)
        return PREEMPTED
    except Lost as error:
        lost = f"worker {worker.index} lost another one: {error}"
        print(f"train: {lost}. The same command continues from the last checkpoint.", file=sys.stderr)
        return LOST
    if worker.is_chief and arguments.progress_dir is None:  # the launcher's summary says it all
        note(f"{job.train.workdir}: {describe_result(result)}", sys.stdout)
    return 0


def main(argv: Sequence[str] | None = None, iterators: list[Any] | None = None) -> int:
    """Runs one worker and returns the exit code."""
    log = FailureLog()
    return TRAIN.run(lambda arguments: run(arguments, [] if iterators is None else iterators, log), argv, log)


if __name__ == "__main__":
    streams.take_over()
    iterators: list[Any] = []  # lives as long as the process
    leave(streams.flushed(main(iterators=iterators)))  # TensorFlow would wait for its server's peers on the way out
