"""Kubernetes: its control plane for real, pods as processes on three machines; they train to the bits of one machine."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from engines.control_plane import control_plane
from engines.kubelet import IMAGE, Kubelet
from engines.machines import machines
from engines.trained import Training, train_here

pytestmark = pytest.mark.engines


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with control_plane(tmp_path_factory.mktemp("control")) as api:
        yield api


@pytest.fixture(scope="module")
def kubelet(api, tmp_path_factory):
    with machines(3) as nodes, Kubelet(api, nodes, api.config.parent).serving() as kubelet:
        yield kubelet


@pytest.fixture(scope="module")
def volume(kubelet, tmp_path_factory):
    """A folder that all pods see at the same path, as the claim `shared`."""
    folder = tmp_path_factory.mktemp("shared")
    kubelet.claims["shared"] = folder
    return folder


@pytest.fixture(scope="module")
def job(volume):
    (volume / "job").mkdir()
    return train_here(volume / "job")


@pytest.fixture
def training(job, volume, api):
    """The job on Kubernetes."""
    section = {"image": IMAGE, "volumes": [{"path": str(volume), "claim": "shared"}], "python": sys.executable}
    overrides = ["launch.train.backend=kubernetes", f"launch.train.kubernetes={flow(section)}"]
    training = Training(
        job, Path(tempfile.mkdtemp(dir=volume), "model"), os.environ | {"KUBECONFIG": str(api.config)}, *overrides
    )
    yield training
    training.start("cancel").communicate(timeout=60)


def flow(value) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()


def left(api) -> list[str]:
    """The names of what is there of our runs."""
    kinds = ("/api/v1/pods", "/api/v1/services", "/apis/batch/v1/jobs", "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
    items = [item["metadata"] for kind in kinds for item in api.call("GET", kind)["items"]]
    return [item["name"] for item in items if item["name"].startswith("beamfeed")]


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_three_machines(training, kind):
    said = training.finished(training.start("train", f"launch.train.kubernetes.kind={kind}"))
    assert "worker 0 of 3 (TF_CONFIG)" in said


def test_a_pod_that_is_killed(training, kubelet):
    process = training.start()
    training.reached(100, process)
    os.kill(kubelet.process(1).pid, signal.SIGKILL)
    assert "starts again from its last checkpoint" in training.finished(process)
