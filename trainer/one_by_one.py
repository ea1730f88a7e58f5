"""`python -m beamfeed.trainer.one_by_one FOLDER`: trains the jobs that stdin names, one after another.

Requests and answers are lines of JSON, see `beamfeed.contract.dataset.one_by_one`. TensorFlow is loaded once. A model
is trained on one core: who asks starts as many of these as there are cores, and the weights are the same with any
number of them. When stdin ends, which it does also where who asked was killed, the process removes FOLDER, where its
jobs read and write, and ends.
"""

import argparse
import errno
import gc
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import IO, Any

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import parse_as
from beamfeed.contract.dataset.initial import check_init
from beamfeed.contract.dataset.manifest import find_fingerprint
from beamfeed.contract.dataset.one_by_one import Answer, TrainRequest
from beamfeed.contract.ending import leave
from beamfeed.contract.errors import Unanswered, UserError, failure_of
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import ONE_BY_ONE
from beamfeed.trainer.feed.remote import set_reads
from beamfeed.trainer.loop.start import open_dataset

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # of NumPy and scikit-learn
OTHER = "is not the dataset that it was when this began: it was preprocessed again, or is gone"
OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EROFS)


def train(request: TrainRequest) -> Answer:
    """Trains a model as `beamfeed train` does, in an empty working folder, without its review."""
    import keras
    import tensorflow as tf

    from beamfeed.contract.cluster.worker_info import WorkerInfo
    from beamfeed.trainer.cluster.strategy import connect
    from beamfeed.trainer.export.run import export_model
    from beamfeed.trainer.feed.cache import remove_copies
    from beamfeed.trainer.loop.train import train_and_evaluate

    job = parse_as(TrainingJob, request.job)
    if job.train.devices.deterministic:
        tf.config.experimental.enable_op_determinism()
    try:
        job, manifest = open_dataset(job)
        if manifest.fingerprint != request.dataset:
            raise UserError(OTHER)
        check_init(job.train, anew=False)
        trained = train_and_evaluate(job, manifest, connect(WorkerInfo()))
        if request.model:
            export_model(job, manifest, trained, check=request.check)
        return Answer(result=trained.result)
    except Exception as error:
        return _why_none(error, job.output.path, request.dataset)
    finally:
        remove_copies()
        keras.backend.clear_session()
        gc.collect()


def _why_none(error: Exception, output: str, dataset: str) -> Answer:
    """Why a training failed: for what is in its data, or for trouble that others would have, too."""
    try:
        if find_fingerprint(output) != dataset:
            return Answer(reason=f"{output}: {OTHER}", is_trouble=True)
    except Unanswered as unanswered:
        error = unanswered
    is_trouble = isinstance(error, Unanswered) or (isinstance(error, OSError) and error.errno in OF_THE_MACHINE)
    return Answer(reason=failure_of(error).message.removeprefix("job failed: "), is_trouble=is_trouble)


def serve(lines: Iterable[str], answers: IO[str], work: Callable[[TrainRequest], Answer], end: "EndOnce") -> None:
    """Answers each request; where nobody is left to hear it, `end` is called."""
    try:
        print(Answer().model_dump_json(), file=answers, flush=True)
        for line in lines:
            print(work(TrainRequest.model_validate_json(line)).model_dump_json(), file=answers, flush=True)
    except BrokenPipeError:
        end()
    except BaseException:  # as files go from under a training, anything may be
        if end.has_begun:
            end()
        raise


def watched(stdin: IO[str], end: Callable[[], Any]) -> Iterable[str]:
    """The lines of stdin; when it ends, in the middle of whatever this process does, `end` is called."""
    lines: queue.Queue[str] = queue.Queue()

    def read() -> None:
        for line in stdin:
            if line.endswith("\n"):  # else who asks was killed in the middle of it
                lines.put(line)
        end()

    threading.Thread(target=read, daemon=True).start()
    return iter(lines.get, None)


def remove(folder: str) -> None:
    """Removes a folder that is still being written to: under another name nothing new gets into it.

    Who writes may make the folder anew a few times.
    """
    for number in range(5):
        gone = f"{folder}-gone{number or ''}"
        with suppress(OSError):
            os.rename(folder, gone)
        for path in (gone, folder):
            shutil.rmtree(path, ignore_errors=True)
        if not os.path.exists(folder) and not os.path.exists(gone):
            return
        time.sleep(0.05)


class EndOnce:
    """Removes a folder and ends the process: a thread that comes later waits for it.

    Attributes:
      has_begun: whether a thread does.
    """

    def __init__(self, folder: str):
        self._folder, self._once = folder, threading.Lock()
        self.has_begun = False

    def __call__(self) -> None:
        self.has_begun = True
        with self._once:
            remove(self._folder)
            leave(0)


def run(arguments: argparse.Namespace) -> None:
    """Serves until stdin ends."""
    folder = arguments.folder
    end = EndOnce(folder)
    for number in (signal.SIGINT, signal.SIGTERM):  # a terminal or a launcher sends them to all; who asks decides
        signal.signal(number, signal.SIG_IGN)
    os.environ |= dict.fromkeys(ONE_THREAD, "1")
    set_reads(os.environ)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what training prints is not an answer
    lines = watched(sys.stdin, end)
    with heavy_imports():
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        if gpus := tf.config.list_physical_devices("GPU"):  # one for a model, which others of us may share
            gpu = gpus[os.getpid() % len(gpus)]
            tf.config.set_visible_devices(gpu, "GPU")
            tf.config.experimental.set_memory_growth(gpu, True)
        import beamfeed.trainer.export.run
        import beamfeed.trainer.loop.train  # noqa: F401
    tempfile.tempdir = os.environ["TMPDIR"] = folder  # what is left there goes with it, however this ends
    serve(lines, answers, train, end)


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until stdin ends, and returns an exit code where it cannot."""
    return ONE_BY_ONE.run(run, argv)


if __name__ == "__main__":
    sys.exit(main())
