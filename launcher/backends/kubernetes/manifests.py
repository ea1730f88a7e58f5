"""A stage as objects of Kubernetes. Pure functions."""

from collections.abc import Sequence
from typing import Any

from beamfeed.contract.cluster.tf_config import tf_config
from beamfeed.contract.cluster.worker_info import GPUS
from beamfeed.contract.verbosity import QUIET, VARIABLE, VERBOSE, is_quiet, is_verbose
from beamfeed.launcher.backends.kubernetes.section import JOB_FOLDER, KubernetesSection, Volume

PORT = 2222  # of each worker, which has an address of its own
JOB_FILE = "job.yaml"
SCRATCH = "/tmp"  # noqa: S108 - of a pod, which has it for itself
SAVE_SECONDS = 90  # from SIGTERM, for the step that is under way and a checkpoint
KEEP_SECONDS = 24 * 3600  # an object that has ended, with its logs
OURS = {"app.kubernetes.io/managed-by": "beamfeed"}
RUN = "app.kubernetes.io/instance"  # the label of all that belongs to a run
JOB_TEXT, WORK = "beamfeed/job", "beamfeed/work"  # annotations: the job file, and what is made with which options
INDEX = "BEAMFEED_INDEX"
# Codes of a process that failed by itself; from 129 on something ended it, and the workers start again.
FAILED = [1, 2, 126, 127, 128]

# By the kind of the section: the type of the object that is watched, for kubectl; its container; its hosts.
RESOURCES = {
    "jobset": "jobsets.jobset.x-k8s.io",
    "job": "jobs.batch",
    "trainjob": "trainjobs.trainer.kubeflow.org",
    "tfjob": "tfjobs.kubeflow.org",
}
# What stands beside it, by the same name.
BESIDE = {"job": ["services"], "trainjob": ["trainingruntimes.trainer.kubeflow.org"]}
CONTAINERS = {"jobset": "worker", "job": "worker", "trainjob": "node", "tfjob": "tensorflow"}
HOSTS = {
    "jobset": "{name}-worker-0-{index}.{name}",
    "job": "{name}-{index}.{name}",
    "trainjob": "{name}-node-0-{index}.{name}",
}


def manifests(
    section: KubernetesSection,
    command: Sequence[str],
    job_text: str,
    name: str,
    workers: int,
    restarts: int | None,
    work: str,
) -> list[dict[str, Any]]:
    """The objects of a stage: what it needs, and last what starts the pods.

    Args:
      section: what the job asks for.
      command: of each pod.
      job_text: of the job file, which the pods find at `JOB_FOLDER`.
      name: of the objects.
      workers: pods that work together.
      restarts: how often they start again where one was lost; None for a stage that would begin from the start.
      work: what it makes, with which options.
    """
    pod = _pod(section, command, job_text, name, workers)
    makers = {"jobset": _jobset, "job": _job, "trainjob": _trainjob, "tfjob": _tfjob}
    objects = makers[section.kind](pod, name, workers, restarts or 0)
    objects[-1]["metadata"]["annotations"] = {WORK: work}
    return objects


def _jobset(pod: dict[str, Any], name: str, workers: int, restarts: int) -> list[dict[str, Any]]:
    spec = {
        "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
        "failurePolicy": _failure_policy(restarts),
        "ttlSecondsAfterFinished": KEEP_SECONDS,
        "replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": _job_spec(pod, workers, 0)}}],
    }
    return [_object("jobset.x-k8s.io/v1alpha2", "JobSet", name, spec)]


def _failure_policy(restarts: int) -> dict[str, Any]:
    mistaken = {"name": "failed", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}
    return {"maxRestarts": restarts, "rules": [mistaken]}


def _job(pod: dict[str, Any], name: str, workers: int, restarts: int) -> list[dict[str, Any]]:
    """A job, and the service that gives its pods their host names."""
    pod["spec"]["subdomain"] = name
    of_service = {"clusterIP": "None", "selector": {RUN: name}, "publishNotReadyAddresses": True}
    # A worker that is lost takes all with it, each of which counts.
    spec = {**_job_spec(pod, workers, restarts * workers), "ttlSecondsAfterFinished": KEEP_SECONDS}
    return [_object("v1", "Service", name, of_service), _object("batch/v1", "Job", name, spec)]


def _job_spec(pod: dict[str, Any], workers: int, again: int) -> dict[str, Any]:
    container = pod["spec"]["containers"][0]["name"]
    codes = {"containerName": container, "operator": "In", "values": FAILED}
    return {
        "completions": workers,
        "parallelism": workers,
        "completionMode": "Indexed",
        "backoffLimit": again,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": codes}]},
        "template": pod,
    }


def _trainjob(pod: dict[str, Any], name: str, workers: int, restarts: int) -> list[dict[str, Any]]:
    """Kubeflow Trainer has no runtime for TensorFlow, so the job brings its own."""
    job = {
        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
        "spec": _job_spec(pod, workers, 0),
    }
    job_set = {
        "network": {"publishNotReadyAddresses": True},
        "failurePolicy": _failure_policy(restarts),
        "replicatedJobs": [{"name": "node", "replicas": 1, "template": job}],
    }
    runtime = {"mlPolicy": {"numNodes": workers}, "template": {"spec": job_set}}
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": name}
    train = {"runtimeRef": reference, "trainer": {"numNodes": workers}}
    version = "trainer.kubeflow.org/v1alpha1"
    return [_object(version, "TrainingRuntime", name, runtime), _object(version, "TrainJob", name, train)]


def _tfjob(pod: dict[str, Any], name: str, workers: int, restarts: int) -> list[dict[str, Any]]:
    again = {"restartPolicy": "ExitCode" if restarts else "Never", "replicas": workers, "template": pod}
    policy = {
        "backoffLimit": restarts * workers,
        "ttlSecondsAfterFinished": KEEP_SECONDS,
        "cleanPodPolicy": "None",
    }
    return [_object("kubeflow.org/v1", "TFJob", name, {"runPolicy": policy, "tfReplicaSpecs": {"Worker": again}})]


def _object(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "labels": {**OURS, RUN: name}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _pod(section: KubernetesSection, command: Sequence[str], job_text: str, name: str, workers: int) -> dict[str, Any]:
    """The template of the pods: they run as a user, can write to their volumes and /tmp alone, and have no token."""
    volumes = {f"volume-{i}": volume for i, volume in enumerate(section.volumes)}
    scratch = {} if SCRATCH in {volume.folder for volume in section.volumes} else {"tmp": SCRATCH}
    job_file = {"path": JOB_FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{JOB_TEXT}']"}}
    container = {
        "name": CONTAINERS[section.kind],
        "image": section.image,
        "command": [plain(part) for part in command],
        "env": _environment(section, name, workers),
        "envFrom": [{"secretRef": {"name": secret}} for secret in section.secrets],
        "ports": [{"name": "tfjob-port", "containerPort": PORT}],  # as the operator of a TFJob calls it
        "resources": _resources(section),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "job", "mountPath": JOB_FOLDER, "readOnly": True},
            *({"name": key, "mountPath": path} for key, path in scratch.items()),
            *(
                {"name": key, "mountPath": volume.path, **({"readOnly": True} if volume.secret else {})}
                for key, volume in volumes.items()
            ),
        ],
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": SAVE_SECONDS,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": section.user,
            "runAsGroup": section.user,
            "fsGroup": section.user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "job", "downwardAPI": {"items": [job_file]}},
            *({"name": key, "emptyDir": {}} for key in scratch),
            *({"name": key, **_source(volume)} for key, volume in volumes.items()),
        ],
    }
    optional = {
        "serviceAccountName": section.service_account,
        "nodeSelector": section.node_selector,
        "tolerations": section.tolerations,
        "priorityClassName": section.priority_class,
    }
    spec |= {key: value for key, value in optional.items() if value}
    return {"metadata": {"labels": {**OURS, RUN: name}, "annotations": {JOB_TEXT: job_text}}, "spec": spec}


def _environment(section: KubernetesSection, name: str, workers: int) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = [{"name": "HOME", "value": SCRATCH}]
    if is_quiet() or is_verbose():
        written.append({"name": VARIABLE, "value": QUIET if is_quiet() else VERBOSE})
    written += [{"name": key, "value": plain(value)} for key, value in section.env.items()]
    if section.gpus and "/mig-" not in section.gpu_resource:  # of parts of GPUs, a process sees one
        written.append({"name": GPUS, "value": str(section.gpus)})
    if workers > 1 and section.kind in HOSTS:
        addresses = [f"{HOSTS[section.kind].format(name=name, index=index)}:{PORT}" for index in range(workers)]
        index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
        written.append({"name": INDEX, "valueFrom": index})
        written.append({"name": "TF_CONFIG", "value": tf_config(addresses, f"$({INDEX})")})
    return written


def plain(text: str) -> str:
    """A text in which Kubernetes finds no `$(NAME)` to replace."""
    return text.replace("$", "$$")


def _resources(section: KubernetesSection) -> dict[str, Any]:
    requests = {
        key: value
        for key, value in (("cpu", section.cpus and f"{section.cpus:g}"), ("memory", section.memory))
        if value
    }
    limits: dict[str, Any] = {"memory": section.memory} if section.memory else {}
    if section.gpus:
        limits[section.gpu_resource] = section.gpus
    return {key: value for key, value in (("requests", requests), ("limits", limits)) if value}


def _source(volume: Volume) -> dict[str, Any]:
    if volume.claim:
        return {"persistentVolumeClaim": {"claimName": volume.claim}}
    return {"secret": {"secretName": volume.secret}} if volume.secret else dict(volume.source or {})
