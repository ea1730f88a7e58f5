"""The few calls of Dataflow's REST API with which a job is found and watched."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.contract.errors import UserError, first_line
from beamfeed.launcher.backends.remote import Unreachable, is_temporary, option

ENDPOINT = "https://dataflow.googleapis.com"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
TIMEOUT_SECONDS = 60
NO_ACCESS = "; the account needs roles/dataflow.developer, and the Dataflow API must be enabled in the project"
ADVICE = {401: NO_ACCESS, 403: NO_ACCESS, 404: "; look at launch.preprocess.dataflow.project and region"}


@dataclass(frozen=True)
class Message:
    """A line of the job's log."""

    id: str
    time: str
    importance: str  # JOB_MESSAGE_WARNING, JOB_MESSAGE_ERROR
    text: str


class DataflowService:
    """Dataflow in one project and region, as the options of a submission name them.

    Every method raises Unreachable where trying again may help, and UserError where
    it does not.
    """

    def __init__(self, flags: Sequence[str]):
        self._endpoint = (option(flags, "dataflow_endpoint") or ENDPOINT).rstrip("/")
        self.project = option(flags, "project")
        self.region = option(flags, "region")
        self._session = _session("--no_auth" in flags)

    def active_job(self, name: str) -> str | None:
        """The id of the job of this name that has not ended, or None."""
        page = ""
        while True:
            answer = self._get("", filter="ACTIVE", name=name, pageToken=page)
            for job in answer.get("jobs", ()):
                if job["name"] == name:
                    return str(job["id"])
            page = answer.get("nextPageToken", "")
            if not page:
                return None

    def labels(self, job_id: str) -> dict[str, str]:
        """The labels of a job."""
        return dict(self._get(f"/{job_id}", view="JOB_VIEW_DESCRIPTION").get("labels", {}))

    def state(self, job_id: str) -> str:
        """Such as JOB_STATE_RUNNING."""
        return str(self._get(f"/{job_id}").get("currentState", "JOB_STATE_UNKNOWN"))

    def messages(self, job_id: str, since: str | None = None) -> list[Message]:
        """Warnings and errors from a moment on, that moment's included, in order of time."""
        read, page = [], ""
        while True:
            answer = self._get(
                f"/{job_id}/messages", minimumImportance="JOB_MESSAGE_WARNING", startTime=since or "", pageToken=page
            )
            for entry in answer.get("jobMessages", ()):
                text = entry.get("messageText", "")
                read.append(
                    Message(entry.get("id", ""), entry.get("time", ""), entry.get("messageImportance", ""), text)
                )
            page = answer.get("nextPageToken", "")
            if not page:
                return sorted(read, key=lambda message: message.time)

    def metrics(self, job_id: str) -> list[dict[str, Any]]:
        """The counters of a job."""
        return list(self._get(f"/{job_id}/metrics").get("metrics", []))

    def cancel(self, job_id: str) -> None:
        """Asks the service to stop a job."""
        self._call("PUT", f"/{job_id}", json={"requestedState": "JOB_STATE_CANCELLED"})

    def _get(self, path: str, **query: str) -> dict[str, Any]:
        return self._call("GET", path, params={key: value for key, value in query.items() if value})

    def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        from google.auth.exceptions import GoogleAuthError, TransportError

        url = f"{self._endpoint}/v1b3/projects/{self.project}/locations/{self.region}/jobs{path}"
        try:
            response = self._session.request(method, url, timeout=TIMEOUT_SECONDS, **options)
        except (OSError, TransportError) as error:
            raise Unreachable(first_line(error)) from None
        except GoogleAuthError as error:
            raise UserError(
                f"Dataflow: the credentials are not accepted: {first_line(error)}; "
                "run `gcloud auth application-default login`"
            ) from None
        if response.ok:
            return dict(response.json())
        reason = f"{response.status_code} {_error_text(response.text)}"
        if is_temporary(response.status_code):
            raise Unreachable(reason)
        advice = ADVICE.get(response.status_code, "")
        raise UserError(f"Dataflow in {self.project}, {self.region}: {reason}{advice}")


def _session(anonymous: bool) -> Any:
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession

    if anonymous:
        return AuthorizedSession(AnonymousCredentials())
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
    except GoogleAuthError as error:
        raise UserError(
            f"Dataflow: {first_line(error)}; run `gcloud auth application-default login`, "
            "or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
        ) from None
    return AuthorizedSession(credentials)


def _error_text(body: str) -> str:
    """What an error of the API says, in one line."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = body
    return " ".join(str(message).split())[:300]
