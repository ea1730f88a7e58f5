"""The few calls of Flink's REST interface with which a job is found and stopped.

Beam's job server does not stop a job of a cluster: it only stops to wait for it.
"""

import json
import time
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from typing import Any

from beamfeed.contract.errors import UserError

TIMEOUT_SECONDS = 10.0
CANCEL_SECONDS = 60.0
POLL_SECONDS = 0.2
ENDED = ("FINISHED", "CANCELED", "FAILED")


class FlinkRest:
    """A cluster, at `host:port` of its job manager.

    Every method raises UserError where it does not answer.
    """

    def __init__(self, address: str):
        self._address = address

    def active_job(self, name: str) -> str | None:
        """The id of a job of this name that has not ended, or None."""
        jobs = self._call("GET", "/jobs/overview", "jobs")
        return next((job["jid"] for job in jobs if job["name"] == name and job["state"] not in ENDED), None)

    def cancel(self, job_id: str) -> bool:
        """Stops a job, and waits for its end; returns whether that came."""
        self._call("PATCH", f"/jobs/{job_id}?mode=cancel")
        end = time.monotonic() + CANCEL_SECONDS
        while self._call("GET", f"/jobs/{job_id}", "state") not in ENDED:
            if time.monotonic() > end:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def _call(self, method: str, path: str, key: str | None = None) -> Any:
        """The answer, or what it has under a key."""
        host, _, port = self._address.rpartition(":")
        connection = HTTPConnection(host, int(port), timeout=TIMEOUT_SECONDS)
        try:
            with closing(connection):
                connection.request(method, path)
                answer = connection.getresponse()
                values = dict(json.load(answer))
                if answer.status >= 400:
                    raise ValueError(f"{answer.status} {'; '.join(values.get('errors', []))[:300]}")
                if key is not None and key not in values:
                    raise ValueError(f"something else answers there, without {key!r}")
                return values if key is None else values[key]
        except (OSError, HTTPException, ValueError, TypeError) as error:
            raise UserError(
                f"launch.preprocess.flink.master: no answer from Flink at {self._address}: "
                f"{getattr(error, 'strerror', None) or error}"
            ) from None
