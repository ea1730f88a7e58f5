"""Several machines on one: network namespaces, each with an address and a name of its own, on one bridge.

They need root on Linux. Each group has names and a network of its own, so that several stand side by side.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

NETWORKS = range(77, 177)  # 10.N.0.0/24: the first that no bridge here has


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


class Machine:
    """A namespace.

    Attributes:
      name: by which the machines of a group know each other, such as node0.
      address: such as 10.77.0.10.
      gateway: the address of this process in their network.
    """

    def __init__(self, name: str, address: str, gateway: str, namespace: str, link: str):
        self.name, self.address, self.gateway = name, address, gateway
        self._namespace, self._link = namespace, link

    def command(self, *command: str) -> list[str]:
        """The command, run on this machine."""
        # As `ip netns exec`, which hides the control groups: the network of the namespace, and its file of hosts.
        names = f'mount --bind /etc/netns/{self._namespace}/hosts /etc/hosts && exec "$@"'
        return [
            "nsenter",
            f"--net=/run/netns/{self._namespace}",
            "unshare",
            "--mount",
            "sh",
            "-c",
            names,
            "sh",
            *command,
        ]

    def start(
        self, command: Sequence[str], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> subprocess.Popen:
        """Starts a process here, the leader of a group of its own; what it prints goes to a file."""
        with log.open("ab") as file:
            return start(self.command(*command), file, env, cwd)

    def name_hosts(self, text: str) -> None:
        """Replaces its file of hosts, also for what runs here."""
        Path("/etc/netns", self._namespace, "hosts").write_text(text)

    def processes(self, words: str) -> list[int]:
        """The ids of the processes here whose command has these words."""
        pids = subprocess.run(["ip", "netns", "pids", self._namespace], capture_output=True, text=True).stdout.split()
        return [int(pid) for pid in pids if words in _command_of(pid)]

    def cut(self) -> None:
        """Takes its cable out."""
        run("ip", "link", "set", self._link, "down")

    def mend(self) -> None:
        """Puts it in again."""
        run("ip", "link", "set", self._link, "up")


def start(
    command: Sequence[str], log: IO[bytes], env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen:
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=cwd,
        env={**os.environ, **(env or {})}, start_new_session=True,
    )  # fmt: skip


def _command_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has ended
        return ""


def kill(process: subprocess.Popen) -> None:
    """Ends a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """So many machines, node0 the first; the test is skipped where none can be made.

    This process is at 10.N.0.1 of their network. Whatever still runs on them at the end is killed.
    """
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and `ip` (iproute2)")
    with ExitStack() as stack:
        network = _bridge(stack)
        tag = f"bf{network}"
        hosts = [f"10.{network}.0.{10 + i} node{i}\n" for i in range(count)]
        made = []
        for i in range(count):
            namespace, link, inner = f"{tag}n{i}", f"{tag}v{i}", f"{tag}e{i}"
            run("ip", "netns", "add", namespace)
            stack.callback(_remove, namespace)
            names = Path("/etc/netns") / namespace / "hosts"
            names.parent.mkdir(parents=True, exist_ok=True)
            names.write_text("".join(["127.0.0.1 localhost\n", f"10.{network}.0.1 {os.uname().nodename}\n", *hosts]))
            run("ip", "link", "add", link, "type", "veth", "peer", "name", inner)
            run("ip", "link", "set", inner, "netns", namespace)
            run("ip", "link", "set", link, "master", tag, "up")
            machine = Machine(f"node{i}", f"10.{network}.0.{10 + i}", f"10.{network}.0.1", namespace, link)
            run(*machine.command("ip", "addr", "add", f"{machine.address}/24", "dev", inner))
            run(*machine.command("ip", "link", "set", inner, "up"))
            run(*machine.command("ip", "link", "set", "lo", "up"))
            made.append(machine)
        yield made


def _bridge(stack: ExitStack) -> int:
    """Makes a bridge of a network that is free."""
    for network in NETWORKS:
        done = subprocess.run(["ip", "link", "add", f"bf{network}", "type", "bridge"], capture_output=True, text=True)
        if done.returncode == 0:
            stack.callback(run, "ip", "link", "del", f"bf{network}")
            run("ip", "addr", "add", f"10.{network}.0.1/24", "dev", f"bf{network}")
            run("ip", "link", "set", f"bf{network}", "up")
            return network
        if "exists" not in done.stderr:
            pytest.skip(f"no network namespaces here: {done.stderr.strip()}")
    raise AssertionError("no network is free")


def _remove(namespace: str) -> None:
    left = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True).stdout.split()
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(int(pid), 9)
    run("ip", "netns", "del", namespace)
    shutil.rmtree(f"/etc/netns/{namespace}")
