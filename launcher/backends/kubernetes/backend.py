"""Runs stages as pods of Kubernetes: makes the object that starts them, or finds it, and follows it to its end."""

import hashlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from typing import Any

import yaml

from beamfeed.contract import storage
from beamfeed.contract.config.duration import seconds_of
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import job_text
from beamfeed.contract.errors import USER_MISTAKE, UserError
from beamfeed.launcher.backends import remote
from beamfeed.launcher.backends.base import Backend, count_once
from beamfeed.launcher.backends.kubernetes.kubectl import Exists, Kubectl
from beamfeed.launcher.backends.kubernetes.logs import TAIL, PodLog, last_line
from beamfeed.launcher.backends.kubernetes.manifests import (
    BESIDE,
    CONTAINERS,
    JOB_FILE,
    RESOURCES,
    RUN,
    WORK,
    manifests,
)
from beamfeed.launcher.backends.kubernetes.section import JOB_FOLDER, KubernetesSection, Volume
from beamfeed.launcher.backends.kubernetes.state import KILLED, Pod, end_of, failed_first, newest, read_pod, words_for
from beamfeed.launcher.display import Display
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import PREPROCESS, TRAIN, Stage, launch_key

CLUSTER = "the cluster"
LONGEST_NAME = 16  # of the words in a name: with those of its worker, the name of a pod's host has 63 letters at most
LONGEST_JOB = 200_000  # bytes of a job file; annotations take 256 KiB
GONE_SECONDS = 180.0  # until the pods of an earlier run have saved and ended
HOPELESS_SECONDS = 120.0  # for an image that cannot be had; the cluster tries that again
CALM_SECONDS = 30.0  # without all pods, it is worth asking why


class KubernetesBackend(Backend):
    """Each worker is a pod. The same command finds a job that runs by its name."""

    stages = (PREPROCESS, TRAIN)
    section = KubernetesSection

    def check(self, job: Job, name: str) -> None:
        """Raises UserError where there is no kubectl, or pods would not see a path."""
        section = getattr(job.launch, name).section("kubernetes")
        Kubectl(section.context, section.namespace, name).check_installed()
        packages = [("launch.preprocess.packages", path) for path in job.launch.preprocess.packages]
        for key, path in (*packages, *remote.paths_of(job, name)):
            if not storage.is_remote(path) and _volume_of(section, path) is None:
                raise UserError(
                    f"{key}: {path} is in no volume of launch.{name}.kubernetes.volumes, so the pods do not see it; "
                    "give a gs:// path, or an absolute path in a volume that is mounted at the same path here"
                )

    def command(self, name: str, job: Job, arguments: Sequence[str]) -> tuple[str, ...]:
        section = getattr(job.launch, name).section("kubernetes")
        return remote.command_elsewhere(name, section.python, arguments, f"{JOB_FOLDER}/{JOB_FILE}")

    def describe(self, stage: Stage) -> list[str]:
        documents = yaml.safe_dump_all(_manifests(stage, ()), sort_keys=False, width=1000)
        return [f"{_kubectl(stage).words('create', '-f', '-')} <<'END'\n{documents}END"]

    def resources(self, stage: Stage) -> Mapping[str, float]:
        return remote.node_resources(stage, stage.section)

    def submit(self, stage: Stage, display: Display) -> "KubernetesRun":
        run = KubernetesRun(stage)
        existing = run.find()
        if existing:
            work = existing["metadata"].get("annotations", {}).get(WORK)
            remote.check_same_work(stage, f"{run.title} of Kubernetes", work == _work(stage))
            display.say(f"{stage.name}: {run.title} is running already; following it")
        else:
            run.start()
            display.say(f"{stage.name}: {run.title} of Kubernetes")
        return run

    def find(self, stage: Stage) -> "KubernetesRun | None":
        run = KubernetesRun(stage)
        return run if run.find() else None


def _volume_of(section: KubernetesSection, path: str) -> Volume | None:
    """The volume that a path of this machine is in."""
    for volume in section.volumes:
        if os.path.isabs(path) and os.path.commonpath([os.path.normpath(path), volume.folder]) == volume.folder:
            return volume
    return None


def _name(stage: Stage) -> str:
    """The name of the objects of the run that writes to the place of a stage."""
    volume = _volume_of(stage.section, stage.output)  # the same path may be another folder in another volume
    where = volume.model_dump_json(exclude={"path"}) if volume else ""
    return remote.job_name(storage.absolute(stage.output), LONGEST_NAME, where)


def _job_text(stage: Stage) -> str:
    """The job file for the pods, with the values that it has here."""
    job, cpus = stage.job, stage.section.cpus
    assert job is not None
    values = job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"launch"})
    preprocess: dict[str, Any] = {"packages": list(job.launch.preprocess.packages)}
    if cpus and job.launch.preprocess.workers == "auto":  # which would count the cores of the node
        preprocess["workers"] = math.ceil(cpus)
    elif job.launch.preprocess.workers != "auto":
        preprocess["workers"] = job.launch.preprocess.workers
    return job_text({**values, "launch": {"preprocess": preprocess}})


def _work(stage: Stage) -> str:
    """What a run makes and how, for who comes later."""
    text = hashlib.sha256(_job_text(stage).encode()).hexdigest()
    return f"{remote.work_of(stage)}-{text[:8]}"


def _manifests(stage: Stage, more: Sequence[str]) -> list[dict[str, Any]]:
    text = _job_text(stage)
    if len(text.encode()) > LONGEST_JOB:
        raise UserError(f"backend: kubernetes: a job file may have {LONGEST_JOB:,} bytes there, not {len(text):,}")
    restarts = stage.restarts if stage.checkpoints else None
    command = (*stage.command, *more)
    return manifests(stage.section, command, text, _name(stage), stage.workers, restarts, _work(stage))


def _kubectl(stage: Stage) -> Kubectl:
    return Kubectl(stage.section.context, stage.section.namespace, launch_key(stage.name))


class KubernetesRun(remote.RemoteRun):
    """The object that starts the pods of a stage, and these.

    Args:
      stage: what they make.
    """

    def __init__(self, stage: Stage):
        super().__init__(stage)
        self._kubectl, self._name = _kubectl(stage), _name(stage)
        self._kind = stage.section.kind
        self._selector = f"--selector={RUN}={self._name}"
        self._was_there = False

    @property
    def title(self) -> str:  # type: ignore[override]
        """As kubectl takes it."""
        return f"{RESOURCES[self._kind].partition('.')[0]}/{self._name}"

    def find(self) -> dict[str, Any] | None:
        """The object that runs, also of another kind than the job file has by now.

        Raises:
          UserError: if the cluster does not answer.
        """
        for item in self._objects():
            kind = item["kind"].lower()
            if kind in RESOURCES and end_of(item) is None and "deletionTimestamp" not in item["metadata"]:
                self._kind, self._was_there = kind, True
                return item
        return None

    def _objects(self) -> list[dict[str, Any]]:
        """All that was made for a run of this name, of whatever kind; not what other objects made."""
        beside = [resource for resources in BESIDE.values() for resource in resources]
        own = [RESOURCES[self._kind], *BESIDE.get(self._kind, ())]
        with remote.answered(CLUSTER):
            known = self._kubectl.known([*RESOURCES.values(), *beside])
            try:
                objects = self._kubectl.listed(",".join(known), self._selector)
            except UserError:  # who may start jobs may not see all the others
                objects = self._kubectl.listed(",".join(own), self._selector)
        return [item for item in objects if "ownerReferences" not in item["metadata"]]

    def start(self) -> None:
        """Makes the object, in the place of one that has ended."""
        self._delete()
        self._wait_until_gone()
        for item in _manifests(self._stage, count_once(self._stage)):
            try:
                self._kubectl.create(item)
            except Exists:
                raise UserError(f"{self._stage.output}: {self.title} was just started by someone else") from None
            except UserError:
                with suppress(UserError):  # what was made before it is of no use alone
                    self._delete()
                raise

    def _delete(self) -> None:
        for item in self._objects():
            with remote.answered(CLUSTER):
                self._kubectl.delete(item)

    def _wait_until_gone(self) -> None:
        end = time.monotonic() + GONE_SECONDS
        while True:
            with remote.answered(CLUSTER):
                if not self._objects() and not self._pods():
                    return
            if time.monotonic() > end:
                pods = self._kubectl.words("get", "pods", self._selector)
                raise UserError(f"{self.title} of an earlier run does not end; see `{pods}`")
            time.sleep(remote.POLL_SECONDS / 4)

    def _pods(self) -> list[Pod]:
        """All pods, in the order in which they were made."""
        items = self._kubectl.listed("pods", self._selector)
        return sorted((read_pod(item, CONTAINERS[self._kind]) for item in items), key=lambda pod: pod.created)

    def follow(self, progress: StageProgress, display: Display) -> int:
        tail = TAIL if self._was_there else None
        with closing(PodLog(self._kubectl, display, CONTAINERS[self._kind], tail)) as log:
            return self._follow(progress, display, log)

    def _follow(self, progress: StageProgress, display: Display, log: PodLog) -> int:
        whole_at, chief = time.monotonic(), ""
        hopeless: dict[str, float] = {}  # when a pod was first seen so, by its uid
        while True:
            item, every = remote.ask_patiently(
                CLUSTER, lambda: (self._kubectl.get(RESOURCES[self._kind], self._name), self._pods()), self._say
            )
            if item is None or "deletionTimestamp" in item["metadata"]:
                self._say(f"{self.title} was deleted; run the same command to go on")
                return 1
            pods, now = newest(every), time.monotonic()
            first = next((pod for pod in pods if pod.index == 0), None)
            if first and chief and first.uid != chief:
                self._say("starts again" + (" from its last checkpoint" if self._stage.checkpoints else ""))
            chief = first.uid if first else chief
            log.follow(first if first and first.phase != "Pending" else None)
            if end := end_of(item):
                log.finish()
                return self._judge(*end, every)
            if len(pods) == self._stage.workers and all(pod.phase != "Pending" for pod in pods):
                whole_at = now
            hopeless = {pod.uid: hopeless.get(pod.uid, now) for pod in pods if pod.is_hopeless}
            if why := self._given_up(pods, hopeless, now, whole_at):
                self._delete()
                self._say(f"{why}; {self.title} is given up")
                return 1
            progress.phase = words_for(
                pods, self._stage.workers, self._warning() if now > whole_at + CALM_SECONDS else ""
            )
            display.show(progress)
            time.sleep(remote.POLL_SECONDS)

    def _given_up(self, pods: Sequence[Pod], hopeless: dict[str, float], now: float, whole_at: float) -> str:
        """Why pods that do not all run will not; empty where they may."""
        for pod in pods:
            if now > hopeless.get(pod.uid, now) + HOPELESS_SECONDS:
                return pod.waits_for
        if now <= whole_at + seconds_of(self._stage.section.start_timeout):
            return ""
        reason = next((pod.waits_for for pod in pods if pod.waits_for), "") or self._warning()
        timeout = f"launch.{launch_key(self._stage.name)}.kubernetes.start_timeout"
        return f"after {timeout} not all pods run: {reason or 'the cluster does not say why'}"

    def _warning(self) -> str:
        """What the cluster last warned of; empty where it did not, or does not tell."""
        try:
            events = self._kubectl.listed("events", "--field-selector=type=Warning")
        except (remote.Unreachable, UserError):
            return ""
        ours = [event for event in events if event["involvedObject"].get("name", "").startswith(self._name)]
        ours.sort(key=lambda event: event.get("lastTimestamp") or event.get("eventTime") or "")
        return str(ours[-1].get("message", "")) if ours else ""

    def _judge(self, well: bool, message: str, pods: Sequence[Pod]) -> int:
        """The exit code of a run that has ended."""
        stage = self._stage
        if well:
            return self._check_published(f"see {self._logs()}")
        pod = failed_first(pods)
        if pod is None:
            self._say(f"{self.title} failed: {message or self._warning() or 'the cluster does not say why'}")
            return 1
        if pod.reason == "OOMKilled":
            more = ", or start more workers" if stage.checkpoints else ""
            advice = f"raise launch.{launch_key(stage.name)}.kubernetes.memory{more}"
            self._say(f"pod {pod.name} was killed, as it ran out of memory; {advice}")
            return 1
        if pod.code and pod.code < KILLED:
            self._say(f"{last_line(self._kubectl, pod, CONTAINERS[self._kind])}; see {self._logs(pod)}")
            return 2 if pod.code == USER_MISTAKE else 1
        ended = f"pod {pod.name} was ended" + (f" ({pod.reason})" if pod.reason not in ("", "Error") else "")
        self._say(f"{ended}; {message or self.title + ' failed'}; run the same command to go on; see {self._logs(pod)}")
        return 1

    def _logs(self, pod: Pod | None = None) -> str:
        return f"`{self._kubectl.words('logs', pod.name if pod else self._selector)}`"

    def cancel(self) -> None:
        self._delete()
        self._say(f"{self.title} is asked to stop")

    def state(self) -> str:
        with remote.answered(CLUSTER):
            return words_for(newest(self._pods()), self._stage.workers)
