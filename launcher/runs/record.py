"""The record of a run: a small JSON file beside what it makes, which tells any machine how it goes.

A run is what it takes to bring a job to its end: it may be stopped and gone on with, each time an attempt.
"""

import os
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import RUNS, RecordLayout
from beamfeed.contract.errors import printable
from beamfeed.contract.storage.lock import born
from beamfeed.launcher.stage import Stage, launch_key

ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}")
SILENT_SECONDS = 90.0  # a launcher that has said nothing for so long is taken for gone
MOST_RECORDS = 50  # records in a folder

StageState = Literal["complete", "waiting", "running", "done", "failed", "stopped", "left"]
Outcome = Literal["running", "done", "failed", "interrupted", "left", "cancelled"]


Kept = Annotated[str, AfterValidator(printable)]  # no secret is


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore")  # of a later version


class StageRecord(_Part):
    """A stage of a run: what `Stage` says of it, and how it went."""

    name: str
    backend: str
    workers: int
    command: tuple[Kept, ...]
    output: Kept
    fingerprint: str
    checkpoints: Kept = ""
    logs: Kept = ""
    restarts: int = 0
    state: StageState
    reason: Kept = Field(description="Why there was, or was not, something to do.")
    handle: str = Field(default="", description="What the work is called where it runs, such as `job 12 of Slurm`.")
    log_file: str | None = Field(default=None, description="The file that the work writes to, if another.")
    progress: str = Field(default="", description="How far it was when its launcher last said so.")
    seconds: float = Field(default=0.0, description="That it took, over all attempts.")
    code: int | None = Field(default=None, description="The exit code.")

    @classmethod
    def of(cls, stage: Stage) -> "StageRecord":
        """That of a stage which has not begun."""
        return cls(**vars(stage), state="complete" if stage.complete else "waiting")

    def stage(self, job: Job) -> Stage:
        """The stage, for its backend to find, follow or cancel."""
        launch = getattr(job.launch, launch_key(self.name))
        kept = self.model_dump(include={field.name for field in fields(Stage)})
        return Stage(**kept, complete=False, section=launch.section(self.backend), job=job)


class Attempt(_Part):
    """One launcher that worked on a run; times are UTC."""

    host: str
    namespace: str = Field(default="", description="In which that process has its number: containers have their own.")
    pid: int
    born: str = Field(description="When that process started, as its kernel counts: its number may be another's later.")
    command: Kept
    began: datetime
    seen: datetime
    ended: datetime | None = None

    @classmethod
    def mine(cls, command: str) -> "Attempt":
        """That of this process."""
        now, pid = datetime.now(UTC), os.getpid()
        return cls(
            host=socket.gethostname(),
            namespace=_namespace(),
            pid=pid,
            born=born(pid),
            command=command,
            began=now,
            seen=now,
        )

    @property
    def launcher(self) -> str:
        """Its launcher, in words."""
        return f"process {self.pid} on {self.host}"

    def is_alive(self) -> bool:
        """Whether its launcher still works on the run, as far as can be told from here."""
        if self.ended is not None:
            return False
        if self.born and (self.host, self.namespace) == (socket.gethostname(), _namespace()):
            return born(self.pid) == self.born
        return (datetime.now(UTC) - self.seen).total_seconds() < SILENT_SECONDS


class RunRecord(_Part):
    """`runs/ID.json`."""

    format: Literal[1] = 1
    id: str
    job: str = Field(description="Its name.")
    job_path: Kept
    folder: Kept = Field(description="Where it was started; relative paths are below it.")
    overrides: list[Kept]
    max_assets: int | None = None
    replace: bool = False
    refit: bool = False
    anew: bool = Field(default=False, description="Whether it does not just go on with what is there.")
    asked: list[str] = Field(description="The stages that were asked for.")
    beam_options: list[Kept] = []
    versions: dict[str, str]
    stages: list[StageRecord]
    attempts: list[Attempt]
    outcome: Outcome = "running"
    code: int | None = None
    log_dropped: int = Field(default=0, description="Bytes at the beginning of its log that are not kept any more.")
    why: str = Field(default="", description="Why it did not end well, in a line.")

    @property
    def attempt(self) -> Attempt:
        """The last one."""
        return self.attempts[-1]

    @property
    def seconds(self) -> float:
        """That its stages took, over all attempts."""
        return sum(stage.seconds for stage in self.stages)

    def text(self) -> str:
        """The file."""
        return self.model_dump_json(indent=1) + "\n"

    def current(self) -> StageRecord:
        """The stage that it is at, or ended at."""
        begun = [stage for stage in self.stages if stage.state not in ("complete", "waiting")]
        return begun[-1] if begun else self.stages[-1]

    def from_current(self) -> list[StageRecord]:
        """That stage, and those after it."""
        return self.stages[self.stages.index(self.current()) :]

    def state(self) -> str:
        """How it is, as far as the record tells: an outcome, or `lost` where its launcher is gone."""
        return "lost" if self.outcome == "running" and not self.attempt.is_alive() else self.outcome

    def is_of(self, stages: Sequence[Stage]) -> bool:
        """Whether it is these stages that it brings to their end."""
        mine = [(stage.name, os.path.abspath(stage.output), stage.fingerprint) for stage in self.stages]
        return mine == [(stage.name, printable(os.path.abspath(stage.output)), stage.fingerprint) for stage in stages]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def new_id() -> str:
    """Sorts by the time, of which its end is 15 microseconds each."""
    now = datetime.now(UTC)
    return f"{now:%Y%m%d-%H%M%S}-{(now.microsecond << 16) // 1_000_000:04x}"


def read_record(layout: RecordLayout) -> RunRecord | None:
    """The record; None where there is none, or none that can be understood."""
    try:
        return RunRecord.model_validate_json(storage.read_text(layout.record))
    except (OSError, ValueError):
        return None


def list_layouts(place: str) -> list[RecordLayout]:
    """Of the runs that were recorded beside what is at `place`, the oldest first."""
    names = storage.list_folder(storage.join(place, RUNS))
    ids = [name.removesuffix(".json") for name in names if name.endswith(".json")]
    return [RecordLayout(place, id_) for id_ in sorted(filter(ID.fullmatch, ids))]


def forget_old(place: str) -> None:
    """Removes what is kept of all but the newest runs."""
    for layout in list_layouts(place)[:-MOST_RECORDS]:
        forget(layout)


def forget(layout: RecordLayout) -> None:
    """Removes what is kept of a run, and the folders that were made for it alone."""
    for path in (layout.job, layout.log, layout.cancel, layout.record):
        storage.remove_file(path)
    if not storage.is_remote(layout.place):
        with suppress(OSError):  # they hold something else
            os.rmdir(storage.join(layout.place, RUNS))
            os.rmdir(layout.place)
