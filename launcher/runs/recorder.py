"""Keeps the record of a run up to date while a launcher works on it, and hears whether it is to be cancelled."""

import ctypes
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib import metadata

from beamfeed.contract import storage
from beamfeed.contract.config.load import job_text
from beamfeed.contract.dataset.layout import RecordLayout
from beamfeed.contract.errors import Unanswered, UserError, failure_of, printable
from beamfeed.launcher.backends.base import Submission
from beamfeed.launcher.backends.local.backend import this_worker
from beamfeed.launcher.display import Display
from beamfeed.launcher.display.copied import copying_stderr
from beamfeed.launcher.display.words import going_line
from beamfeed.launcher.plan import Plan
from beamfeed.launcher.runs.find import Run, remember
from beamfeed.launcher.runs.log import Logged, RunLog
from beamfeed.launcher.runs.record import (
    Attempt,
    RunRecord,
    StageRecord,
    forget,
    forget_old,
    list_layouts,
    new_id,
    read_record,
)
from beamfeed.launcher.stage import FLOOR, TRAIN, Stage

LOOK_SECONDS = 3.0  # between looks for a request to cancel
RECORD_SECONDS = 20.0  # between records of how far it is
CLOSE_SECONDS = 10.0  # for the last record: storage that does not answer holds nobody up
INTERRUPTED = 130
VERSIONS = ("beamfeed", "apache-beam", "tensorflow", "keras", "tensorflow-transform", "pyarrow", "numpy")


class Recorder:
    """What `run_plan` tells of a run while it goes on. This one keeps nothing.

    Attributes:
      display: shows the run.
      is_cancelled: whether somebody asked for its end.
      still_runs: whether the work outlives the launcher as it ends; what `run_stage` knows best.
    """

    is_cancelled = False
    still_runs = False

    def __init__(self, display: Display):
        self.display = display

    def begins(self, stage: Stage) -> None:
        """A stage begins."""

    def follows(self, submission: Submission) -> None:
        """A backend has taken it on."""

    def is_chained(self, stage: Stage, submission: Submission) -> None:
        """A later stage waits where the backend runs it."""

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
    recorder: _Recorder | None = None
    with suppress(Exception):  # the stage will say what is wrong with the place; no record is worth a run
        recorder = _begin(plan, display)
    if recorder is None:
        yield Recorder(display)
        return
    with _kept_by(recorder):
        yield recorder


@contextmanager
def going_on(run: Run, display: Display) -> Iterator[Recorder]:
    """As `recording`, of a run whose work goes on elsewhere, and which is followed from here on."""
    record = run.record
    record.attempts.append(_attempt())
    record.outcome = "running"
    recorder = _Recorder(run.layout, record, RunLog(run.layout.log, record.log_dropped), display)
    with _kept_by(recorder):
        yield recorder


@contextmanager
def _kept_by(recorder: "_Recorder") -> Iterator[None]:
    try:
        with copying_stderr(recorder.log.write):
            yield
    except BaseException as error:
        recorder.close(error)
        raise
    recorder.close()


def _begin(plan: Plan, display: Display) -> "_Recorder | None":
    if not this_worker(strict=False).is_chief:  # one of several that are started each by itself
        return None
    asked_to_train = any(stage.name == TRAIN for stage in plan.stages)
    place = plan.job.train.workdir if asked_to_train and plan.job.train else plan.job.output.path
    layouts = list_layouts(place)
    try:
        newest = read_record(layouts[-1]) if layouts else None
    except Unanswered:
        newest = None  # better a run with a record of its own than one with none
    if newest is not None and newest.attempt.is_alive():
        return None
    anew = any(stage.starts_anew for stage in plan.stages)
    if newest is not None and (newest.outcome == "done" or anew or not newest.is_of(plan.stages)):
        newest = None  # it is another run
    if all(stage.complete for stage in plan.stages):
        if newest is not None:  # while nobody followed it, it was done
            newest.outcome, newest.code, newest.why = "done", 0, ""
            storage.write_text(layouts[-1].record, newest.text())
        return None
    record = _new(plan)
    if newest is not None:
        _add_times(record, newest)
    layout = RecordLayout(place, record.id)
    values = plan.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
    # The folder is to belong to the user of the pods, who writes most of what is in it.
    waits = not storage.is_remote(place) and not os.path.isdir(place) and any(map(_has_other_user, plan.stages))
    log = RunLog(layout.log, record.log_dropped, place if waits else None)
    kept = () if newest is None else filter(storage.exists, (layout.job, layout.record))
    before = {path: storage.read_text(path) for path in kept}
    recorder = _Recorder(layout, record, log, display, job_text(values, redact_secrets=True), before)
    remember(layout)
    return recorder


def _has_other_user(stage: Stage) -> bool:
    return not stage.complete and getattr(stage.section, "user", os.getuid()) != os.getuid()


def _attempt() -> Attempt:
    program = os.path.basename((sys.argv or [""])[0])
    by_command = program in ("beamfeed", "cli.py")  # of another program, the arguments are its own matter
    return Attempt.mine(shlex.join(["beamfeed", *sys.argv[1:]]) if by_command else "Python")


def _new(plan: Plan) -> RunRecord:
    return RunRecord(
        id=new_id(),
        job=plan.job.name,
        job_path=storage.absolute(plan.job_path),
        folder=os.getcwd(),
        overrides=list(plan.overrides),
        max_assets=plan.max_assets,
        replace=plan.replace,
        refit=plan.refit,
        anew=any(stage.starts_anew for stage in plan.stages),
        asked=list(plan.requested),
        beam_options=list(plan.beam_options),
        versions={name: version for name in VERSIONS if (version := _version(name))},
        stages=list(map(StageRecord.of, plan.stages)),
        attempts=[_attempt()],
    )


def _add_times(record: RunRecord, before: RunRecord) -> None:
    """Makes of a record that of an earlier run, which is gone on with."""
    record.id, record.log_dropped = before.id, before.log_dropped
    record.attempts = [*before.attempts, *record.attempts]
    for stage, earlier in zip(record.stages, before.stages, strict=True):
        stage.seconds = earlier.seconds


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class _Recorder(Recorder):
    """See `recording`. All is written by one thread: storage that is slow holds up neither the run nor its order."""

    def __init__(
        self,
        layout: RecordLayout,
        record: RunRecord,
        log: RunLog,
        display: Display,
        job: str | None = None,
        before: Mapping[str, str] | None = None,
    ):
        self._logged = Logged(display, log)
        super().__init__(self._logged)
        self.log = log
        self._layout, self._record, self._job = layout, record, job
        self._stage: StageRecord | None = None
        self._before, self._began = 0.0, time.monotonic()  # of the stage
        self._lock = threading.RLock()
        self._news = threading.Event()
        self._done = False
        self._is_kept = False  # what was refused before it began is no run, and no attempt at one
        self._as_before = before or {}  # the files of the run that it would have gone on with
        self._runs_in = threading.get_ident()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._news.set()
        self._thread.start()

    def begins(self, stage: Stage) -> None:
        with self._lock:
            self._stage = next(entry for entry in self._record.stages if entry.name == stage.name)
            self._stage.state = "running"
            self._before, self._began = self._stage.seconds, time.monotonic()
        self._news.set()

    def follows(self, submission: Submission) -> None:
        assert self._stage is not None
        with self._lock:
            self._stage.handle, self._stage.log_file = submission.title, submission.log_file
        was_kept, self._is_kept = self._is_kept, True
        if submission.goes_on and not was_kept:
            self.display.say(f"run {self._record.id}; `beamfeed status`, `logs`, `attach` and `cancel` take that id")
        self._news.set()

    def is_chained(self, stage: Stage, submission: Submission) -> None:
        with self._lock:
            later = next(entry for entry in self._record.stages if entry.name == stage.name)
            later.handle, later.log_file = submission.title, submission.log_file

    def ends(self, code: int, seconds: float) -> None:
        assert self._stage is not None
        with self._lock:
            self._stage.state, self._stage.code = ("failed" if code else "done"), code
            self._stage.seconds = self._before + seconds
            if code:
                self._record.why = printable(self.log.last_line())
        self._news.set()

    def close(self, error: BaseException | None = None) -> None:
        """The run has ended, by this exception if by one."""
        try:
            self._end(error)
        except KeyboardInterrupt:  # which comes just now; the run has ended all the same
            self._end(error)
            raise
        finally:
            self._news.set()
            self._thread.join(CLOSE_SECONDS)

    def _end(self, error: BaseException | None) -> None:
        with self._lock:
            self._is_kept = self._is_kept or not isinstance(error, UserError)
            self._say_how_it_ended(error)
            self._done = True  # from here on nobody cancels it, and it is written a last time

    def _say_how_it_ended(self, error: BaseException | None) -> None:
        record, stage = self._record, self._stage
        record.attempt.ended = record.attempt.seen = datetime.now(UTC)
        if stage is not None and stage.state == "running":
            stage.state = "left" if self.still_runs else "stopped"
            stage.seconds = self._before + time.monotonic() - self._began
        failed = next((stage for stage in record.stages if stage.state == "failed" and stage.name != FLOOR), None)
        if failed:
            record.outcome, record.code = "failed", failed.code
        elif error is None and all(stage.state in ("done", "complete", "failed") for stage in record.stages):
            record.outcome, record.code, record.why = "done", 0, ""
        elif self.still_runs:
            record.outcome, record.code, record.why = "left", None, ""
        elif self.is_cancelled or isinstance(error, KeyboardInterrupt | SystemExit | None):
            record.outcome, record.why = ("cancelled" if self.is_cancelled else "interrupted"), ""
            ended_by = error.code if isinstance(error, SystemExit) else None
            record.code = ended_by if isinstance(ended_by, int) else INTERRUPTED
        elif isinstance(error, Exception):
            failure = failure_of(error)
            record.outcome, record.code, record.why = "failed", failure.code, printable(failure.message)

    def _keep(self) -> None:
        """Writes what is new, and looks whether the run is to be cancelled, until it has ended."""
        with suppress(Exception):
            storage.remove_file(self._layout.cancel)  # it was for a launcher before this one
            if self._job is not None:
                forget_old(self._layout.place)
        written = 0.0
        while True:
            news = self._news.wait(LOOK_SECONDS)
            self._news.clear()
            done = self._done
            if news or done or time.monotonic() - written >= RECORD_SECONDS:
                written = time.monotonic()
                self._write()
            with suppress(Exception):
                if done and not self._is_kept and self._as_before:
                    for path, text in self._as_before.items():
                        storage.write_text(path, text)
                elif done and not self._is_kept:
                    forget(self._layout)
                elif done:
                    storage.remove_file(self._layout.cancel)
                elif not self.is_cancelled and storage.exists(self._layout.cancel):
                    self._cancel()
            if done:
                self.log.close()
                return

    def _cancel(self) -> None:
        with self._lock:
            stage = self._logged.stage
            if self._done or (stage is not None and stage.phase == "stopping"):  # a second time, it would not save
                return
            self.is_cancelled = True
            self.display.say(f"run {self._record.id} is cancelled")
            # As Ctrl-C does it, but in this run's own thread; whoever waits there, wakes every few seconds.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._runs_in), ctypes.py_object(KeyboardInterrupt)
            )

    def _write(self) -> None:
        """Writes log and record; what cannot be written now is the next time."""
        with suppress(Exception):
            self.log.save()  # first: who sees that the run has ended finds its last lines
        with suppress(Exception):
            if self.log.waits():
                return
            with self._lock:
                record, stage = self._record, self._stage
                record.attempt.seen, record.log_dropped = datetime.now(UTC), self.log.dropped
                if stage is not None and stage.state == "running":
                    stage.seconds = self._before + time.monotonic() - self._began
                    with suppress(Exception):  # another thread adds to it
                        stage.progress = self._progress(stage.name)
                text = record.text()
            if self._job is not None:
                storage.write_text(self._layout.job, self._job)
                self._job = None
            storage.write_text(self._layout.record, text)

    def _progress(self, name: str) -> str:
        shown = self._logged.stage
        if shown is None or shown.name != name:
            return ""
        step = shown.step()
        return going_line(shown, step, time.monotonic()) if step and not shown.phase else shown.phase
