"""Watches a Dataflow job to its end, and finds in its log why it failed."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from beamfeed.contract.errors import JOB_FAILED, Failure, find_failure, last_raised
from beamfeed.launcher.backends.dataflow.api import DataflowService, Message
from beamfeed.launcher.backends.google import state_words
from beamfeed.launcher.backends.remote import Unreachable, ask_patiently

DONE = "JOB_STATE_DONE"
FAILED = "JOB_STATE_FAILED"
ENDED = (DONE, FAILED, "JOB_STATE_CANCELLED", "JOB_STATE_UPDATED", "JOB_STATE_DRAINED")
ERROR = "JOB_MESSAGE_ERROR"

POLL_SECONDS = 10.0
COUNTERS_EVERY = 6  # looks at the job: a line a minute
LATE_MESSAGES = 6  # looks at the log of a job that failed: the reason may come a minute after the end

# What the steps of the pipeline hand on, in their order.
COUNTED = {
    "ScanFile": "slices found",
    "ValidateUnit": "units validated",
    "Judge": "assets judged",
    "WriteToTFRecord": "shards written",
    "VerifyShard": "shards verified",
}


def follow(service: DataflowService, job_id: str, report: Callable[[str], None]) -> tuple[str, list[Message]]:
    """Tells changes of state, counters, warnings and errors until the job has ended.

    Returns:
      the last state, and the messages of the job.

    Raises:
      UserError: if the service cannot be asked any more. The job is not touched.
    """
    log = _Log(service, job_id, report)
    before, last_line, looks = "", "", 0

    def look() -> tuple[str, str]:
        """The state, and now and then counters."""
        state = service.state(job_id)
        log.read()
        is_due = state == before and looks % COUNTERS_EVERY == 0
        return state, counters(service.metrics(job_id)) if is_due else ""

    while True:
        state, line = ask_patiently("Dataflow", look, report, POLL_SECONDS)
        if state in ENDED:
            break
        if state != before:
            report(f"job is {state_words(state)}")
            before, looks = state, 0
        elif line not in ("", last_line):
            report(line)
            last_line = line
        looks += 1
        time.sleep(POLL_SECONDS)
    log.read_end(state)
    report(f"job is {state_words(state)}")
    return state, log.messages


class _Log:
    """The messages of a job, each told once."""

    def __init__(self, service: DataflowService, job_id: str, report: Callable[[str], None]):
        self.messages: list[Message] = []
        self._service, self._job_id, self._say = service, job_id, report

    def read(self) -> None:
        since = self.messages[-1].time if self.messages else None
        reported = set(self.messages)
        for message in self._service.messages(self._job_id, since):
            if message not in reported:
                self.messages.append(message)
                self._say(f"{'error' if message.importance == ERROR else 'warning'}: {_first_line(message.text)}")

    def read_end(self, state: str) -> None:
        """Waits for the reason of a failure."""
        for _ in range(LATE_MESSAGES):
            if state != FAILED or any(message.importance == ERROR for message in self.messages):
                return
            time.sleep(POLL_SECONDS)
            try:
                self.read()
            except Unreachable:
                continue


def counters(metrics: Iterable[dict[str, Any]]) -> str:
    """Elements out of the steps worth knowing, and the pipeline's own counters, in one line; empty without any.

    Dataflow counts twice: what is certain, and with the work not yet committed. This is the first.
    """
    steps: dict[str, int] = {}
    user_counters: dict[str, int] = {}
    for metric in metrics:
        name = metric.get("name", {})
        context, value = name.get("context", {}), metric.get("scalar")
        if context.get("tentative") == "true" or not isinstance(value, int | float):
            continue
        if name.get("origin") == "user":
            user_counters[name["name"]] = user_counters.get(name["name"], 0) + int(value)
        elif name.get("name") == "ElementCount":
            step = re.split(r"[/.]|-out", context.get("output_user_name", ""), maxsplit=1)[0]
            if step in COUNTED:  # a step has several outputs, and steps inside
                steps[step] = max(steps.get(step, 0), int(value))
    parts = [f"{steps[step]:,} {noun}" for step, noun in COUNTED.items() if step in steps]
    return ", ".join([*parts, *(f"{value:,} {name}" for name, value in sorted(user_counters.items()))])


def failure(messages: Sequence[Message]) -> Failure:
    """Why a job failed, in one line with the next step where there is one, and the exit code."""
    errors = [message.text for message in messages if message.importance == ERROR]
    for text in errors:
        if known_failure := find_failure(text):
            return known_failure
    return Failure(_guess(messages, errors), JOB_FAILED)


def _guess(messages: Sequence[Message], errors: Sequence[str]) -> str:
    """What the log says of a failure that is none of ours."""
    for line in (line for message in reversed(messages) for line in message.text.splitlines()):
        if "quota" in line.lower():
            return (
                f"quota: {line.strip()}; lower launch.preprocess.dataflow.max_workers, take a smaller "
                "machine_type or another region, or ask for more under IAM & Admin > Quotas"
            )
    for text in reversed(errors):
        if raised := last_raised(text):
            return raised
    return _first_line(errors[-1]) if errors else "the service gave no reason; look at the job's log"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0].rstrip()
