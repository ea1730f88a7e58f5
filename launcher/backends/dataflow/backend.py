"""Preprocesses on Dataflow: submits the job, or finds it running, and follows it to its end."""

import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence

from beamfeed.contract import options
from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.base import Backend
from beamfeed.launcher.backends.dataflow.api import DataflowService
from beamfeed.launcher.backends.dataflow.follow import DONE, FAILED, failure, follow
from beamfeed.launcher.backends.dataflow.section import DataflowSection
from beamfeed.launcher.backends.google import state_words
from beamfeed.launcher.backends.remote import RemoteRun, answered, check_paths, flags, job_name, option
from beamfeed.launcher.display import Display
from beamfeed.launcher.processes import Process, run_together
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import PREPROCESS, Stage

STANDARD_GB = 4.0
GB_PER_CORE = {"highmem": 8.0, "highcpu": 1.0}  # of the second word of a machine's type
CONSOLE = "https://console.cloud.google.com/dataflow/jobs"
DATA_LABEL = "beamfeed-data"  # which dataset a job makes


def beam_options(section: DataflowSection, name: str, *, own_code: bool) -> list[str]:
    """The options of a submission; keys left out of the job file are left to the service.

    Args:
      section: of the job file.
      name: of the job.
      own_code: whether workers run code of the user's own, which may need TensorFlow.
    """
    own: dict[str, bool | int | str | list[str] | None] = {
        "runner": "DataflowRunner",
        "project": section.project,
        "region": section.region,
        "job_name": name,
        "temp_location": section.temp_location,
        "staging_location": section.staging_location,
        "sdk_container_image": section.image if own_code else section.worker_image or section.image,
        "worker_machine_type": section.machine_type,
        "disk_size_gb": section.disk_gb,
        "num_workers": section.workers,
        "max_num_workers": section.max_workers,
        "service_account_email": section.service_account,
        "network": section.network,
        "subnetwork": section.subnetwork,
        "resource_hint": None if section.min_ram_gb is None else f"min_ram={section.min_ram_gb:g}GB",
        "use_public_ips": section.public_ips is True,
        "no_use_public_ips": section.public_ips is False,
        "label": [f"{key}={value}" for key, value in section.labels.items()],
    }
    return [*flags(own), *flags(section.options)]


class DataflowBackend(Backend):
    """The job belongs to the cloud: it outlives this process, and the same command finds it again by its name."""

    stages = (PREPROCESS,)
    section = DataflowSection
    is_billed = True

    def check(self, job: Job, name: str) -> None:
        check_paths(job, "Dataflow's workers")

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        section = job.launch.preprocess.section("dataflow")
        of_beam = beam_options(section, job_name(job.output.path), own_code=bool(job.own_code))
        return (sys.executable, "-m", options.SUBMIT.module, *arguments, *of_beam)

    def describe(self, stage: Stage) -> list[str]:
        return [shlex.join(_submission(stage))]

    def resources(self, stage: Stage) -> Mapping[str, float]:
        family = (stage.section.machine_type or "").partition("-")[2].partition("-")[0]
        return {"core": 1, "gb": GB_PER_CORE.get(family, STANDARD_GB)}

    def submit(self, stage: Stage, display: Display) -> "DataflowRun":
        service, name = DataflowService(stage.command), option(stage.command, "job_name") or ""
        job_id, code = _active_job(service, name, stage), 0
        if job_id is not None:
            display.say(f"{stage.name}: job {name} is already running; following it")
        else:
            code, job_id = _submit(stage, display)
            if code:
                # Another launcher may have been faster: the service refuses a second job of the name.
                job_id = _active_job(service, name, stage)
                if job_id is not None:
                    display.say(f"{stage.name}: job {name} was submitted elsewhere, following it")
        return DataflowRun(stage, service, job_id, code)

    def find(self, stage: Stage) -> "DataflowRun | None":
        service = DataflowService(stage.command)
        with answered("Dataflow"):
            job_id = service.active_job(option(stage.command, "job_name") or "")
        return None if job_id is None else DataflowRun(stage, service, job_id)


class DataflowRun(RemoteRun):
    """A job of the service.

    Args:
      stage: what it makes.
      service: that it runs on.
      job_id: its id; None where none was started.
      code: the exit code where none was started: 0 if the dataset was published in the meantime.
    """

    def __init__(self, stage: Stage, service: DataflowService, job_id: str | None, code: int = 0):
        super().__init__(stage)
        self._service, self._job_id, self._code = service, job_id, code
        self.title, self.goes_on = f"job {job_id} of Dataflow" if job_id else "", job_id is not None

    def follow(self, progress: StageProgress, display: Display) -> int:
        stage, service = self._stage, self._service
        if self._job_id is None:
            return self._code
        progress.phase = "running on Dataflow"
        link = f"{CONSOLE}/{service.region}/{self._job_id}?project={service.project}"
        display.say(f"{stage.name}: job {self._job_id}, {link}")
        state, messages = follow(service, self._job_id, lambda line: display.say(f"{stage.name}: {line}"))
        if state == FAILED:
            why = failure(messages)
            self._say(why.message)
            return why.code
        if state == DONE:
            return self._check_published("its input may have changed")
        self._say(f"the job was {state_words(state)} before it was done; run the same command to start again")
        return 1

    def leave(self) -> None:
        if self._job_id is not None:
            self._say("the job keeps running in the cloud; run the same command again to follow it, or stop it with")
            self._say(f"  {_cancel_command(self._service, self._job_id)}")

    def state(self) -> str:
        assert self._job_id is not None
        with answered("Dataflow"):
            return f"{self.title} is {state_words(self._service.state(self._job_id))}"

    def cancel(self) -> None:
        if self._job_id is not None:
            with answered("Dataflow", f"; job {self._job_id} may still run"):
                self._service.cancel(self._job_id)
            self._say(f"job {self._job_id} is asked to stop")


def _active_job(service: DataflowService, name: str, stage: Stage) -> str | None:
    """The job that is making the dataset of this stage.

    Raises:
      UserError: if a job is making another one in the same place.
    """
    with answered("Dataflow", "; nothing was submitted"):
        job_id = service.active_job(name)
        labels = service.labels(job_id) if job_id is not None else {}
    data = stage.fingerprint[:16]
    if job_id is not None and labels.get(DATA_LABEL, data) != data:
        raise UserError(
            f"output.path: job {job_id} is preprocessing into {stage.output} with other input or settings; "
            f"wait for it, choose another folder, or stop it with `{_cancel_command(service, job_id)}`"
        )
    return job_id


def _cancel_command(service: DataflowService, job_id: str) -> str:
    return f"gcloud dataflow jobs cancel {job_id} --region={service.region} --project={service.project}"


def _submission(stage: Stage) -> tuple[str, ...]:
    """The command that submits a job; its label tells others of which dataset it is."""
    return (*stage.command, f"--label={DATA_LABEL}={stage.fingerprint[:16]}")


def _submit(stage: Stage, display: Display) -> tuple[int, str | None]:
    """Builds and submits the pipeline in a fresh process, which loads Beam; its exit code and the job's id."""
    with tempfile.TemporaryDirectory(prefix="beamfeed-submit-") as folder:
        path = os.path.join(folder, "job-id")
        variables = {"TF_CPP_MIN_LOG_LEVEL": "2", "BEAMFEED_JOB_ID_FILE": path}
        try:
            code = run_together(stage.name, [Process(_submission(stage), variables)], output=display.output())
        except (KeyboardInterrupt, SystemExit):
            line = "stopped while submitting; if the job did start, the same command follows it"
            print(f"{stage.name}: {line}", file=sys.stderr, flush=True)
            raise
        if not os.path.exists(path):
            return code, None
        with open(path, encoding="utf-8") as file:
            return code, file.read()
