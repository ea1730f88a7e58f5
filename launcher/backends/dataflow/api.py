"""The few calls of Dataflow's REST API with which a job is found and watched."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.launcher.backends.google import GoogleService
from beamfeed.launcher.backends.remote import option

ENDPOINT = "https://dataflow.googleapis.com"
NO_ACCESS = "; the account needs roles/dataflow.developer, and the Dataflow API must be enabled in the project"
ADVICE = {401: NO_ACCESS, 403: NO_ACCESS, 404: "; look at launch.preprocess.dataflow.project and region"}


@dataclass(frozen=True)
class Message:
    """A line of the job's log."""

    id: str
    time: str
    importance: str  # JOB_MESSAGE_WARNING, JOB_MESSAGE_ERROR
    text: str


class DataflowService(GoogleService):
    """Dataflow in one project and region, as the options of a submission name them."""

    def __init__(self, flags: Sequence[str]):
        self.project, self.region = option(flags, "project"), option(flags, "region")
        endpoint = (option(flags, "dataflow_endpoint") or ENDPOINT).rstrip("/")
        url = f"{endpoint}/v1b3/projects/{self.project}/locations/{self.region}/jobs"
        place = f"{self.project}, {self.region}"
        super().__init__("Dataflow", place, url, ADVICE, anonymous="--no_auth" in flags)

    def active_job(self, name: str) -> str | None:
        """The id of the job of this name that has not ended, or None."""
        jobs = self.listed("", "jobs", filter="ACTIVE", name=name)
        return next((str(job["id"]) for job in jobs if job["name"] == name), None)

    def labels(self, job_id: str) -> dict[str, str]:
        """The labels of a job."""
        return dict(self.call("GET", f"/{job_id}", params={"view": "JOB_VIEW_DESCRIPTION"}).get("labels", {}))

    def state(self, job_id: str) -> str:
        """Such as JOB_STATE_RUNNING."""
        return str(self.call("GET", f"/{job_id}").get("currentState", "JOB_STATE_UNKNOWN"))

    def messages(self, job_id: str, since: str | None = None) -> list[Message]:
        """Warnings and errors from a moment on, that moment's included, in order of time."""
        entries = self.listed(
            f"/{job_id}/messages", "jobMessages", minimumImportance="JOB_MESSAGE_WARNING", startTime=since or None
        )
        keys = ("id", "time", "messageImportance", "messageText")
        read = [Message(*(entry.get(key, "") for key in keys)) for entry in entries]
        return sorted(read, key=lambda message: message.time)

    def metrics(self, job_id: str) -> list[dict[str, Any]]:
        """The counters of a job."""
        return list(self.call("GET", f"/{job_id}/metrics").get("metrics", []))

    def cancel(self, job_id: str) -> None:
        """Asks the service to stop a job."""
        self.call("PUT", f"/{job_id}", json={"requestedState": "JOB_STATE_CANCELLED"})
