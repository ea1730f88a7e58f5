"""The few calls of Vertex AI, by Google's client, with which a job is started, found, watched and cancelled."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from beamfeed.contract.errors import UserError, first_line
from beamfeed.launcher.backends.remote import Unreachable, is_temporary
from beamfeed.launcher.backends.vertex.request import WORK

TIMEOUT_SECONDS = 60.0
DONE = "JOB_STATE_SUCCEEDED"
ENDED = (DONE, "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED", "JOB_STATE_PARTIALLY_SUCCEEDED")
ADVICE = {
    400: "; look at launch.train.vertex",
    401: "; run `gcloud auth application-default login`",
    403: "; the account needs roles/aiplatform.user, and the Vertex AI API must be enabled in the project",
    404: "; look at launch.train.vertex.project and region",
}


@dataclass(frozen=True)
class VertexJob:
    """A job as the service sees it.

    Attributes:
      name: projects/NUMBER/locations/REGION/customJobs/ID.
      state: such as JOB_STATE_RUNNING.
      work: what it makes.
      error: why it failed; empty if it did not.
    """

    name: str
    state: str
    work: str
    error: str

    @property
    def id(self) -> str:
        """The last part of its name."""
        return self.name.rpartition("/")[2]


class VertexService:
    """Vertex AI in one project and region.

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

    def create(self, request: dict[str, Any]) -> VertexJob:
        """Starts a job; see `custom_job`."""
        from google.cloud.aiplatform_v1 import CustomJob

        job = CustomJob(request)
        with self._answered():
            return _read(self._client.create_custom_job(parent=self._parent, custom_job=job, timeout=TIMEOUT_SECONDS))

    def get(self, name: str) -> VertexJob:
        """A job by its name."""
        with self._answered():
            return _read(self._client.get_custom_job(name=name, timeout=TIMEOUT_SECONDS))

    def active(self, display_name: str) -> VertexJob | None:
        """The job of this display name that has not ended, the newest first; None where there is none."""
        request = {"parent": self._parent, "filter": f'display_name="{display_name}"'}
        with self._answered():
            for job in map(_read, self._client.list_custom_jobs(request=request, timeout=TIMEOUT_SECONDS)):
                if job.state not in ENDED:
                    return job
        return None

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


def _read(job: Any) -> VertexJob:
    return VertexJob(job.name, job.state.name, job.labels.get(WORK, ""), job.error.message)
