"""Prepares the data on Dataflow: submits the job, or finds it running, and follows it to its end."""

import os
import shlex
import sys
import tempfile

from beamfeed.contract.dataset.manifest import read_complete
from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends.dataflow.api import DataflowService, Unreachable
from beamfeed.launcher.backends.dataflow.follow import DONE, FAILED, failure, follow, state_words
from beamfeed.launcher.backends.dataflow.options import data_label, option
from beamfeed.launcher.backends.local.processes import Process, run_together
from beamfeed.launcher.plan import Stage

CONSOLE = "https://console.cloud.google.com/dataflow/jobs"


class DataflowBackend:
    """The job belongs to the cloud: it outlives this process, and the same command finds it again by its name."""

    def describe(self, stage: Stage) -> list[str]:
        return [shlex.join(stage.command)]

    def run(self, stage: Stage) -> int:
        service = DataflowService(stage.command)
        name = option(stage.command, "job_name") or ""
        job_id = _active_job(service, name, stage)
        if job_id is not None:
            _say(stage, f"job {name} is in the cloud already, following it")
        else:
            code, job_id = _submit(stage)
            if code:
                # Another launcher may have been faster: the service refuses a second job of the name.
                job_id = _active_job(service, name, stage)
                if job_id is None:
                    return code
                _say(stage, f"job {name} was submitted by somebody else, following it")
        if job_id is None:  # the data set was published in the meantime
            return 0
        _say(stage, f"job {job_id}, {CONSOLE}/{service.region}/{job_id}?project={service.project}")
        try:
            state, messages = follow(service, job_id, lambda line: _say(stage, line))
        except (KeyboardInterrupt, SystemExit, UserError):
            _say(stage, "the job goes on in the cloud; run the same command again to follow it, or stop it with")
            _say(stage, f"  {_cancel(service, job_id)}")
            raise
        if state == FAILED:
            _say(stage, failure(messages))
        elif state != DONE:
            _say(stage, f"the job was {state_words(state)} before it was done; run the same command to start again")
        elif read_complete(stage.output, stage.fingerprint) is None:
            _say(stage, f"the job ended, but {stage.output} holds no data set of this job; its input may have changed")
        else:
            return 0
        return 1


def _active_job(service: DataflowService, name: str, stage: Stage) -> str | None:
    """The job that is making the data set of this stage.

    Raises:
      UserError: if a job is making another one in the same place.
    """
    try:
        job_id = service.active_job(name)
        labels = service.labels(job_id) if job_id is not None else {}
    except Unreachable as error:
        raise UserError(f"Dataflow does not answer: {error}; nothing was submitted") from None
    key, value = data_label(stage.fingerprint)
    if job_id is not None and labels.get(key, value) != value:
        raise UserError(
            f"output.path: job {job_id} is preparing {stage.output} from another input or with other settings; "
            f"wait for it, give another folder, or stop it with `{_cancel(service, job_id)}`"
        )
    return job_id


def _cancel(service: DataflowService, job_id: str) -> str:
    return f"gcloud dataflow jobs cancel {job_id} --region={service.region} --project={service.project}"


def _submit(stage: Stage) -> tuple[int, str | None]:
    """Builds and submits the pipeline in a process of its own, which loads Beam; its exit code and the job's id."""
    with tempfile.TemporaryDirectory(prefix="beamfeed-submit-") as folder:
        path = os.path.join(folder, "job-id")
        variables = {"TF_CPP_MIN_LOG_LEVEL": "2", "BEAMFEED_JOB_ID_FILE": path}
        try:
            code = run_together(stage.name, [Process(stage.command, variables)])
        except (KeyboardInterrupt, SystemExit):
            _say(stage, "stopped while submitting; if the job did start, the same command follows it")
            raise
        if not os.path.exists(path):
            return code, None
        with open(path, encoding="utf-8") as file:
            return code, file.read()


def _say(stage: Stage, line: str) -> None:
    print(f"{stage.name}: {line}", file=sys.stderr, flush=True)
