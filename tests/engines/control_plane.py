"""Kubernetes for real, without its nodes: etcd, the API server, the controller manager, and the controller of JobSets.

Debian has etcd; Go builds the others once, into out/engines/kubernetes.
"""

import base64
import json
import re
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from engines.beam_engines import CACHE, free_port, running

KUBERNETES, JOBSET, TRAINER, OPERATOR = "1.31.4", "0.10.1", "2.1.0", "1.7.0"
TOKEN = "of-the-tests"
START_SECONDS, BUILD_SECONDS = 90.0, 1800.0
# What a program is built from: its module with its version, and the package.
PROGRAMS = {
    "kube-apiserver": ("k8s.io/kubernetes", KUBERNETES, "cmd/kube-apiserver"),
    "kube-controller-manager": ("k8s.io/kubernetes", KUBERNETES, "cmd/kube-controller-manager"),
    "jobset-controller": ("sigs.k8s.io/jobset", JOBSET, ""),
    "training-operator": ("github.com/kubeflow/training-operator", OPERATOR, "cmd/training-operator.v1"),
    "trainer-manager": ("github.com/kubeflow/trainer/v2", TRAINER, "cmd/trainer-controller-manager"),
}
CONTROLLERS = "job-controller,garbage-collector-controller,ttl-after-finished-controller"


def program(name: str) -> Path:
    """A program of the control plane; the test is skipped where Go cannot build it."""
    built = CACHE / "kubernetes" / name
    if built.exists():
        return built
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    module, version, package = PROGRAMS[name]
    folder = CACHE / "kubernetes" / f"{name}-source"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = f"{module}/{package}".rstrip("/")
    (folder / "tools.go").write_text(f'//go:build tools\n\npackage tools\n\nimport _ "{path}"\n')
    _go(folder, "mod", "init", "probe")
    _go(folder, "mod", "edit", f"-require={module}@v{version}")
    if module == "k8s.io/kubernetes":  # its own parts are named as folders beside it
        _go(folder, "mod", "download", f"{module}@v{version}")
        text = (source_of(module, version) / "go.mod").read_text()
        for part in re.findall(r"^\s*(k8s\.io/[a-z-]+) => \./staging", text, re.MULTILINE):
            _go(folder, "mod", "edit", f"-replace={part}={part}@v0.{version.partition('.')[2]}")
    _go(folder, "mod", "tidy")
    _go(folder, "build", "-o", str(built), path)
    return built


def source_of(module: str, version: str) -> Path:
    """Where Go keeps the files of a module, such as what they install."""
    cache = subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(cache) / f"{module}@v{version}"


def _go(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["go", *arguments], cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS)
    if done.returncode:
        pytest.skip(f"Go does not build {folder.name}: {done.stderr.strip()[-300:]}")


@dataclass
class Api:
    """The API server, for what tests ask of it.

    Attributes:
      server: its address.
      config: the file by which kubectl and controllers find it.
    """

    server: str
    config: Path

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """A request, with a body and an answer in JSON; None for what is not there."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=30) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:800]}") from None

    def patch(self, path: str, body: Any) -> Any:
        return self.call("PATCH", path, body, "application/merge-patch+json")


CONFIG = """
apiVersion: v1
kind: Config
clusters: [{{name: tests, cluster: {{server: "{server}", insecure-skip-tls-verify: true}}}}]
users: [{{name: tests, user: {{token: {token}}}}}]
contexts: [{{name: tests, context: {{cluster: tests, user: tests}}}}]
current-context: tests
"""


@contextmanager
def control_plane(folder: Path) -> Iterator[Api]:
    """A cluster without nodes."""
    missing = [name for name in ("etcd", "kubectl", "openssl") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed (apt-get install etcd-server; kubectl of kubernetes.io)")
    paths = {name: str(program(name)) for name in ("kube-apiserver", "kube-controller-manager", "jobset-controller")}
    _make_keys(folder)
    etcd, peer, port = free_port(), free_port(), free_port()
    api = Api(f"https://127.0.0.1:{port}", folder / "config.yaml")
    api.config.write_text(CONFIG.format(server=api.server, token=TOKEN))
    store, peers = f"http://127.0.0.1:{etcd}", f"http://127.0.0.1:{peer}"
    with ExitStack() as stack:

        def start(name: str, *command: str, **env: str) -> None:
            stack.enter_context(running(command, folder / f"{name}.log", env=env, cwd=folder))

        start("etcd", "etcd", f"--data-dir={folder}/etcd", f"--listen-client-urls={store}",
              f"--advertise-client-urls={store}", f"--listen-peer-urls={peers}",
              f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}")  # fmt: skip
        start("api", paths["kube-apiserver"], f"--etcd-servers={store}", "--service-account-key-file=account.pub",
              "--service-account-signing-key-file=account.key", "--service-account-issuer=https://localhost",
              f"--cert-dir={folder}/certs", "--bind-address=127.0.0.1", f"--secure-port={port}",
              "--authorization-mode=AlwaysAllow", "--token-auth-file=tokens.csv",
              "--kubelet-preferred-address-types=InternalIP", "--service-cluster-ip-range=10.0.0.0/24",
              "--disable-admission-plugins=ServiceAccount")  # fmt: skip
        _wait(lambda: _ready(api), folder / "api.log")
        start("manager", paths["kube-controller-manager"], f"--kubeconfig={api.config}", "--leader-elect=false",
              "--service-account-private-key-file=account.key", f"--controllers={CONTROLLERS}",
              "--bind-address=127.0.0.1", f"--secure-port={free_port()}")  # fmt: skip
        _add_jobsets(api, folder, start, paths["jobset-controller"])
        yield api


@contextmanager
def kubeflow_trainer(api: Api) -> Iterator[None]:
    """The controller of TrainJobs beside the others."""
    path, folder, port = program("trainer-manager"), api.config.parent, free_port()
    manifests = source_of("github.com/kubeflow/trainer/v2", TRAINER) / "manifests/base"
    add_types(api, *sorted((manifests / "crds").glob("trainer*.yaml")))
    for kind in ("trainjobs", "trainingruntimes", "clustertrainingruntimes"):
        _wait(lambda kind=kind: api.call("GET", f"/apis/trainer.kubeflow.org/v1alpha1/{kind}"), folder / "api.log")
    keys = folder / "k8s-webhook-server" / "serving-certs"  # where it looks below TMPDIR
    keys.mkdir(parents=True)
    for name in ("tls.crt", "tls.key"):
        shutil.copy(folder / name, keys)
    settings = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1", "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}", "secureServing": False},
        "webhook": {"port": port, "host": "127.0.0.1"},
        "leaderElection": {"leaderElect": False}, "certManagement": {"enable": False},
    }  # fmt: skip
    (folder / "trainer.yaml").write_text(yaml.safe_dump(settings))
    env = {"KUBECONFIG": str(api.config), "TMPDIR": str(folder)}
    with running([str(path), "--config=trainer.yaml"], folder / "trainer.log", env=env, cwd=folder):
        wait_for_port_open(port, folder / "trainer.log")
        add_checks(api, manifests / "webhook/manifests.yaml", port, folder, "trainer-")
        yield


@contextmanager
def kubeflow_operator(api: Api) -> Iterator[None]:
    """The controller of TFJobs beside the others."""
    path, folder, health = program("training-operator"), api.config.parent, free_port()
    types = source_of("github.com/kubeflow/training-operator", OPERATOR) / "manifests/base/crds"
    add_types(api, types / "kubeflow.org_tfjobs.yaml")
    _wait(lambda: api.call("GET", "/apis/kubeflow.org/v1/tfjobs"), folder / "api.log")
    command = [str(path), "--enable-scheme=tfjob", f"--health-probe-bind-address=127.0.0.1:{health}"]
    command.append(f"--metrics-bind-address=127.0.0.1:{free_port()}")
    with running(command, folder / "operator.log", env={"KUBECONFIG": str(api.config)}, cwd=folder):
        wait_for_port_open(health, folder / "operator.log")
        yield


def _ready(api: Api) -> bool:
    try:
        return api.call("GET", "/api/v1/namespaces/default") is not None
    except (AssertionError, OSError):
        return False


def _wait(holds: Any, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while not holds():
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.3)


def _make_keys(folder: Path) -> None:
    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    openssl("genrsa", "-out", "account.key", "2048")
    openssl("rsa", "-in", "account.key", "-pubout", "-out", "account.pub")
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "tls.key", "-out", "tls.crt", "-days", "10",
            "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1")  # fmt: skip
    (folder / "tokens.csv").write_text(f'{TOKEN},tests,1,"system:masters"\n')


def _add_jobsets(api: Api, folder: Path, start: Any, controller: str) -> None:
    """The type JobSet, its controller, and the checks that the API server asks of it."""
    source, port = source_of("sigs.k8s.io/jobset", JOBSET), free_port()
    add_types(api, source / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml")
    settings = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{free_port()}"},
        "metrics": {"bindAddress": f"127.0.0.1:{free_port()}"},
        "webhook": {"port": port, "host": "127.0.0.1", "certDir": str(folder)},
        "leaderElection": {"leaderElect": False}, "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 50, "burst": 100},
    }  # fmt: skip
    (folder / "jobset.yaml").write_text(yaml.safe_dump(settings))
    start("jobset", controller, "--config=jobset.yaml", KUBECONFIG=str(api.config))
    wait_for_port_open(port, folder / "jobset.log")
    add_checks(api, source / "config/components/webhook/manifests.yaml", port, folder, "")


def wait_for_port_open(port: int, log: Path) -> None:
    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    _wait(listens, log)


def add_types(api: Api, *files: Path) -> None:
    """Teaches the API server the types of these files."""
    for file in files:
        for item in yaml.safe_load_all(file.read_text()):
            api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", item)


def add_checks(api: Api, file: Path, port: int, folder: Path, before: str) -> None:
    """Lets the API server ask a controller on this machine, in place of a service of the cluster."""
    authority = base64.b64encode((folder / "tls.crt").read_bytes()).decode()
    for item in yaml.safe_load_all(file.read_text()):
        for hook in item["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{port}{path}", "caBundle": authority}
            if "pod" in path:  # only of JobSets
                named = {"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}
                hook["objectSelector"] = {"matchExpressions": [named]}
        item["metadata"]["name"] = before + item["metadata"]["name"]
        api.call("POST", f"/apis/admissionregistration.k8s.io/v1/{item['kind'].lower()}s", item)
