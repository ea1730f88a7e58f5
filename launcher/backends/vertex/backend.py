"""Trains on Vertex AI: submits a CustomJob, or finds it running, and follows it to its end."""

import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import job_text
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import USER_MISTAKE, UserError
from beamfeed.launcher.backends import remote
from beamfeed.launcher.backends.base import Backend, count_once
from beamfeed.launcher.backends.google import state_words
from beamfeed.launcher.backends.vertex.section import VertexSection
from beamfeed.launcher.backends.vertex.service import DONE, ENDED, WORK, VertexService, custom_job, state_of
from beamfeed.launcher.display import Display
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import TRAIN, Stage

NAME = "Vertex AI"
POLL_SECONDS = 10.0
CONSOLE = "https://console.cloud.google.com/vertex-ai/locations"


class VertexBackend(Backend):
    """Each worker is a machine of the service. The same command finds a job that runs by its name."""

    stages = (TRAIN,)
    section = VertexSection
    is_billed = True

    def check(self, job: Job, name: str) -> None:
        """Raises UserError if the workers could not see a path."""
        for key, path in remote.paths_of(job, TRAIN):
            if not storage.is_remote(path):
                raise UserError(f"{key}: {path} is on this machine, where Vertex AI cannot reach it; give a gs:// path")

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        job_path = RunLayout(job.train.workdir).job if job.train is not None else ""
        return remote.command_elsewhere(name, job.launch.train.section("vertex").python, arguments, job_path)

    def describe(self, stage: Stage) -> list[str]:
        request = yaml.safe_dump(_request(stage, ())["jobSpec"], sort_keys=False, width=1000)
        return [
            f"gcloud ai custom-jobs create --project={stage.section.project} --region={stage.section.region} "
            f"--display-name={_name(stage)} --config=/dev/stdin <<'END'\n{request}END"
        ]

    def resources(self, stage: Stage) -> Mapping[str, float]:
        return {stage.section.machine_type: 1}

    def submit(self, stage: Stage, display: Display) -> "VertexRun":
        if run := self.find(stage):
            remote.check_same_work(stage, run.title, run.job.get("labels", {}).get(WORK) == remote.work_of(stage))
            display.say(f"{stage.name}: {run.title} is running already; following it")
            return run
        assert stage.job is not None
        values = stage.job.model_dump(mode="json", by_alias=True, exclude_unset=True)
        storage.write_text(RunLayout(stage.output).job, job_text(values, redact_secrets=True))
        section = stage.section
        service = VertexService(section.project, section.region)
        with remote.answered(NAME, "; the job may have started: run the same command again, which follows it then"):
            run = VertexRun(stage, service, service.create(_request(stage, count_once(stage))))
        link = f"{CONSOLE}/{section.region}/training/{run.id}?project={section.project}"
        display.say(f"{stage.name}: {run.title}, {link}")
        return run

    def find(self, stage: Stage) -> "VertexRun | None":
        service = VertexService(stage.section.project, stage.section.region)
        with remote.answered(NAME):
            job = service.active(_name(stage))
        return None if job is None else VertexRun(stage, service, job)


class VertexRun(remote.RemoteRun):
    """A job of the service.

    Args:
      stage: what it makes.
      service: that it runs on.
      job: as it was seen last.
    """

    def __init__(self, stage: Stage, service: VertexService, job: dict[str, Any]):
        super().__init__(stage)
        self._service, self.job, self.id = service, job, job["name"].rpartition("/")[2]
        self.title = f"job {self.id} of Vertex AI"

    def follow(self, progress: StageProgress, display: Display) -> int:
        while state_of(self.job) not in ENDED:
            progress.phase = self.state()
            display.show(progress)
            time.sleep(POLL_SECONDS)
            self.job = remote.ask_patiently(NAME, lambda: self._service.get(self.id), self._say, POLL_SECONDS)
        return self._judge(state_of(self.job), self.job.get("error", {}).get("message", ""))

    def _judge(self, state: str, error: str) -> int:
        """The exit code of a job that has ended."""
        if state == DONE:
            return 0
        if state != "JOB_STATE_FAILED":
            self._say(f"{self.title} was {state_words(state)} before it was done; run the same command to go on")
            return 1
        self._say(error or f"{self.title} failed, and the service does not say why")
        status = re.search(r"non-zero status of (\d+)", error)
        if status and int(status[1]) >= 128:
            self._say("something ended its workers; run the same command to go on")
        return USER_MISTAKE if status and int(status[1]) == USER_MISTAKE else 1

    def cancel(self) -> None:
        with remote.answered(NAME):
            self._service.cancel(self.id)
        self._say(f"{self.title} is asked to stop")

    def state(self) -> str:
        return f"{self.title} is {state_words(state_of(self.job))}"


def _name(stage: Stage) -> str:
    return remote.job_name(stage.output)


def _request(stage: Stage, more: Sequence[str]) -> dict[str, Any]:
    return custom_job(stage.section, (*stage.command, *more), _name(stage), stage.workers, remote.work_of(stage))
