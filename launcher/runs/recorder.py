"""Keeps the record of a run up to date while a launcher works on it, and hears whether it is to be cancelled."""

import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, suppress
from datetime import UTC, datetime
from importlib import metadata

from beamfeed.contract import storage
from beamfeed.contract.config.load import job_text
from beamfeed.contract.dataset.layout import RecordLayout
from beamfeed.contract.errors import UserError, failure_of, redacted
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.display import Display
from beamfeed.launcher.display.words import going_line
from beamfeed.launcher.plan import Plan
from beamfeed.launcher.runs.find import remember
from beamfeed.launcher.runs.log import CopiedText, Logged, RunLog
from beamfeed.launcher.runs.record import (
    Attempt,
    RunRecord,
    StageRecord,
    forget_old,
    list_layouts,
    new_id,
    read_record,
)
from beamfeed.launcher.stage import FLOOR, TRAIN, Stage

LOOK_SECONDS = 3.0  # between looks for a request to cancel
TOLD_SECONDS = 20.0  # between records of how far it is
VERSIONS = ("beamfeed", "apache-beam", "tensorflow", "keras", "tensorflow-transform", "pyarrow", "numpy")


class Recorder:
    """What `run_plan` tells of a run while it goes on. This one keeps nothing.

    Attributes:
      display: shows the run.
      is_cancelled: whether somebody asked for its end.
    """

    is_cancelled = False

    def __init__(self, display: Display):
        self.display = display

    def begins(self, stage: Stage) -> None:
        """A stage begins."""

    def follows(self, submission: Submission) -> None:
        """A backend has taken it on."""

    def ends(self, code: int, seconds: float) -> None:
        """It has ended with this exit code."""


@contextmanager
def recording(plan: Plan, display: Display) -> Iterator[Recorder]:
    """Records a run while the body runs: how that ends is how the run ended.

    Where no record can be kept, or another launcher keeps it just now, the run goes on without.

    Args:
      plan: what is run.
      display: shows it.
    """
    recorder = _begin(plan, display) if any(not stage.complete for stage in plan.stages) else None
    if recorder is None:
        yield Recorder(display)
        return
    try:
        with redirect_stderr(CopiedText(sys.stderr, recorder.log)):
            yield recorder
    except BaseException as error:
        recorder.close(error)
        raise
    recorder.close()


def place_of_run(plan: Plan) -> str:
    """The folder beside whose content the run is recorded."""
    asked_to_train = any(stage.name == TRAIN for stage in plan.stages)
    return plan.job.train.workdir if asked_to_train and plan.job.train else plan.job.output.path


def _begin(plan: Plan, display: Display) -> "_Recorder | None":
    place = place_of_run(plan)
    try:
        layouts = list_layouts(place)
        newest = read_record(layouts[-1]) if layouts else None
        if newest is not None and newest.attempt.is_alive():
            return None
        attempt = Attempt.mine(redacted(shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])))
        anew = any(stage.starts_anew for stage in plan.stages)
        if newest is not None and newest.outcome != "done" and not anew and newest.is_of(plan.stages):
            record = _go_on(newest, plan, attempt)
        else:
            record = _new(plan, attempt)
        layout = RecordLayout(place, record.id)
        values = plan.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        storage.write_text(layout.job, job_text(values, redact_secrets=True))
        storage.write_text(layout.record, record.model_dump_json(indent=1) + "\n")
        log = RunLog(layout.log)
    except (OSError, UserError):  # the stage will say what is wrong with the place
        return None
    remember(layout)
    with suppress(OSError, UserError):
        storage.remove_file(layout.cancel)
        forget_old(place)
    return _Recorder(layout, record, log, display)


def _new(plan: Plan, attempt: Attempt) -> RunRecord:
    return RunRecord(
        id=new_id(),
        job=plan.job.name,
        job_path=plan.job_path if storage.is_remote(plan.job_path) else os.path.abspath(plan.job_path),
        folder=os.getcwd(),
        overrides=[redacted(override) for override in plan.overrides],
        max_assets=plan.max_assets,
        asked=list(plan.asked),
        beam_options=[redacted(option) for option in plan.beam_options],
        versions={name: version for name in VERSIONS if (version := _version(name))},
        stages=[_stage_record(stage) for stage in plan.stages],
        attempts=[attempt],
    )


def _go_on(record: RunRecord, plan: Plan, attempt: Attempt) -> RunRecord:
    """The record of a run that is gone on with: its times add up."""
    before = {stage.name: stage.seconds for stage in record.stages}
    stages = [_stage_record(stage, before[stage.name]) for stage in plan.stages]
    attempts = [*record.attempts, attempt]
    return _new(plan, attempt).model_copy(update={"id": record.id, "stages": stages, "attempts": attempts})


def _stage_record(stage: Stage, seconds: float = 0.0) -> StageRecord:
    return StageRecord(
        name=stage.name,
        backend=stage.backend,
        workers=stage.workers,
        command=[redacted(word) for word in stage.command],
        output=stage.output,
        fingerprint=stage.fingerprint,
        checkpoints=stage.checkpoints,
        logs=stage.logs,
        restarts=stage.restarts,
        state="complete" if stage.complete else "waiting",
        reason=stage.reason,
        seconds=seconds,
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class _Recorder(Recorder):
    """See `recording`."""

    def __init__(self, layout: RecordLayout, record: RunRecord, log: RunLog, display: Display):
        self._logged = Logged(display, log)
        super().__init__(self._logged)
        self.log = log
        self._layout, self._record = layout, record
        self._stage: StageRecord | None = None
        self._goes_on = False  # whether the work outlives its launcher
        self._began = time.monotonic()
        self._lock = threading.RLock()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def begins(self, stage: Stage) -> None:
        with self._lock:
            self._stage = next(one for one in self._record.stages if one.name == stage.name)
            self._stage.state, self._goes_on, self._began = "running", False, time.monotonic()
            self._before = self._stage.seconds
        self._write()

    def follows(self, submission: Submission) -> None:
        assert self._stage is not None
        with self._lock:
            self._stage.handle, self._stage.log_file = submission.title, submission.log_file
            self._goes_on = submission.goes_on
        if self._goes_on:
            self.display.say(f"run {self._record.id}; `beamfeed status`, `logs`, `attach` and `cancel` take that id")
        self._write()

    def ends(self, code: int, seconds: float) -> None:
        assert self._stage is not None
        with self._lock:
            self._stage.state, self._stage.code = ("failed" if code else "done"), code
            self._stage.seconds = self._before + seconds
            if code:
                self._record.why = self.log.last_line()
        self._write()

    def close(self, error: BaseException | None = None) -> None:
        """The run has ended, by this exception if by one."""
        self._done.set()
        self._thread.join(LOOK_SECONDS)
        with self._lock:
            self._end(error)
        self._write()
        with suppress(OSError, UserError):
            storage.remove_file(self._layout.cancel)
        self.log.close()

    def _end(self, error: BaseException | None) -> None:
        record, stage = self._record, self._stage
        record.attempt.ended = record.attempt.seen = datetime.now(UTC)
        if error is None:
            failed = next((one for one in record.stages if one.state == "failed" and one.name != FLOOR), None)
            record.outcome, record.code = ("failed", failed.code) if failed else ("done", 0)
            record.why = record.why if failed else ""
            return
        was_asked = isinstance(error, KeyboardInterrupt | SystemExit)
        record.outcome = "interrupted" if was_asked else "failed"
        if isinstance(error, Exception):
            failure = failure_of(error)
            record.code, record.why = failure.code, failure.message
        if self.is_cancelled:
            record.outcome = "cancelled"
        elif self._goes_on and stage is not None and stage.state == "running":
            record.outcome = "left"
        if stage is not None and stage.state == "running":
            stage.state = "left" if record.outcome == "left" else "stopped"
            stage.seconds = self._before + time.monotonic() - self._began

    def _keep(self) -> None:
        told = time.monotonic()
        while not self._done.wait(LOOK_SECONDS):
            with suppress(OSError, UserError):
                if not self.is_cancelled and storage.exists(self._layout.cancel):
                    self.is_cancelled = True
                    self.display.say(f"run {self._record.id} is cancelled")
                    os.kill(os.getpid(), signal.SIGINT)
            if time.monotonic() - told >= TOLD_SECONDS:
                told = time.monotonic()
                self._write()

    def _write(self) -> None:
        """Writes the record; one that cannot be written now is the next time."""
        with self._lock:
            record, shown, stage = self._record, self._logged.stage, self._stage
            record.attempt.seen = datetime.now(UTC)
            if stage is not None and stage.state == "running":
                stage.seconds = self._before + time.monotonic() - self._began
                step = shown.step() if shown is not None and shown.name == stage.name else None
                if shown is not None and shown.name == stage.name:
                    stage.progress = going_line(shown, step, time.monotonic()) if step else shown.phase
            text = record.model_dump_json(indent=1) + "\n"
        with suppress(OSError, UserError):
            storage.write_text(self._layout.record, text)
            self.log.save()
