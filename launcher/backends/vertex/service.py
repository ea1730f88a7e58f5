"""The few calls of Vertex AI, by Google's client, with which a job is started, found, watched and cancelled."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from beamfeed.contract.config.duration import seconds_of
from beamfeed.contract.errors import UserError, first_line
from beamfeed.launcher.backends.remote import Unreachable, is_temporary
from beamfeed.launcher.backends.vertex.section import VertexSection

TIMEOUT_SECONDS = 60.0
WORK = "beamfeed-work"  # the label that tells what a job makes
DONE = "JOB_STATE_SUCCEEDED"
ENDED = (DONE, "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED", "JOB_STATE_PARTIALLY_SUCCEEDED")
ADVICE = {
    400: "; look at launch.train.vertex",
    401: "; run `gcloud auth application-default login`",
    403: "; the account needs roles/aiplatform.user, and the Vertex AI API must be enabled in the project",
    404: "; look at launch.train.vertex.project and region",
}


def custom_job(section: VertexSection, command: Sequence[str], name: str, workers: int, work: str) -> dict[str, Any]:
    """The request, by the field names of `google.cloud.aiplatform_v1.CustomJob`.

    Args:
      section: of the job file.
      command: of each worker.
      name: of the job.
      workers: machines; the first is the chief, in a pool of its own, as the service wants it.
      work: what it makes.
    """
    machine: dict[str, Any] = {"machine_type": section.machine_type}
    if section.gpus is not None:
        machine |= {"accelerator_type": section.gpu_type, "accelerator_count": section.gpus}
    container: dict[str, Any] = {"image_uri": section.image, "command": list(command)}
    if section.env:
        container["env"] = [{"name": key, "value": value} for key, value in section.env.items()]
    pool: dict[str, Any] = {"machine_spec": machine, "container_spec": container}
    if section.disk_gb is not None:
        pool["disk_spec"] = {"boot_disk_size_gb": section.disk_gb}
    pools = [{**pool, "replica_count": 1}]
    if workers > 1:
        pools.append({**pool, "replica_count": workers - 1})
    # Workers that miss one cannot go on without it: all start again, from the last checkpoint.
    scheduling: dict[str, Any] = {"restart_job_on_worker_restart": True}
    if section.timeout is not None:
        scheduling["timeout"] = {"seconds": int(seconds_of(section.timeout))}
    if section.spot:
        scheduling["strategy"] = "SPOT"
    spec: dict[str, Any] = {"worker_pool_specs": pools, "scheduling": scheduling}
    if section.service_account is not None:
        spec["service_account"] = section.service_account
    if section.network is not None:
        spec["network"] = section.network
    return {"display_name": name, "labels": {**section.labels, WORK: work}, "job_spec": spec}


class VertexService:
    """Vertex AI in one project and region. Its jobs are such as `google.cloud.aiplatform_v1.CustomJob`.

    Every method raises Unreachable where trying again may help, and UserError where it does not.
    """

    def __init__(self, project: str, region: str):
        from google.auth.exceptions import GoogleAuthError
        from google.cloud.aiplatform_v1 import JobServiceClient

        self._parent = f"projects/{project}/locations/{region}"
        host = f"{region}-aiplatform.googleapis.com"
        try:
            self._client = JobServiceClient(transport="rest", client_options={"api_endpoint": host})
        except GoogleAuthError as error:
            raise UserError(
                f"Vertex AI: {first_line(error)}; run `gcloud auth application-default login`, "
                "or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
            ) from None

    def create(self, request: dict[str, Any]) -> Any:
        """Starts a job; see `custom_job`."""
        from google.cloud.aiplatform_v1 import CustomJob

        job = CustomJob(request)
        with self._answered():
            return self._client.create_custom_job(parent=self._parent, custom_job=job, timeout=TIMEOUT_SECONDS)

    def get(self, name: str) -> Any:
        """A job by its name."""
        with self._answered():
            return self._client.get_custom_job(name=name, timeout=TIMEOUT_SECONDS)

    def active(self, display_name: str) -> Any:
        """The job of this display name that has not ended, the newest first; None where there is none."""
        request = {"parent": self._parent, "filter": f'display_name="{display_name}"'}
        with self._answered():
            jobs = self._client.list_custom_jobs(request=request, timeout=TIMEOUT_SECONDS)
            return next((job for job in jobs if job.state.name not in ENDED), None)

    def cancel(self, name: str) -> None:
        """Asks the service to end a job: its workers get SIGTERM, and save."""
        with self._answered():
            self._client.cancel_custom_job(name=name, timeout=TIMEOUT_SECONDS)

    @contextmanager
    def _answered(self) -> Iterator[None]:
        from google.api_core.exceptions import GoogleAPICallError, RetryError
        from google.auth.exceptions import GoogleAuthError, TransportError
        from requests.exceptions import RequestException

        try:
            yield
        except GoogleAPICallError as error:
            code = int(error.code or 500)
            message = re.sub(r"^[A-Z]+ https?://\S+: ", "", str(error.message))  # the client names its request
            reason = f"{code} {' '.join(message.split())[:300]}"
            if is_temporary(code):
                raise Unreachable(reason) from None
            raise UserError(f"Vertex AI in {self._parent}: {reason}{ADVICE.get(code, '')}") from None
        except (RetryError, RequestException, TransportError) as error:
            raise Unreachable(first_line(error)) from None
        except GoogleAuthError as error:
            raise UserError(f"Vertex AI: the credentials are not accepted: {first_line(error)}{ADVICE[401]}") from None
