"""The few calls of Vertex AI's REST API with which a job is started, found, watched and cancelled."""

from collections.abc import Sequence
from typing import Any

from beamfeed.contract.cluster.worker_info import GPUS
from beamfeed.contract.config.duration import seconds_of
from beamfeed.launcher.backends.google import LOGIN, GoogleService
from beamfeed.launcher.backends.vertex.section import VertexSection

WORK = "beamfeed-work"  # the label that tells what a job makes
DONE = "JOB_STATE_SUCCEEDED"
ENDED = (DONE, "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED", "JOB_STATE_PARTIALLY_SUCCEEDED")
ADVICE = {
    400: "; look at launch.train.vertex",
    401: f"; {LOGIN}",
    403: "; the account needs roles/aiplatform.user, and the Vertex AI API must be enabled in the project",
    404: "; look at launch.train.vertex.project and region",
}


def custom_job(section: VertexSection, command: Sequence[str], name: str, workers: int, work: str) -> dict[str, Any]:
    """The request.

    Args:
      section: of the job file.
      command: of each worker.
      name: of the job.
      workers: machines; the first is the chief, in a pool of its own, as the service wants it.
      work: what it makes.
    """
    machine: dict[str, Any] = {"machineType": section.machine_type}
    if section.gpus is not None:
        machine |= {"acceleratorType": section.gpu_type, "acceleratorCount": section.gpus}
    container: dict[str, Any] = {"imageUri": section.image, "command": list(command)}
    if variables := {**section.env, **({GPUS: str(section.gpus)} if section.gpus else {})}:
        container["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    pool: dict[str, Any] = {"machineSpec": machine, "containerSpec": container}
    if section.disk_gb is not None:
        pool["diskSpec"] = {"bootDiskSizeGb": section.disk_gb}
    pools = [{**pool, "replicaCount": 1}]
    if workers > 1:
        pools.append({**pool, "replicaCount": workers - 1})
    # Workers that miss one cannot go on without it: all start again, from the last checkpoint.
    scheduling: dict[str, Any] = {"restartJobOnWorkerRestart": True}
    if section.timeout is not None:
        scheduling["timeout"] = f"{int(seconds_of(section.timeout))}s"
    if section.spot:
        scheduling["strategy"] = "SPOT"
    spec: dict[str, Any] = {"workerPoolSpecs": pools, "scheduling": scheduling}
    if section.service_account is not None:
        spec["serviceAccount"] = section.service_account
    if section.network is not None:
        spec["network"] = section.network
    return {"displayName": name, "labels": {**section.labels, WORK: work}, "jobSpec": spec}


def state_of(job: dict[str, Any]) -> str:
    """Such as JOB_STATE_RUNNING."""
    return str(job.get("state", "JOB_STATE_UNSPECIFIED"))


class VertexService(GoogleService):
    """Vertex AI in one project and region. Its jobs are as its documentation has CustomJob."""

    def __init__(self, project: str, region: str):
        place = f"projects/{project}/locations/{region}"
        url = f"https://{region}-aiplatform.googleapis.com/v1/{place}/customJobs"
        super().__init__("Vertex AI", place, url, ADVICE)

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Starts a job; see `custom_job`."""
        return self.call("POST", json=request)

    def get(self, job_id: str) -> dict[str, Any]:
        """A job by its id."""
        return self.call("GET", f"/{job_id}")

    def active(self, name: str) -> dict[str, Any] | None:
        """The job of this name that has not ended, the newest first; None where there is none."""
        jobs = self.listed("", "customJobs", filter=f'display_name="{name}"')
        return next((job for job in jobs if state_of(job) not in ENDED), None)

    def cancel(self, job_id: str) -> None:
        """Asks the service to end a job: its workers get SIGTERM, and save."""
        self.call("POST", f"/{job_id}:cancel")
