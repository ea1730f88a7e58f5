"""What the cluster says of a run, read from its objects. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

RANKS = ("batch.kubernetes.io/job-completion-index", "training.kubeflow.org/replica-index")
ENDED_WELL = ("Completed", "Complete", "Succeeded")
KILLED = 129  # exit codes from here on: a signal ended the process; 128 is of one that could not be started
ALIVE = ("Pending", "Running")
SETTING_UP = ("ContainerCreating", "PodInitializing")  # tells nothing of why it takes long
# A pod that waits for one of these does not start by itself.
IMAGE_TROUBLE = (
    "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError",
    "CreateContainerError", "RunContainerError",
)  # fmt: skip


def end_of(item: dict[str, Any]) -> tuple[bool, str] | None:
    """Whether the object that started the pods ended well, and what the cluster says; None while it has not ended."""
    for condition in item.get("status", {}).get("conditions") or []:
        if condition.get("status") == "True" and condition["type"] in (*ENDED_WELL, "Failed"):
            return condition["type"] in ENDED_WELL, condition.get("message", "")
    return None


@dataclass(frozen=True)
class Pod:
    """A pod.

    Attributes:
      name: of it.
      index: of its worker.
      uid: tells it from one of the same name that came before.
      created: when, as text that sorts.
      phase: Pending, Running, Succeeded or Failed.
      waits_for: why it does not run yet, in a word or a line; empty where it runs.
      is_hopeless: whether waiting does not help.
      code: the exit code of its process; None while that runs.
      reason: why the process ended, such as OOMKilled or Evicted.
    """

    name: str
    index: int
    uid: str
    created: str
    phase: str
    waits_for: str
    is_hopeless: bool
    code: int | None
    reason: str


def read_pod(item: dict[str, Any], container: str) -> Pod:
    """A pod as the cluster describes it; others may have put containers of their own beside ours."""
    metadata, status = item["metadata"], item.get("status", {})
    marks = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
    index = next((marks[key] for key in RANKS if key in marks), "0")
    containers = [entry for entry in status.get("containerStatuses") or [] if entry["name"] == container]
    state: dict[str, Any] = containers[0].get("state", {}) if containers else {}
    waiting, terminated = state.get("waiting", {}), state.get("terminated", {})
    why, hopeless = "", False
    if status.get("phase", "Pending") == "Pending":
        why, hopeless = waiting.get("reason", ""), waiting.get("reason") in IMAGE_TROUBLE
        why = "" if why in SETTING_UP else why
        if hopeless:
            why = f"{why}: {waiting.get('message', '')}".rstrip(": ")
        for condition in status.get("conditions") or []:
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                why = condition.get("message") or condition.get("reason", "")
    return Pod(
        name=metadata["name"],
        index=int(index),
        uid=metadata["uid"],
        created=metadata.get("creationTimestamp", ""),
        phase=status.get("phase", "Pending"),
        waits_for=why,
        is_hopeless=hopeless,
        code=terminated.get("exitCode"),
        reason=terminated.get("reason") or status.get("reason", ""),
    )


def newest(pods: Sequence[Pod]) -> list[Pod]:
    """Of the pods that each worker had, the last; by the number of the worker."""
    # Of those of one second, one that has not ended.
    last = {pod.index: pod for pod in sorted(pods, key=lambda pod: (pod.created, pod.phase in ALIVE))}
    return [last[index] for index in sorted(last)]


def words_for(pods: Sequence[Pod], workers: int, warning: str = "") -> str:
    """How far the workers are, such as `2 of 3 pods run; 0/3 nodes are available: 3 Insufficient nvidia.com/gpu`.

    Args:
      pods: the newest of each worker.
      workers: that there are to be.
      warning: of the cluster; told where no pod says why it waits.
    """
    started = [pod for pod in pods if pod.phase != "Pending"]
    if len(started) == workers:
        return f"{workers} pods run" if workers > 1 else "its pod runs"
    waits_for = next((pod.waits_for for pod in pods if pod.waits_for), "") or warning
    state = f"{len(started)} of {workers} pods run" if workers > 1 else "its pod waits"
    return f"{state}; {waits_for}" if waits_for else state


def failed_first(pods: Sequence[Pod]) -> Pod | None:
    """The pod that failed by itself, else one that was ended; others may have failed because they missed it.

    Args:
      pods: all, in the order in which they were made; the last attempt is told of.
    """
    ended = [pod for pod in reversed(pods) if pod.code or pod.phase == "Failed"]
    by_itself = [pod for pod in ended if pod.code and pod.code < KILLED]
    explained = [pod for pod in ended if pod.reason not in ("", "Error", "Completed")]
    return next(iter([*by_itself, *explained, *ended]), None)
