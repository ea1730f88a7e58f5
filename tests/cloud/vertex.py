"""Vertex AI's custom jobs, as far as starting and following one needs it."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from cloud.exchange import Request, Response

VERTEX_HOST = "europe-west1-aiplatform.googleapis.com"
PARENT = "projects/a-project/locations/europe-west1"


@dataclass
class Vertex:
    """Keeps what is submitted, and plays a script of states. Tests read and change it while it runs."""

    requests: list[Request] = field(default_factory=list)
    jobs: list[dict[str, Any]] = field(default_factory=list)  # the newest first, with their states
    states: list[str] = field(default_factory=list)  # of the newest, one for each look; the last stays
    error: str = ""
    refuse: tuple[int, str] | None = None  # what every request gets: code, message

    def answer(self, request: Request) -> Response:
        self.requests.append(request)
        if self.refuse:
            code, message = self.refuse
            return Response.json({"error": {"code": code, "message": message, "status": "ANY"}}, code)
        found = re.fullmatch(rf"/v1/{PARENT}/customJobs(?:/(\w+))?(?::(cancel))?", request.path)
        match (request.method, *(found.groups() if found else ("?", "?"))):
            case "POST", None, None:
                job = {**json.loads(request.body), "name": f"{PARENT}/customJobs/{len(self.jobs) + 1}"}
                self.jobs.insert(0, {**job, "state": "JOB_STATE_PENDING"})
                return Response.json(self.jobs[0])
            case "GET", None, None:
                named = re.fullmatch(r'display_name="([^"]*)"', request.params.get("filter", ""))
                assert named
                return Response.json({"customJobs": [job for job in self.jobs if job["displayName"] == named[1]]})
            case "GET", id_, None:
                return Response.json(self._look(str(id_)))
            case "POST", id_, "cancel":
                self._job(str(id_))["state"] = "JOB_STATE_CANCELLED"
                return Response.json({})
        return Response.json({"error": {"code": 400, "message": f"not known: {request.path}"}}, 400)

    def _job(self, id_: str) -> dict[str, Any]:
        return next(job for job in self.jobs if job["name"].endswith(f"/{id_}"))

    def _look(self, id_: str) -> dict[str, Any]:
        job = self._job(id_)
        if self.states and job is self.jobs[0] and job["state"] != "JOB_STATE_CANCELLED":
            job["state"] = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {**job, "error": {"code": 3, "message": self.error}} if self.error else job
