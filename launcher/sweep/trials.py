"""A trial of a sweep: a training run in a process of its own, and what is known of it while it goes on."""

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beamfeed.contract import storage
from beamfeed.contract.cluster.worker_info import SHARE
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import job_text
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.result import TrainResult, Watched, read_result, read_run
from beamfeed.contract.options import BEFORE, OF_DATASET
from beamfeed.launcher.backends.local.backend import share_cores
from beamfeed.launcher.processes import Process, Running, last_line, start_process
from beamfeed.launcher.sweep.space import Search

if TYPE_CHECKING:
    import optuna

Line = dict[str, Any]  # of metrics.jsonl


class WatchedLine(Watched):
    """The number that decides, in lines of metrics.jsonl."""

    def name(self, line: Line) -> str:
        """Its name in a line of metrics.jsonl: that of the train split where there is no eval split."""
        return self.metric if line["eval_loss"] is None else f"eval_{self.metric}"

    def value(self, line: Line) -> float | None:
        """The number in a line of metrics.jsonl."""
        value = line.get(self.name(line))
        return None if value is None else float(value)


@dataclass
class Going:
    """A trial that goes on.

    Attributes:
      trial: of Optuna.
      train: the section of its job.
      running: its process.
      lines: of metrics.jsonl, so far.
      scores: of these; NaN where there is no number.
      pruned_at: the evaluation that decided that it is to end, from 1; 0 where none has.
      began: when, by `time.monotonic`.
    """

    trial: "optuna.Trial"
    train: Train
    running: Running
    lines: list[Line] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    pruned_at: int = 0
    began: float = field(default_factory=time.monotonic)
    _last_stat: tuple[int, int] = (0, 0)  # time and size of the metrics at the last look

    @property
    def number(self) -> int:
        return int(self.trial.number)

    def new_lines(self) -> list[Line]:
        """Lines of metrics.jsonl since the last call."""
        path = RunLayout(self.train.workdir).metrics
        try:
            stat = os.stat(path)
            if (stat.st_mtime_ns, stat.st_size) == self._last_stat:
                return []
            text = storage.read_text(path)
        except FileNotFoundError:
            return []
        self._last_stat = (stat.st_mtime_ns, stat.st_size)
        return [json.loads(line) for line in text.splitlines()][len(self.lines) :]

    def watched(self) -> WatchedLine | None:
        """What decides, as soon as the trainer has said so."""
        with suppress(KeyError, TypeError):
            watched = read_run(self.train.workdir)["watched"]
            return WatchedLine(watched["metric"], watched["mode"] == "max")
        return None

    def result(self) -> TrainResult | None:
        """That of a training run that has ended well."""
        return read_result(self.train.workdir) if self.running.code == 0 else None

    def failed_at_once(self) -> bool:
        """Whether it has failed before it evaluated anything."""
        return bool(self.running.code) and not self.lines

    def why_failed(self) -> str:
        """The last line that it has printed."""
        return last_line(self.running).removeprefix(BEFORE) or f"ended with exit code {self.running.code}"

    def seconds(self) -> float:
        """That it took, over all starts of which something is known."""
        return round(time.monotonic() - self.began + float(self.trial.user_attrs.get("seconds", 0.0)), 1)

    def close(self) -> None:
        """Closes its log."""
        if self.running.log is not None:
            self.running.log.close()


def start_trial(trial: "optuna.Trial", job: Job, search: Search, slot: int) -> Going:
    """Starts, or goes on with, the training run of a trial.

    Args:
      trial: of Optuna.
      job: of the trial.
      search: whose dataset is taken as it is.
      slot: its place among those that go on, which share cores and GPUs.
    """
    assert job.train is not None
    names = RunLayout(job.train.workdir)
    storage.write_text(names.job, trial_text(job))
    slots = search.parallel
    shared = {**share_cores(slots * job.launch.train.workers), SHARE: f"{slot}/{slots}"} if slots > 1 else {}
    command = (sys.executable, "-m", "beamfeed", "train", names.job, *OF_DATASET.write(search.data))
    process = Process(command, shared, log=storage.join(job.train.workdir, "train.log"))
    return Going(trial, job.train, start_process(f"trial {trial.number}", process))


def trial_text(job: Job) -> str:
    """The job file of a trial."""
    values = job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"sweep"})
    return job_text(values, redact_secrets=True)


def is_over(lines: Sequence[Line], scores: Sequence[float], train: Train) -> bool:
    """Whether a training run ends by itself after the last of these evaluations: nothing is won by ending it.

    Args:
      lines: of metrics.jsonl.
      scores: of the same; lower ones are better, one that is no number is never better.
      train: the section of the job.
    """
    last, early = lines[-1], train.early_stopping
    if last["epoch"] >= train.epochs and train.evaluate_every is None:
        return True
    if train.max_steps is not None and last["step"] >= train.max_steps:
        return True
    if early is None:
        return False
    best, stale = math.inf, 0
    for score in scores:
        better = score < best - early.min_delta or (best == math.inf and not math.isnan(score))
        best, stale = (score, 0) if better else (best, stale + 1)
    return stale >= early.patience
