"""What objects of a cluster tell, as it writes them."""

import pytest

from beamfeed.launcher.backends.kubernetes.state import end_of, failed_first, newest, read_pod, words_for

INDEX = "batch.kubernetes.io/job-completion-index"


def pod(index=0, phase="Running", created="2026-01-01T00:00:00Z", state=None, conditions=(), **status):
    containers = [
        {"name": "istio-proxy", "state": {"terminated": {"exitCode": 0}}},
        *([{"name": "worker", "state": state}] if state else []),
    ]
    return {
        "metadata": {"name": f"run-{index}", "uid": f"{index}-{created}", "creationTimestamp": created,
                     "annotations": {INDEX: str(index)}},
        "status": {"phase": phase, "containerStatuses": containers, "conditions": list(conditions), **status},
    }  # fmt: skip


def read(**described):
    return read_pod(pod(**described), "worker")


def ended(code, reason="Error", **described):
    return read(phase="Failed", state={"terminated": {"exitCode": code, "reason": reason}}, **described)


UNFIT = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
}


def test_how_a_run_ended():
    def with_condition(type_, status="True"):
        return {"status": {"conditions": [{"type": type_, "status": status, "message": "why"}]}}

    assert end_of({}) is None
    assert end_of(with_condition("Failed", "False")) is None
    assert end_of(with_condition("Suspended")) is None
    assert end_of(with_condition("Failed")) == (False, "why")
    assert all(end_of(with_condition(word))[0] for word in ("Completed", "Complete", "Succeeded"))


def test_pods_that_wait():
    assert words_for([], 1) == "its pod waits"
    assert words_for([read(phase="Pending", state={"waiting": {"reason": "ContainerCreating"}})], 1) == "its pod waits"
    waiting = read(index=1, phase="Pending", conditions=[UNFIT])
    assert words_for([read(), waiting], 2) == f"1 of 2 pods run; {UNFIT['message']}"
    assert words_for([], 2, "exceeded quota: team") == "0 of 2 pods run; exceeded quota: team"
    assert words_for([read(), read(index=1)], 2) == "2 pods run"


def test_an_image_that_cannot_be_had():
    found = read(phase="Pending", state={"waiting": {"reason": "ErrImagePull", "message": "x:1: not found"}})
    assert found.is_hopeless
    assert found.waits_for == "ErrImagePull: x:1: not found"


def test_the_last_pod_of_each_worker_counts():
    before, after = ended(137, index=1), read(index=1, created="2026-01-01T00:05:00Z")
    assert newest([after, before, read()]) == [read(), after]
    assert newest([running := read(index=1), ended(137, index=1)]) == [running]  # of the same second


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ([], None),
        ([read()], None),
        ([ended(138), ended(1, index=1), ended(138, index=2)], "run-1"),  # the others missed it
        ([ended(138), ended(137, "OOMKilled", index=1)], "run-1"),
        ([ended(137), ended(138, index=1)], "run-1"),
        ([ended(1, index=1), ended(1, index=2, created="2026-01-02T00:00:00Z")], "run-2"),  # of the last attempt
        ([ended(128, "StartError", index=1), ended(138)], "run-1"),
    ],
)
def test_whose_failure_is_told(pods, told):
    found = failed_first(pods)
    assert (found and found.name) == told


def test_what_others_put_beside_the_worker_is_not_its_state():
    assert read(phase="Running").code is None
    assert ended(2).code == 2
