"""Dataflow's job API, as far as submitting and following one job needs it."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

from cloud.exchange import Request, Response

# Of the hosts that are not this machine, Beam speaks REST only to one with 'sandbox' in its name.
# To others it speaks gRPC, which needs HTTP/2; the proxy speaks HTTP/1.1.
DATAFLOW_HOST = "dataflow.sandbox.googleapis.com"
ENDPOINT = f"https://{DATAFLOW_HOST}"
JOB_ID = "2026-01-02_03_04_05-123"
STARTED = "2026-01-02T03:04:05.678Z"


@dataclass
class Dataflow:
    """Keeps what is submitted, and plays a script of states, messages and metrics.

    Tests read and change it while it runs.
    """

    requests: list[Request] = field(default_factory=list)
    submitted: list[dict[str, Any]] = field(default_factory=list)  # job requests
    active: list[dict[str, Any]] = field(default_factory=list)  # what a list of jobs answers
    states: list[str | int] = field(default_factory=list)  # one for each look, the last stays; int: HTTP error
    messages: list[tuple[str, str]] = field(default_factory=list)  # importance, text
    metrics: list[dict[str, Any]] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)  # ids
    refuse: tuple[int, str, str] | None = None  # what submitting and cancelling answer: code, status, message

    def answer(self, request: Request) -> Response:
        self.requests.append(request)
        found = re.fullmatch(r"/v1b3/projects/[^/]+/locations/[^/]+/jobs(?:/([^/]+)(?:/(\w+))?)?", request.path)
        if found:
            match request.method, *found.groups():
                case "POST", None, None:
                    return self._submit(json.loads(request.body))
                case "GET", None, None:
                    return self._jobs(request.params)
                case "GET", job_id, None:
                    return self._job(job_id, request.params)
                case "PUT", job_id, None:
                    return self._cancel(job_id, json.loads(request.body))
                case "GET", _, "messages":
                    return self._messages()
                case "GET", _, "metrics":
                    return Response.json({"metrics": self.metrics})
        return _error(400, "UNIMPLEMENTED", f"this stand-in does not know {request.method} {request.path}")

    def _submit(self, job: dict[str, Any]) -> Response:
        if self.refuse:
            return _error(*self.refuse)
        self.submitted.append(job)
        told = {name: job[name] for name in ("name", "clientRequestId") if name in job}
        return Response.json({**told, "id": JOB_ID, "currentState": "JOB_STATE_PENDING"})

    def _jobs(self, params: dict[str, str]) -> Response:
        wanted = params.get("name")
        return Response.json({"jobs": [job for job in self.active if wanted in (None, job["name"])]})

    def _job(self, job_id: str, params: dict[str, str]) -> Response:
        if params.get("view") == "JOB_VIEW_DESCRIPTION":
            (found,) = [job for job in self.active if job["id"] == job_id]
            return Response.json(found)
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, int):
            return _error(state, "UNAVAILABLE", "come back later")
        return Response.json({"id": job_id, "name": "any", "currentState": state, "createTime": STARTED})

    def _cancel(self, job_id: str, change: dict[str, Any]) -> Response:
        if self.refuse:
            return _error(*self.refuse)
        if change != {"requestedState": "JOB_STATE_CANCELLED"}:
            return _error(400, "INVALID_ARGUMENT", f"this stand-in does not know {change}")
        if not any(job["id"] == job_id for job in self.active):
            return _error(404, "NOT_FOUND", f"there is no active job {job_id}")
        self.active = [job for job in self.active if job["id"] != job_id]
        self.cancelled.append(job_id)
        return Response.json({"id": job_id, "requestedState": "JOB_STATE_CANCELLED"})

    def _messages(self) -> Response:
        told = [
            {"id": str(i), "time": STARTED, "messageImportance": importance, "messageText": text}
            for i, (importance, text) in enumerate(self.messages)
        ]
        return Response.json({"jobMessages": told})


def _error(code: int, status: str, message: str) -> Response:
    return Response.json({"error": {"code": code, "status": status, "message": message}}, code)
