"""Trains on Vertex AI: submits a CustomJob, or finds it running, and follows it to its end."""

import re
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import yaml

from beamfeed.contract import options, storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import job_text
from beamfeed.contract.config.section import Section
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import USER_MISTAKE, UserError
from beamfeed.launcher.backends.base import Backend, Submission
from beamfeed.launcher.backends.remote import Patience, job_name, work_of
from beamfeed.launcher.backends.vertex.request import custom_job
from beamfeed.launcher.backends.vertex.section import VertexSection
from beamfeed.launcher.backends.vertex.service import DONE, ENDED, Unreachable, VertexJob, VertexService
from beamfeed.launcher.display import Display, Lines
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import TRAIN, Stage

T = TypeVar("T")
POLL_SECONDS = 10.0
CONSOLE = "https://console.cloud.google.com/vertex-ai/locations"


class VertexBackend(Backend):
    """Each worker is a machine of the service. The same command finds a job that runs by its name."""

    stages: ClassVar[tuple[str, ...]] = (TRAIN,)
    section: ClassVar[type[Section] | None] = VertexSection
    is_billed: ClassVar[bool] = True

    def check(self, job: Job, name: str) -> None:
        """Raises UserError if the workers could not see a path."""
        paths = [("output.path", job.output.path)]
        paths += [("train.workdir", job.train.workdir)] if job.train is not None else []
        for key, path in paths:
            if not storage.is_remote(path):
                raise UserError(f"{key}: {path} is on this machine, where Vertex AI cannot reach it; give a gs:// path")

    def command(self, name: str, job: Job, arguments: Sequence[str], fingerprint: str) -> tuple[str, ...]:
        section = _section(job.launch.train.section("vertex"))
        parsed = vars(options.TRAIN.parse(arguments or ("--job", "")))
        job_path = RunLayout(job.train.workdir).job if job.train is not None else ""
        parsed |= {"job": job_path, "set": []}  # which are in that file
        return (section.python, "-m", options.TRAIN.module, *options.TRAIN.arguments(parsed))

    def describe(self, stage: Stage) -> list[str]:
        request = yaml.safe_dump(_camel(_request(stage, ())["job_spec"]), sort_keys=False, width=1000)
        section = _section(stage.section)
        return [
            f"gcloud ai custom-jobs create --project={section.project} --region={section.region} "
            f"--display-name={_name(stage)} --config=/dev/stdin <<'END'\n{request}END"
        ]

    def resources(self, stage: Stage) -> Mapping[str, float]:
        return {_section(stage.section).machine_type: 1}

    def submit(self, stage: Stage, display: Display) -> "VertexRun":
        service = _service(stage)
        job = _ask(lambda: service.active(_name(stage)))
        if job is not None and (stage.starts_anew or job.work != work_of(stage)):
            raise UserError(
                f"{stage.output}: job {job.id} of Vertex AI is writing there with other input, settings or options; "
                "wait for it, choose another folder, or stop it with `beamfeed cancel`"
            )
        if job is not None:
            display.say(f"{stage.name}: job {job.id} of Vertex AI is running already; following it")
            return VertexRun(stage, service, job, display)
        more = options.ONCE.write(uuid.uuid4().hex) if stage.starts_anew and not stage.once else []
        assert stage.job is not None
        values = stage.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        storage.write_text(RunLayout(stage.output).job, job_text(values, redact_secrets=True))
        job = _ask(lambda: service.create(_request(stage, more)))
        section = _section(stage.section)
        link = f"{CONSOLE}/{section.region}/training/{job.id}?project={section.project}"
        display.say(f"{stage.name}: job {job.id} of Vertex AI, {link}")
        return VertexRun(stage, service, job, display)

    def find(self, stage: Stage) -> "VertexRun | None":
        service = _service(stage)
        job = _ask(lambda: service.active(_name(stage)))
        return None if job is None else VertexRun(stage, service, job, Lines())


class VertexRun(Submission):
    """A job of the service.

    Args:
      stage: what it makes.
      service: that it runs on.
      job: as it was seen last.
      display: shows it.
    """

    goes_on = True

    def __init__(self, stage: Stage, service: VertexService, job: VertexJob, display: Display):
        self._stage, self._service, self._job, self._display = stage, service, job, display
        self.title = f"job {job.id} of Vertex AI"

    def follow(self, progress: StageProgress) -> int:
        patience = Patience("Vertex AI", self._say)
        while self._job.state not in ENDED:
            progress.phase = f"{self.title} is {self._job.words}"
            self._display.show(progress)
            time.sleep(POLL_SECONDS)
            try:
                self._job = self._service.get(self._job.name)
            except Unreachable as error:
                patience.wait(error)
                continue
            patience.answered()
        return self._judge(self._job)

    def _judge(self, job: VertexJob) -> int:
        """The exit code of a job that has ended."""
        if job.state == DONE:
            return 0
        if job.state != "JOB_STATE_FAILED":
            self._say(f"{self.title} was {job.words} before it was done; run the same command to go on")
            return 1
        self._say(job.error or f"{self.title} failed, and the service does not say why")
        status = re.search(r"non-zero status of (\d+)", job.error)
        if status and int(status[1]) >= 128:
            self._say("something ended its workers; run the same command to go on")
        return USER_MISTAKE if status and int(status[1]) == USER_MISTAKE else 1

    def leave(self) -> None:
        self._say(f"{self.title} goes on; run the same command again to follow it, or stop it with `beamfeed cancel`")

    def cancel(self) -> None:
        _ask(lambda: self._service.cancel(self._job.name))
        self._say(f"{self.title} is asked to stop")

    def state(self) -> str:
        return f"{self.title} is {self._job.words}"

    def _say(self, line: str) -> None:
        print(f"{self._stage.name}: {line}", file=sys.stderr, flush=True)


def _section(section: object) -> VertexSection:
    assert isinstance(section, VertexSection)
    return section


def _service(stage: Stage) -> VertexService:
    section = _section(stage.section)
    return VertexService(section.project, section.region)


def _name(stage: Stage) -> str:
    return job_name(stage.output)


def _request(stage: Stage, more: Sequence[str]) -> dict[str, Any]:
    return custom_job(_section(stage.section), (*stage.command, *more), _name(stage), stage.workers, work_of(stage))


def _camel(value: Any) -> Any:
    """A request as gcloud's file has it: workerPoolSpecs for worker_pool_specs."""
    if isinstance(value, list):
        return [_camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"seconds"}:
        return f"{value['seconds']}s"
    return {re.sub(r"_(.)", lambda match: match[1].upper(), key): _camel(item) for key, item in value.items()}


def _ask(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except Unreachable as error:
        raise UserError(f"Vertex AI does not answer: {error}") from None
