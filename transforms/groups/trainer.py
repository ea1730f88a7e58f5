"""A trainer in a process of its own: TensorFlow is loaded once, and a run can break nothing but that process."""

import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from beamfeed.contract.cores import available_cores
from beamfeed.contract.dataset.one_by_one import Answer, TrainRequest
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.options import ONE_BY_ONE
from beamfeed.contract.text import last_line

MOST_RUNS = 50  # of a process: TensorFlow keeps about 5 MB of each
TAIL_BYTES = 4096  # of what a process said, where it ended by itself


class Trainer:
    """A process that trains models one after another.

    Attributes:
      folder: of one that is ready, for what its jobs read and write, on this machine. It goes when the process ends.
    """

    def __init__(self) -> None:
        self.folder = ""
        self._process: subprocess.Popen[str] | None = None
        self._runs = 0

    def get_ready(self) -> None:
        """Starts the process, where it is not there or has trained enough, with an empty folder.

        Raises:
          JobFailed: if it cannot be started.
        """
        if self._process is not None and self._runs < MOST_RUNS:
            return
        self.close()
        self.folder = tempfile.mkdtemp(prefix="beamfeed-each-")
        with open(self._stderr_path, "a") as stderr:
            self._process = subprocess.Popen(  # a session of its own: who ends us ends it by the end of its stdin
                [sys.executable, "-m", ONE_BY_ONE.module, self.folder],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True,
            )  # fmt: skip
        self._runs = 0
        if self._ask(self._process, None) is None:
            end = self._describe_end(self._process)
            self.close()  # whoever asks next begins anew
            raise JobFailed(f"a trainer cannot be started: {end}")

    def train(self, job: str, dataset: str, *, model: bool) -> Answer:
        """Trains, and says what came of it. It is ready.

        Args:
          job: the text of a job file that reads and writes in `folder`.
          dataset: the fingerprint of its dataset.
          model: whether the SavedModel is written.

        Raises:
          JobFailed: if the machine gives it no room, or the dataset is another one.
        """
        assert self._process is not None
        request = TrainRequest(job=job, dataset=dataset, model=model, check=self._runs == 0)
        self._runs += 1
        os.truncate(self._stderr_path, 0)
        answer = self._ask(self._process, request)
        if answer is None:
            answer = Answer(reason=self._describe_end(self._process))
            self._process = None
        if answer.is_trouble:
            raise JobFailed(f"training in {self.folder}: {answer.reason}")
        return answer

    @property
    def _stderr_path(self) -> str:
        return os.path.join(self.folder, "said.txt")

    @staticmethod
    def _ask(process: subprocess.Popen[str], request: TrainRequest | None) -> Answer | None:
        """The answer; None where the process has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        if request is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(request.model_dump_json() + "\n")
                process.stdin.flush()
        line = process.stdout.readline()
        return Answer.model_validate_json(line) if line.endswith("\n") else None

    def _describe_end(self, process: subprocess.Popen[str]) -> str:
        code = process.wait()
        with open(self._stderr_path, "rb") as file:
            file.seek(max(0, os.path.getsize(self._stderr_path) - TAIL_BYTES))
            said = last_line(file.read())
        by = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        memory = ", as where memory runs out" if code == -signal.SIGKILL else ""
        return f"the trainer {by}{memory}{f'; it said last: {said}' if said else ''}"

    def close(self) -> None:
        """Ends the process, which removes the folder."""
        if self._process is not None:
            self._process.communicate()
            self._process = None
        shutil.rmtree(self.folder, ignore_errors=True)


class Trainers:
    """The trainers of a process of workers: one for each core, however many threads there are."""

    def __init__(self) -> None:
        self._every = [Trainer() for _ in range(available_cores())]
        self._idle: queue.LifoQueue[Trainer] = queue.LifoQueue()
        for trainer in self._every:
            self._idle.put(trainer)
        self._lock, self._users = threading.Lock(), 0

    @contextmanager
    def borrowed(self) -> Iterator[Trainer]:
        """A trainer for this thread alone."""
        trainer = self._idle.get()
        try:
            yield trainer
        finally:
            self._idle.put(trainer)

    def join(self) -> None:
        """Says that somebody uses these."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """The last one who does ends them."""
        with self._lock:
            self._users -= 1
            for trainer in [] if self._users else self._every:
                trainer.close()
