"""Following a job: scripts of states and messages played back."""

import pytest

from beamfeed.contract.errors import UserError
from beamfeed.launcher.backends import remote
from beamfeed.launcher.backends.dataflow import follow as dataflow_follow
from beamfeed.launcher.backends.dataflow.api import Message
from beamfeed.launcher.backends.dataflow.follow import counters, failure, follow
from beamfeed.launcher.backends.remote import Unreachable

ERROR, WARNING = "JOB_MESSAGE_ERROR", "JOB_MESSAGE_WARNING"
QUOTA = (
    "Startup of the worker pool in europe-west1 failed to bring up any of the desired 4 workers.\n"
    "QUOTA_EXCEEDED: Instance 'x' creation failed: Quota 'CPUS' exceeded. Limit: 24.0 in region europe-west1."
)
TRACEBACK = """Traceback (most recent call last):
  File "check.py", line 3, in process
    read(unit)
OSError: gs://raw/one.parquet: permission denied [while running 'ValidateUnit-ptransform-12']

Note: imports, functions and other variables defined in the global context are not saved."""
REJECTED = """Traceback (most recent call last):
  File "apache_beam/runners/common.py", line 1500, in process
beamfeed.contract.errors.JobFailed: job failed: 3 of 10 assets were rejected, limits.max_rejected_fraction allows 0.01 [while running 'DecideFleet-ptransform-9']
[beamfeed 1: job failed: 3 of 10 assets were rejected, limits.max_rejected_fraction allows 0.01]
"""  # noqa: E501


class Script:
    """Plays a job; an exception among the states is raised."""

    def __init__(self, states, messages=(), metrics=()):
        self.states, self.told, self.counted = list(states), list(messages), list(metrics)

    def state(self, job_id):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(state, Exception):
            raise state
        return f"JOB_STATE_{state}"

    def messages(self, job_id, since=None):
        return [one for one in self.told if since is None or one.time >= since]

    def metrics(self, job_id):
        return self.counted


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(dataflow_follow, "POLL_SECONDS", 0)
    monkeypatch.setattr(remote, "POLL_SECONDS", 0)


def play(*args):
    lines = []
    state, messages = follow(Script(*args), "id", lines.append)
    return state, messages, lines


def message(text, importance=ERROR, number=0):
    return Message(str(number), f"2026-01-01T00:00:0{number}Z", importance, text)


def element_count(step, value, **context):
    name = {"origin": "dataflow/v1b3", "name": "ElementCount", "context": {"output_user_name": step, **context}}
    return {"name": name, "scalar": value}


def test_a_job_from_queue_to_end():
    metrics = [element_count("ScanFile-out0", 1200)]
    state, _, lines = play(["QUEUED", "PENDING", "RUNNING", "RUNNING", *["RUNNING"] * 8, "DONE"], [], metrics)
    assert state == "JOB_STATE_DONE"
    assert lines == ["job is queued", "job is pending", "job is running", "1,200 slices found", "job is done"]


def test_every_message_is_told_once():
    told = [message("slow\nand more", WARNING, 1), message("bad", ERROR, 2), message("worse", ERROR, 2)]
    _, messages, lines = play(["RUNNING", "RUNNING", "FAILED"], told)
    assert messages == told
    assert lines == ["warning: slow", "error: bad", "error: worse", "job is running", "job is failed"]


def test_a_service_that_does_not_answer_for_a_while():
    state, _, lines = play([Unreachable("503"), Unreachable("503"), "RUNNING", "CANCELLED"])
    assert state == "JOB_STATE_CANCELLED"
    assert lines == ["Dataflow does not answer (503); trying again", "job is running", "job is cancelled"]


def test_a_service_that_does_not_answer_any_more(monkeypatch):
    monkeypatch.setattr(remote, "PATIENCE_SECONDS", 0)
    with pytest.raises(UserError, match="does not answer: 503"):
        play([Unreachable("503")])


def test_the_reason_of_a_failure_may_come_late(monkeypatch):
    script = Script(["FAILED"])
    late = iter([[], [], [message("the reason")]])
    monkeypatch.setattr(script, "messages", lambda *_: next(late))
    _, messages = follow(script, "id", lambda _: None)
    assert failure(messages) == ("the reason", 1)


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([message(REJECTED)], "job failed: 3 of 10 assets were rejected, limits.max_rejected_fraction allows 0.01"),
        ([message(TRACEBACK), message("Workflow failed.", number=1)],
         "OSError: gs://raw/one.parquet: permission denied [while running 'ValidateUnit-ptransform-12']"),
        ([message("Workflow failed. Causes: no such subnetwork")], "Workflow failed. Causes: no such subnetwork"),
        ([], "the service gave no reason; look at the job's log"),
    ],
)  # fmt: skip
def test_why_it_failed(messages, told):
    assert failure(messages) == (told, 1)


@pytest.mark.parametrize("importance", [ERROR, WARNING])
def test_a_quota_is_told_with_the_next_step(importance):
    told = failure([message(QUOTA, importance), message("Workflow failed.", number=1)]).message
    assert told.startswith("quota: QUOTA_EXCEEDED: Instance 'x' creation failed: Quota 'CPUS' exceeded. Limit: 24.0")
    assert "max_workers" in told
    assert "\n" not in told


def test_counters_are_of_committed_work():
    metrics = [
        element_count("ValidateUnit-out0", 10),
        element_count("ValidateUnit-out0", 99, tentative="true"),
        element_count("WriteToTFRecord/WriteShard-out0", 3),
        element_count("WriteToTFRecord/Read-out0", 2),
        element_count("Unknown-out0", 7),
        {"name": {"origin": "user", "name": "rows", "context": {"step": "s1"}}, "scalar": 5},
        {"name": {"origin": "user", "name": "rows", "context": {"step": "s2"}}, "scalar": 6},
        {"name": {"origin": "user", "name": "sizes"}, "distribution": {"count": 1}},
    ]
    assert counters(metrics) == "10 units validated, 3 shards written, 11 rows"
    assert counters([]) == ""
