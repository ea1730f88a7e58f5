"""The objects of a stage. Whether a cluster takes and runs them: tests/engines/test_kubernetes.py."""

import json

import pytest

from beamfeed.launcher.backends.kubernetes.manifests import FAILED, JOB_TEXT, RESOURCES, RUN, manifests
from beamfeed.launcher.backends.kubernetes.section import KubernetesSection

SECTION = {
    "image": "registry/beamfeed:1", "cpus": 4, "memory": "16Gi", "gpus": 2, "service_account": "trainer",
    "volumes": [
        {"path": "/data", "claim": "fleet"}, {"path": "/keys", "secret": "key"},
        {"path": "/nfs", "source": {"nfs": {"server": "files", "path": "/a"}}},
    ],
    "env": {"NOTE": "costs $(5)"}, "secrets": ["login"], "node_selector": {"cloud.google.com/gke-spot": "true"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}], "priority_class": "batch", "user": 1234,
}  # fmt: skip


def made(kind="jobset", workers=3, restarts=2, **changed):
    section = KubernetesSection.model_validate({**SECTION, "kind": kind, **changed})
    return manifests(section, ("python", "-m", "x", "$HOME"), "name: a\n", "run", workers, restarts, "work")


def template_in(item):
    """The template of the pods, wherever an object holds it."""
    if isinstance(item, dict):
        if JOB_TEXT in item.get("metadata", {}).get("annotations", {}):
            return item
        item = list(item.values())
    found = [template_in(one) for one in item] if isinstance(item, list) else []
    return next((one for one in found if one), None)


@pytest.mark.parametrize("kind", RESOURCES)
def test_all_that_the_job_file_asks_for_is_in_the_pods(kind):
    items = made(kind)
    assert {item["metadata"]["name"] for item in items} == {"run"}
    assert {item["metadata"]["labels"][RUN] for item in items} == {"run"}
    pod = template_in(items)
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert pod["metadata"]["annotations"] == {JOB_TEXT: "name: a\n"}
    assert container["image"] == "registry/beamfeed:1"
    assert container["command"] == ["python", "-m", "x", "$$HOME"]  # Kubernetes makes one $ of two
    assert {"name": "NOTE", "value": "costs $$(5)"} in container["env"]
    assert {"name": "BEAMFEED_GPUS", "value": "2"} in container["env"]
    assert container["envFrom"] == [{"secretRef": {"name": "login"}}]
    assert container["resources"] == {
        "requests": {"cpu": "4", "memory": "16Gi"},
        "limits": {"memory": "16Gi", "nvidia.com/gpu": 2},
    }
    assert spec["serviceAccountName"] == "trainer"
    assert spec["nodeSelector"] == SECTION["node_selector"]
    assert spec["tolerations"] == SECTION["tolerations"]
    assert spec["priorityClassName"] == "batch"
    sources = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume.pop("name"): volume for volume in spec["volumes"]}
    assert volumes[sources["/data"]] == {"persistentVolumeClaim": {"claimName": "fleet"}}
    assert volumes[sources["/keys"]] == {"secret": {"secretName": "key"}}
    assert volumes[sources["/nfs"]] == {"nfs": {"server": "files", "path": "/a"}}


@pytest.mark.parametrize("kind", RESOURCES)
def test_pods_may_do_little(kind):
    pod = template_in(made(kind))
    (container,) = pod["spec"]["containers"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] == 1234
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip


def test_a_volume_may_be_the_scratch_folder():
    spec = template_in(made(volumes=[{"path": "/tmp/", "source": {"emptyDir": {"medium": "Memory"}}}]))["spec"]
    mounts = {mount["mountPath"]: mount["name"] for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts == {"/etc/beamfeed": "job", "/tmp/": "volume-0"}
    assert [volume["name"] for volume in spec["volumes"]] == ["job", "volume-0"]


@pytest.mark.parametrize(
    ("kind", "hosts"),
    [
        ("jobset", ["run-worker-0-0.run:2222", "run-worker-0-1.run:2222", "run-worker-0-2.run:2222"]),
        ("job", ["run-0.run:2222", "run-1.run:2222", "run-2.run:2222"]),
        ("trainjob", ["run-node-0-0.run:2222", "run-node-0-1.run:2222", "run-node-0-2.run:2222"]),
    ],
)
def test_each_worker_is_told_of_the_others(kind, hosts):
    env = template_in(made(kind))["spec"]["containers"][0]["env"]
    names = [variable["name"] for variable in env]
    config = json.loads(next(variable["value"] for variable in env if variable["name"] == "TF_CONFIG"))
    assert config == {"cluster": {"worker": hosts}, "task": {"type": "worker", "index": "$(BEAMFEED_INDEX)"}}
    assert names.index("BEAMFEED_INDEX") < names.index("TF_CONFIG")  # only what came before is replaced


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_a_worker_alone_is_told_of_none(kind):
    env = template_in(made(kind, workers=1))["spec"]["containers"][0]["env"]
    assert "TF_CONFIG" not in {variable["name"] for variable in env}


def test_a_set_starts_again_unless_a_worker_failed_by_itself():
    (jobset,) = made()
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 2
    job = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]
    assert job["backoffLimit"] == 0
    assert job["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == FAILED
    (preprocessing,) = made(restarts=None)
    assert preprocessing["spec"]["failurePolicy"]["maxRestarts"] == 0
