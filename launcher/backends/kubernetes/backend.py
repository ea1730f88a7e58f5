"""Runs stages as pods of Kubernetes: makes the object that starts them, or finds it, and follows it to its end."""

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import yaml

from beamfeed.contract import options, storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.section import Section
from beamfeed.contract.config.variables import escaped
from beamfeed.contract.errors import USER_MISTAKE, UserError
from beamfeed.launcher.backends.kubernetes.kubectl import Exists, Kubectl, Unreachable
from beamfeed.launcher.backends.kubernetes.manifests import (
    JOB_FILE,
    JOB_FOLDER,
    RESOURCES,
    RUN,
    RUNTIME,
    WORK,
    manifests,
    start_seconds,
)
from beamfeed.launcher.backends.kubernetes.section import KubernetesSection
from beamfeed.launcher.backends.kubernetes.state import Pod, end_of, failed_first, read_pod, words_for
from beamfeed.launcher.backends.remote import PATIENCE, POLL_SECONDS, is_published, job_name, place_of, work_of
from beamfeed.launcher.display import Display, Lines
from beamfeed.launcher.progress import StageProgress
from beamfeed.launcher.stage import PREPROCESS, TRAIN, Stage

LONGEST_NAME = 16  # of the words in a name: with those of its worker, the name of a pod's host has 63 letters at most
GONE_SECONDS = 180.0  # until the pods of an earlier run have saved and ended
HOPELESS_SECONDS = 120.0  # for an image that cannot be had; the cluster tries that again
CALM_SECONDS = 30.0  # without a pod, it is worth asking why
NEEDS = "launch.{stage}.kubernetes.volumes"


class KubernetesBackend:
    """Each worker is a pod. The same command finds a job that runs by its name."""

    stages: ClassVar[tuple[str, ...]] = (PREPROCESS, TRAIN)
    section: ClassVar[type[Section] | None] = KubernetesSection

    def check(self, job: Job, name: str) -> None:
        """Raises UserError where there is no kubectl, or pods would not see a path."""
        section = _section((job.launch.preprocess if name == PREPROCESS else job.launch.train).section("kubernetes"))
        Kubectl(section.context, section.namespace, name).check_installed()
        inputs = [(job.source.key_of(path), path) for path in job.source.patterns] if name == PREPROCESS else []
        paths = [*inputs, ("output.path", job.output.path)]
        if name == TRAIN and job.train is not None:
            paths.append(("train.workdir", job.train.workdir))
        for key, path in paths:
            if not storage.is_remote(path) and not any(_is_in(path, volume.path) for volume in section.volumes):
                raise UserError(
                    f"{key}: {path} is in no volume of {NEEDS.format(stage=name)}, so the pods do not see it; give a "
                    "gs:// path, or an absolute path in a volume that is mounted at the same path here"
                )

    def command(self, name: str, job: Job, arguments: Sequence[str], fingerprint: str) -> tuple[str, ...]:
        section = _section((job.launch.preprocess if name == PREPROCESS else job.launch.train).section("kubernetes"))
        program = options.PREPROCESS if name == PREPROCESS else options.TRAIN
        rest = {**vars(program.parse(arguments)), "job": f"{JOB_FOLDER}/{JOB_FILE}", "set": []}  # the file has them
        beam_options = rest.pop("beam_options")
        return (section.python, "-m", program.module, *program.arguments(rest, beam_options))

    def describe(self, stage: Stage) -> list[str]:
        documents = yaml.safe_dump_all(_manifests(stage, ()), sort_keys=False, width=1000)
        return [f"{_kubectl(stage).words('create', '-f', '-')} <<'END'\n{documents}END"]

    def submit(self, stage: Stage, display: Display) -> "KubernetesRun":
        run = KubernetesRun(stage, display)
        found = run.find()
        if found and (stage.starts_anew or found != work_of(stage)):
            raise UserError(
                f"{stage.output}: {run.title} of Kubernetes is writing there with other input, settings or options; "
                "wait for it, choose another folder, or stop it with `beamfeed cancel`"
            )
        if found:
            display.say(f"{stage.name}: {run.title} is running already; following it")
        else:
            run.start()
            display.say(f"{stage.name}: {run.title} of Kubernetes")
        return run

    def find(self, stage: Stage) -> "KubernetesRun | None":
        run = KubernetesRun(stage, Lines())
        return run if run.find() else None


def _section(section: object) -> KubernetesSection:
    assert isinstance(section, KubernetesSection)
    return section


def _is_in(path: str, folder: str) -> bool:
    return os.path.isabs(path) and os.path.commonpath([path, folder]) == folder.rstrip("/")


def _kubectl(stage: Stage) -> Kubectl:
    section = _section(stage.section)
    return Kubectl(section.context, section.namespace, PREPROCESS if stage.name == PREPROCESS else TRAIN)


def _name(stage: Stage) -> str:
    return job_name(place_of(stage), LONGEST_NAME)


def _manifests(stage: Stage, more: Sequence[str]) -> list[dict[str, Any]]:
    assert stage.job is not None
    # With the values that it has here; where stages run is no matter of the pods.
    values = stage.job.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"launch"})
    text = yaml.safe_dump(escaped(values), sort_keys=False, width=1000)
    restarts = stage.restarts if stage.checkpoints else None
    command = (*stage.command, *more)
    return manifests(_section(stage.section), command, text, _name(stage), stage.workers, restarts, work_of(stage))


class KubernetesRun:
    """The object that starts the pods of a stage, and these.

    Args:
      stage: what they make.
      display: shows it.
    """

    def __init__(self, stage: Stage, display: Display):
        self._stage, self._display = stage, display
        self._kubectl, self._name = _kubectl(stage), _name(stage)
        self._resource = RESOURCES[_section(stage.section).kind]
        self._log = _PodLog(self._kubectl, display)
        self.title = f"{self._resource.partition('.')[0]}/{self._name}"

    def find(self) -> str | None:
        """What the object makes, if it has not ended.

        Raises:
          UserError: if the cluster does not answer.
        """
        try:
            item = self._kubectl.get(self._resource, self._name)
        except Unreachable as error:
            raise UserError(f"the cluster does not answer: {error}") from None
        if item is None or end_of(item) or "deletionTimestamp" in item["metadata"]:
            return None
        return str(item["metadata"].get("annotations", {}).get(WORK, ""))

    def start(self) -> None:
        """Makes the object, in the place of one that has ended."""
        more = []
        if self._stage.starts_anew and not self._stage.once:
            more = options.ONCE.write(uuid.uuid4().hex)  # it counts once, also where the cluster starts it again
        self._delete()
        self._wait_until_gone()
        made = _manifests(self._stage, more)
        for item in made:
            try:
                self._kubectl.create(item)
            except Exists:
                if item is made[-1]:
                    raise UserError(f"{self._stage.output}: {self.title} was just started by someone else") from None

    def _delete(self) -> None:
        with _answered():
            self._kubectl.delete(self._resource, self._name)
            if self._resource == RESOURCES["trainjob"]:
                self._kubectl.delete(RUNTIME, self._name)
            if self._resource == RESOURCES["job"]:
                self._kubectl.delete("services", self._name)

    def _wait_until_gone(self) -> None:
        end = time.monotonic() + GONE_SECONDS
        while True:
            with _answered():
                if self._kubectl.get(self._resource, self._name) is None and not self._pods():
                    return
            if time.monotonic() > end:
                raise UserError(
                    f"{self.title} of an earlier run does not end; see `kubectl get pods -l {RUN}={self._name}`"
                )
            time.sleep(POLL_SECONDS / 4)

    def _pods(self) -> list[Pod]:
        return [read_pod(item) for item in self._kubectl.listed("pods", f"--selector={RUN}={self._name}")]

    def follow(self, progress: StageProgress) -> int:
        try:
            return self._follow(progress)
        finally:
            self._log.close()

    def _follow(self, progress: StageProgress) -> int:
        unanswered, began, uids = 0, time.monotonic(), set[str]()
        while True:
            try:
                item, pods = self._kubectl.get(self._resource, self._name), self._pods()
                unanswered = 0
            except Unreachable as error:
                unanswered += 1
                if unanswered == 1:
                    self._say(f"the cluster does not answer ({error}); trying again")
                if unanswered >= PATIENCE:
                    raise UserError(f"the cluster does not answer: {error}") from None
                time.sleep(POLL_SECONDS)
                continue
            if item is None or "deletionTimestamp" in item["metadata"]:
                self._say(f"{self.title} was deleted; run the same command to go on")
                return 1
            new = {pod.uid for pod in pods} - uids
            if uids and new:
                self._say("starts again from its last checkpoint" if self._stage.checkpoints else "starts again")
            uids |= new if len(pods) == self._stage.workers else set()
            self._log.follow(next((pod for pod in pods if pod.index == 0 and pod.phase != "Pending"), None))
            if end := end_of(item):
                return self._judge(end.well, end.message, pods)
            if all(pod.phase == "Running" for pod in pods) and pods:
                began = time.monotonic()
            if why := self._hopeless(pods, time.monotonic() - began):
                self._delete()
                self._say(f"{why}; {self.title} is given up")
                return 1
            progress.phase = words_for(pods)
            self._display.show(progress)
            time.sleep(POLL_SECONDS)

    def _hopeless(self, pods: Sequence[Pod], seconds: float) -> str:
        """Why pods that have not all run for so long will not; empty where they may."""
        waiting = [pod for pod in pods if pod.phase == "Pending"]
        if image := next((pod for pod in waiting if pod.is_hopeless), None):
            return image.waits_for if seconds > HOPELESS_SECONDS else ""
        if seconds <= start_seconds(_section(self._stage.section)):
            return ""
        waits_for = next((pod.waits_for for pod in waiting if pod.waits_for), "") or self._warning()
        return f"after launch.{self._stage.name}.kubernetes.start_timeout not all pods run: {waits_for}"

    def _warning(self) -> str:
        """What the cluster last warned of."""
        events = self._kubectl.listed("events", "--field-selector=type=Warning")
        ours = [event for event in events if event["involvedObject"].get("name", "").startswith(self._name)]
        return str(ours[-1].get("message", "")) if ours else "the cluster does not say why"

    def _judge(self, well: bool, message: str, pods: Sequence[Pod]) -> int:
        """The exit code of a run that has ended."""
        self._log.finish()
        stage = self._stage
        if well:
            if not is_published(stage):
                self._say(f"the job ended, but {stage.output} holds no dataset of this job; see {self._logs()}")
                return 1
            return 0
        pod = failed_first(pods)
        if pod is None:
            self._say(f"{self.title} failed: {message or 'the cluster does not say why'}")
            return 1
        if pod.reason == "OOMKilled":
            self._say(
                f"pod {pod.name} was killed, as it ran out of memory; raise launch.{stage.name}.kubernetes.memory"
                + (", or start more workers" if stage.checkpoints else "")
            )
            return 1
        if pod.code and pod.code < 128:
            if line := self._log.last_line(pod):
                self._say(f"{line}; see {self._logs(pod)}")
            return 2 if pod.code == USER_MISTAKE else 1
        ended = f"pod {pod.name} was ended" + (f" ({pod.reason})" if pod.reason not in ("", "Error") else "")
        self._say(f"{ended}; {message or self.title + ' failed'}; run the same command to go on; see {self._logs(pod)}")
        return 1

    def _logs(self, pod: Pod | None = None) -> str:
        return f"`{self._kubectl.words('logs', pod.name if pod else f'--selector={RUN}={self._name}')}`"

    def leave(self) -> None:
        self._say(f"{self.title} goes on; run the same command again to follow it, or stop it with `beamfeed cancel`")

    def cancel(self) -> None:
        self._delete()
        self._say(f"{self.title} is asked to stop")

    def _say(self, line: str) -> None:
        print(f"{self._stage.name}: {line}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        raise UserError(f"the cluster does not answer: {error}") from None


class _PodLog:
    """Shows what the first worker writes, as it is written."""

    def __init__(self, kubectl: Kubectl, display: Display):
        self._kubectl, self._display = kubectl, display
        self._pod: Pod | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def follow(self, pod: Pod | None) -> None:
        """Shows the log of this pod, from where it was left."""
        if pod is None:
            return
        again = self._pod is not None and self._pod.uid == pod.uid
        if self._process is not None and self._process.poll() is None and again:
            return
        if again and pod.phase != "Running":  # it was shown to its end
            return
        self.close()
        options_ = ["--since=3s"] if again else []  # the connection was lost
        output = self._display.output()
        self._process = subprocess.Popen(
            self._kubectl.logs(pod.name, "--follow", *options_),
            stdin=subprocess.DEVNULL, stdout=output.stderr or sys.stderr.fileno(), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._pod = pod

    def finish(self) -> None:
        """Waits until what was written is shown."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)

    def last_line(self, pod: Pod) -> str:
        """The last line of a pod that is not shown already."""
        if self._pod is not None and self._pod.uid == pod.uid:
            return ""
        done = subprocess.run(self._kubectl.logs(pod.name, "--tail=5"), capture_output=True, text=True, timeout=60)
        return next((line.strip() for line in reversed(done.stdout.splitlines()) if line.strip()), "the job failed")

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
