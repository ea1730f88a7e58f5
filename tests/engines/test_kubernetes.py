"""Kubernetes: a real control plane, and pods as processes on three machines, which train to the bits of one machine."""

import os
import signal
import sys
import time

import pytest
import yaml
from engines.control_plane import control_plane, kubeflow_operator, kubeflow_trainer
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
    training = Training(  # a folder that the name of the run shows
        job,
        volume / f"run{len(os.listdir(volume))}" / "model",
        os.environ | {"KUBECONFIG": str(api.config)},
        *overrides,
    )
    yield training
    training.start("cancel").communicate(timeout=60)


def flow(value) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=10_000).strip()


def left(api, training) -> list[str]:
    """The names of what is there of a run."""
    kinds = ("/api/v1/pods", "/api/v1/services", "/apis/batch/v1/jobs", "/apis/jobset.x-k8s.io/v1alpha2/jobsets")
    return [name for kind in kinds for name in names(api, kind) if f"{training.workdir.parent.name}-model" in name]


def names(api, kind: str) -> list[str]:
    names = [item["metadata"]["name"] for item in api.call("GET", kind)["items"]]
    return [name for name in names if name.startswith("beamfeed")]


@pytest.mark.parametrize("kind", ["jobset", "job"])
def test_three_machines(training, kind):
    of_kind = f"launch.train.kubernetes.kind={kind}"
    said = training.finished(training.start("train", of_kind))
    assert "worker 0 of 3 (TF_CONFIG)" in said
    goes_on_after_its_end(training, of_kind)


def goes_on_after_its_end(training, of_kind):
    """What an ended run left in the cluster is in nobody's way."""
    assert "nothing of it is running" in training.start("cancel", of_kind).communicate(timeout=60)[1]
    process = training.start("train", of_kind, "train.epochs=26")
    _, error = process.communicate(timeout=200)
    assert process.returncode == 0, error
    assert "following it" not in error
    assert "epoch 26/26" in error


def test_a_pod_that_is_killed(training, kubelet):
    process = training.start()
    training.reached(100, process)
    os.kill(kubelet.process(1).pid, signal.SIGKILL)
    assert "starts again from its last checkpoint" in training.finished(process)


def test_a_pod_that_is_evicted(training, api):
    process = training.start()
    training.reached(100, process)
    (pod,) = [name for name in left(api, training) if "-worker-0-2-" in name]  # pods of runs that have ended stay
    api.call("DELETE", f"/api/v1/namespaces/default/pods/{pod}")
    assert "starts again from its last checkpoint" in training.finished(process)


def test_the_launcher_leaves_and_another_follows_and_cancels(training, api):
    process = training.start()
    training.reached(20, process)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "goes on; run the same command again to follow it, or stop it with `beamfeed cancel`" in error
    refused = training.start("train", "train.epochs=3")
    assert "is writing there with other input, settings or options" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    run = training.run()
    assert (run["state"], run["detail"]) == ("running", "3 pods run; nobody follows it")
    other = training.attach()
    while training.run()["detail"].endswith("nobody follows it"):
        assert other.poll() is None, other.communicate()
    cancelled = training.start("cancel")
    assert f"run {run['id']} is cancelled" in cancelled.communicate(timeout=120)[1]
    _, error = other.communicate(timeout=120)
    assert "is asked to stop" in error
    assert other.returncode == 130
    assert training.run()["state"] == "cancelled"
    end = time.monotonic() + 60
    while found := left(api, training):
        assert time.monotonic() < end, found
        time.sleep(0.5)
    assert "continuing" in (said := training.finished(training.start())), said


def test_both_stages(training, volume, job):
    both = ["launch.preprocess.backend=kubernetes", f"output.path={training.workdir.parent}/data"]
    both.append(next(value for value in training.overrides if "kubernetes=" in value).replace("train", "preprocess", 1))
    said = training.finished(training.start("run", *both))
    assert "preprocess: jobsets/beamfeed-" in said
    assert (training.workdir.parent / "data" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("override", "told", "code"),
    [
        ("launch.train.kubernetes.namespace=nowhere", 'namespaces "nowhere" not found', 2),
        (
            "launch.train.kubernetes.context=none",
            "see `kubectl config get-contexts`",
            2,
        ),
        ("launch.train.kubernetes.kind=tfjob", "the cluster does not know it; install it there, or choose another", 2),
        ("launch.train.kubernetes.volumes=[]", "is in no volume of launch.train.kubernetes.volumes", 2),
        ("launch.train.kubernetes.image=none:1", "ErrImagePull: none:1: not found", 1),
        ("launch.train.kubernetes.node_selector={gpu: a100}", "didn't match", 1),
        ("launch.train.kubernetes.python=/usr/bin/python3", "No module named '", 1),
        ("train.writers=[mlflow]", "MLFLOW_TRACKING_URI", 2),
    ],
)
def test_what_is_wrong_is_told_in_one_line(training, override, told, code):
    process = training.start("train", override, "launch.train.kubernetes.start_timeout=8s")
    _, error = process.communicate(timeout=180)
    assert process.returncode == code, error
    assert told in error.splitlines()[-1]


@pytest.mark.parametrize(("kind", "controller"), [("trainjob", kubeflow_trainer), ("tfjob", kubeflow_operator)])
# The last: the cluster knows these kinds from here on.
def test_kubeflow(training, api, kubelet, kind, controller):
    with controller(api):
        of_kind = f"launch.train.kubernetes.kind={kind}"
        process = training.start("train", of_kind)
        training.reached(100, process)
        os.kill(kubelet.process(2).pid, signal.SIGKILL)
        assert "starts again from its last checkpoint" in training.finished(process)
        goes_on_after_its_end(training, of_kind)
