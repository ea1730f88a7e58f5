"""What the cluster says of a run, read from its objects. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ENDED_WELL = ("Completed", "Complete", "Succeeded")
KILLED = 128  # exit codes from here on: something ended the process
# A pod that waits for one of these does not start by itself.
IMAGE_TROUBLE = (
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError",
)  # fmt: skip


@dataclass(frozen=True)
class End:
    """How a run ended.

    Attributes:
      well: whether it was done.
      message: what the cluster says.
    """

    well: bool
    message: str


def end_of(item: dict[str, Any]) -> End | None:
    """How the object that started the pods ended; None while it has not."""
    for condition in item.get("status", {}).get("conditions") or []:
        if condition.get("status") == "True" and condition["type"] in (*ENDED_WELL, "Failed"):
            return End(condition["type"] in ENDED_WELL, condition.get("message", ""))
    return None


@dataclass(frozen=True)
class Pod:
    """A pod.

    Attributes:
      name: of it.
      index: of its worker.
      uid: tells it from one of the same name that came before.
      phase: Pending, Running, Succeeded or Failed.
      waits_for: why it does not run yet, in a word or a line; empty where it runs.
      is_hopeless: whether waiting does not help.
      code: the exit code of its process; None while that runs.
      reason: why the process ended, such as OOMKilled or Evicted.
    """

    name: str
    index: int
    uid: str
    phase: str
    waits_for: str
    is_hopeless: bool
    code: int | None
    reason: str


def read_pod(item: dict[str, Any]) -> Pod:
    """A pod as the cluster describes it."""
    metadata, status = item["metadata"], item.get("status", {})
    marks = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    index = marks.get("batch.kubernetes.io/job-completion-index") or marks.get("training.kubeflow.org/replica-index")
    state: dict[str, Any] = next((one.get("state", {}) for one in status.get("containerStatuses") or []), {})
    waiting, terminated = state.get("waiting", {}), state.get("terminated", {})
    why, hopeless = "", False
    if status.get("phase") == "Pending":
        why, hopeless = waiting.get("reason", ""), waiting.get("reason") in IMAGE_TROUBLE
        if hopeless:
            why = f"{why}: {waiting.get('message', '')}".rstrip(": ")
        for condition in status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                why = condition.get("message") or condition.get("reason", "")
    reason = terminated.get("reason") or status.get("reason", "")
    phase = status.get("phase", "Pending")
    return Pod(
        metadata["name"], int(index or 0), metadata["uid"], phase, why, hopeless, terminated.get("exitCode"), reason
    )


def words_for(pods: Sequence[Pod]) -> str:
    """How far the pods are, such as `2 of 3 pods run; 0/3 nodes are available: 3 Insufficient nvidia.com/gpu`."""
    alive = [pod for pod in pods if pod.phase in ("Pending", "Running")]
    running = [pod for pod in alive if pod.phase == "Running"]
    if alive and len(running) == len(alive):
        return f"{len(running)} pods run" if len(running) > 1 else "its pod runs"
    waiting = next((pod.waits_for for pod in alive if pod.waits_for), "")
    state = f"{len(running)} of {len(alive)} pods run" if len(alive) > 1 else "its pod waits"
    return f"{state}; {waiting}" if waiting else state


def failed_first(pods: Sequence[Pod]) -> Pod | None:
    """The pod that failed by itself, else one that was ended; others may have failed because they missed it."""
    ended = [pod for pod in pods if pod.code or pod.phase == "Failed"]
    by_itself = [pod for pod in ended if pod.code and pod.code < KILLED]
    told = [pod for pod in ended if pod.reason not in ("", "Error", "Completed")]
    return next(iter([*by_itself, *told, *ended]), None)
