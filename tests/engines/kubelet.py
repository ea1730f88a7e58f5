"""In place of the scheduler and the kubelets: pods run as processes on machines of the tests, as their specs ask.

A pod gets a file system of its own, that of this machine laid over, with its volumes, its user, a root that can only be
read where it says so, its environment, the host names that a headless service gives it, SIGTERM and its time to end. It
asks for an image by name alone. What it writes is served as a kubelet serves it, for `kubectl logs`.
"""

import base64
import contextlib
import os
import re
import shlex
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from engines.beam_engines import free_port
from engines.control_plane import Api
from engines.machines import Machine, start

from beamfeed.launcher.backends.kubernetes.state import RANKS

POLL_SECONDS = 0.2
IMAGE = "beamfeed:tests"
PROJECT = Path(__file__).resolve().parents[2]  # stands for what the image holds, also where it lies in a volume's place
LAID_OVER = """
set -e
S={folder}
mount -t tmpfs tmpfs $S
mkdir $S/upper $S/work $S/root
mount -t overlay overlay -o lowerdir=/,upperdir=$S/upper,workdir=$S/work $S/root
chmod 755 $S/root/root
{mounts}
mkdir -p $S/root{project}
mount --bind {project} $S/root{project}
mount --rbind /dev $S/root/dev
mount --rbind /proc $S/root/proc
mount --rbind /sys $S/root/sys
mount --bind /etc/hosts $S/root/etc/hosts
{locked}
cd /
exec chroot --userspec={user}:{user} $S/root env -i PATH="$PATH" {environment} {command}
"""


class Kubelet:
    """Runs pods on these machines, one at a time on each: that of worker i on machine i.

    Attributes:
      claims: folders of this machine, by the names of PersistentVolumeClaims.
    """

    def __init__(self, api: Api, machines: Sequence[Machine], folder: Path):
        self.claims: dict[str, Path] = {}
        self._api, self._machines, self._folder = api, machines, folder
        self._running: dict[str, tuple[dict[str, Any], subprocess.Popen, Machine]] = {}  # by the uid of a pod
        self._logs: dict[str, Path] = {}  # by namespace/name
        self._ended: set[str] = set()
        self._hosts: dict[str, Machine] = {}  # by their names
        self._stop = threading.Event()

    def process(self, index: int) -> subprocess.Popen:
        """That of the pod on a machine."""
        return next(process for _, process, machine in self._running.values() if machine is self._machines[index])

    def log(self, pod: str) -> Path | None:
        """What a pod, `NAMESPACE/NAME`, wrote."""
        return self._logs.get(pod)

    def runs(self, uid: str) -> bool:
        """Whether the process of a pod is there."""
        return uid in self._running

    @contextlib.contextmanager
    def serving(self) -> Iterator["Kubelet"]:
        """Works for as long as the block."""
        port = free_port()
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._folder / "tls.crt", self._folder / "tls.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threads = [threading.Thread(target=server.serve_forever), threading.Thread(target=self._work)]
        for machine in self._machines:
            self._api.call("POST", "/api/v1/nodes", {"metadata": {"name": machine.name}})
            status = {
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
            }
            self._api.patch(f"/api/v1/nodes/{machine.name}/status", {"status": status})
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            server.shutdown()
            for thread in threads:
                thread.join()
            for _, process, _ in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _work(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            with contextlib.suppress(AssertionError, OSError):  # another has changed the pod: it is looked at again
                pods = self._api.call("GET", "/api/v1/pods")["items"]
                self._end_all_but({pod["metadata"]["uid"] for pod in pods})
                for pod in pods:
                    with contextlib.suppress(AssertionError):
                        self._look_at(pod)

    def _end_all_but(self, uids: set[str]) -> None:
        """Ends processes whose pods are gone."""
        for uid in self._running.keys() - uids:
            _, process, _ = self._running.pop(uid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _look_at(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._running:
            self._watch(pod)
        elif "deletionTimestamp" in pod["metadata"]:
            self._api.call("DELETE", f"{_path(pod)}?gracePeriodSeconds=0")
        elif uid not in self._ended and pod.get("status", {}).get("phase", "Pending") == "Pending":
            self._try_to_start(pod)

    def _try_to_start(self, pod: dict[str, Any]) -> None:
        marks = {**pod["metadata"].get("labels", {}), **pod["metadata"].get("annotations", {})}
        index = int(next((marks[key] for key in RANKS if key in marks), 0))
        machine, container = self._machines[index], pod["spec"]["containers"][0]
        if pod["spec"].get("nodeSelector"):
            message = (
                f"0/{len(self._machines)} nodes are available: {len(self._machines)} node(s) didn't match selector."
            )
            unfit = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
            self._tell(pod, {"conditions": [unfit]})
            return
        if any(used is machine for _, _, used in self._running.values()):
            return
        if not pod["spec"].get("nodeName"):
            target = {"kind": "Node", "name": machine.name}
            self._api.call(
                "POST", f"{_path(pod)}/binding", {"metadata": {"name": pod["metadata"]["name"]}, "target": target}
            )
        if container["image"] != IMAGE:
            waiting = {"reason": "ErrImagePull", "message": f"{container['image']}: not found"}
            self._tell(pod, {"phase": "Pending", **_container(container, {"waiting": waiting})})
            return
        self._name_hosts(pod, index)
        uid = pod["metadata"]["uid"]
        log = self._folder / f"{uid}.log"
        self._logs[f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"] = log
        with log.open("ab") as file:
            process = start(machine.command("sh", "-c", self._script(pod)), file)
        self._running[uid] = (pod, process, machine)
        self._tell(pod, {"phase": "Running", **_container(container, {"running": {"startedAt": _now()}})})

    def _name_hosts(self, pod: dict[str, Any], index: int) -> None:
        """What the DNS of a cluster answers for the pods of a headless service, in the machines' files of hosts."""
        spec, metadata = pod["spec"], pod["metadata"]
        for service in self._api.call("GET", f"/api/v1/namespaces/{metadata['namespace']}/services")["items"]:
            name, selector = service["metadata"]["name"], service["spec"].get("selector") or {}
            if (
                service["spec"].get("clusterIP") != "None"
                or not selector
                or not selector.items() <= metadata["labels"].items()
            ):
                continue
            if spec.get("subdomain") == name:
                assert service["spec"].get("publishNotReadyAddresses"), "pods that are not ready have no address"
                host = re.sub(rf"-{index}$", "", spec["hostname"])  # of all, so that they need not wait for each other
                self._hosts |= {f"{host}-{i}.{name}": machine for i, machine in enumerate(self._machines)}
            self._hosts[f"{name}.{metadata['namespace']}.svc"] = self._machines[index]
        names = "".join(f"{machine.address} {name}\n" for name, machine in self._hosts.items())
        for machine in self._machines:
            machine.name_hosts("127.0.0.1 localhost\n" + names)

    def _script(self, pod: dict[str, Any]) -> str:
        """What starts the process of a pod."""
        spec, container = pod["spec"], pod["spec"]["containers"][0]
        folder = self._folder / pod["metadata"]["uid"]
        folder.mkdir()
        root, mounts = "$S/root", []
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for mount in container["volumeMounts"]:
            place, volume = f"{root}{mount['mountPath']}", volumes[mount["name"]]
            mounts.append(f"mkdir -p {place}")
            if "emptyDir" in volume:
                mounts.append(f"mount -t tmpfs -o mode=1777 tmpfs {place}")
            elif "persistentVolumeClaim" in volume:
                source = self.claims[volume["persistentVolumeClaim"]["claimName"]]
                group = spec["securityContext"]["fsGroup"]
                subprocess.run(["chgrp", "-R", str(group), str(source)], check=True)
                subprocess.run(["chmod", "-R", "g+rwX", str(source)], check=True)
                mounts.append(f"mount --bind {source} {place}")
            else:
                files = self._files(pod, volume)
                mounts += [f"printf %s {shlex.quote(text)} > {place}/{name}" for name, text in files.items()]
        locked = container["securityContext"]["readOnlyRootFilesystem"]
        variables = self._environment(pod)
        environment = " ".join(shlex.quote(f"{key}={value}") for key, value in variables.items())
        return LAID_OVER.format(
            folder=folder,
            mounts="\n".join(mounts),
            project=PROJECT,
            locked=f"mount -o remount,ro {root}" if locked else "",
            user=spec["securityContext"]["runAsUser"],
            environment=environment,
            command=shlex.join(expand(part, variables) for part in container["command"]),
        )

    def _files(self, pod: dict[str, Any], volume: dict[str, Any]) -> dict[str, str]:
        if "secret" in volume:
            return self._secret(volume["secret"]["secretName"])
        return {item["path"]: _field(pod, item["fieldRef"]["fieldPath"]) for item in volume["downwardAPI"]["items"]}

    def _secret(self, name: str) -> dict[str, str]:
        secret = self._api.call("GET", f"/api/v1/namespaces/default/secrets/{name}")
        return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}

    def _environment(self, pod: dict[str, Any]) -> dict[str, str]:
        container, made = pod["spec"]["containers"][0], dict[str, str]()
        for source in container.get("envFrom", []):
            made |= self._secret(source["secretRef"]["name"])
        for variable in container.get("env", []):
            if "valueFrom" in variable:
                made[variable["name"]] = _field(pod, variable["valueFrom"]["fieldRef"]["fieldPath"])
            else:
                made[variable["name"]] = expand(variable.get("value", ""), made)
        return made

    def _watch(self, pod: dict[str, Any]) -> None:
        uid = pod["metadata"]["uid"]
        _, process, _ = self._running[uid]
        code, container = process.poll(), pod["spec"]["containers"][0]
        if code is None:
            if "deletionTimestamp" in pod["metadata"] and not hasattr(process, "ends"):
                process.ends = time.monotonic() + pod["spec"]["terminationGracePeriodSeconds"]
                os.kill(process.pid, signal.SIGTERM)
            elif time.monotonic() > getattr(process, "ends", float("inf")):
                os.killpg(process.pid, signal.SIGKILL)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        del self._running[uid]
        self._ended.add(uid)
        code = 128 - code if code < 0 else code
        terminated = {"exitCode": code, "reason": "Error" if code else "Completed", "finishedAt": _now()}
        phase = "Failed" if code else "Succeeded"
        self._tell(pod, {"phase": phase, **_container(container, {"terminated": terminated})})
        if "deletionTimestamp" in pod["metadata"]:
            self._api.call("DELETE", f"{_path(pod)}?gracePeriodSeconds=0")

    def _tell(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        self._api.patch(f"{_path(pod)}/status", {"status": status})


def expand(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` as Kubernetes writes variables that came before; `$$(` is `$(`."""
    return re.sub(
        r"\$\$|\$\(([^)]*)\)",
        lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]),
        text,
    )


def _field(pod: dict[str, Any], path: str) -> str:
    marks = re.fullmatch(r"metadata\.(annotations|labels)\['([^']+)'\]", path)
    assert marks, path
    return pod["metadata"].get(marks[1], {}).get(marks[2], "")


def _container(container: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    status = {"name": container["name"], "image": container["image"], "imageID": "", "ready": "running" in state,
              "restartCount": 0, "state": state}  # fmt: skip
    return {"containerStatuses": [status]}


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _handler(kubelet: Kubelet) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers /containerLogs/NAMESPACE/POD/CONTAINER?follow=true&tailLines=5."""

        def do_GET(self) -> None:
            with contextlib.suppress(OSError):  # who asked has gone
                self._answer()

        def _answer(self) -> None:
            path, _, query = self.path.partition("?")
            parts = path.split("/")
            log = kubelet.log("/".join(parts[2:4])) if parts[1] == "containerLogs" else None
            self.send_response(200 if log else 404)
            self.end_headers()
            if log is None:
                return
            text = log.read_bytes()
            tail = re.search(r"tailLines=(\d+)", query)
            self.wfile.write(b"".join(text.splitlines(keepends=True)[-int(tail[1]) :]) if tail else text)
            at = len(text)
            while "follow=true" in query:
                ended = not kubelet.runs(log.stem)
                with log.open("rb") as file:
                    file.seek(at)
                    more = file.read()
                at += len(more)
                self.wfile.write(more)
                self.wfile.flush()
                if ended:
                    return
                time.sleep(0.1)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    return Handler
