"""Flink and Spark with Beam's job server, and Prism: resolved once by Maven and Go, started on free ports."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from engines.machines import Machine, kill, start

HERE = Path(__file__).resolve().parent
# Jars and programs stay there between runs.
CACHE = Path(os.environ.get("BEAMFEED_ENGINES", HERE.parent.parent / "out" / "engines"))
MASTERS = {"flink": "[local]", "spark": "local[2]"}  # inside of the job server
MAVEN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"
PRISM = "github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"
# What Java from 17 on asks of code that was written for 8.
OPENED = (
    "java.lang", "java.lang.invoke", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.nio",
    "java.net", "java.io", "java.text", "java.time", "sun.nio.ch", "sun.nio.cs", "sun.security.action",
)  # fmt: skip
START_SECONDS = 90.0


def jars(engine: str) -> Path:
    """The folder of an engine's jars; the test is skipped where they cannot be had."""
    folder = CACHE / engine
    if not (folder / ".ready").exists():
        for name in ("java", "mvn"):
            if shutil.which(name) is None:
                pytest.skip(f"{name} is not installed")
        folder.mkdir(parents=True, exist_ok=True)
        command = ["mvn", "-q", "-B", "-f", str(HERE / f"{engine}.xml"), f"{MAVEN}:copy-dependencies"]
        done = subprocess.run([*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, timeout=900)
        if done.returncode:
            pytest.skip(f"Maven does not resolve tests/engines/{engine}.xml: {done.stdout.strip()[-300:]}")
        (folder / ".ready").touch()
    return folder


def prism() -> Path:
    """Prism's program; the test is skipped where Go cannot build it."""
    program = CACHE / "prism"
    if not program.exists():
        if shutil.which("go") is None:
            pytest.skip("go is not installed")
        env = {**os.environ, "GOBIN": str(CACHE)}
        done = subprocess.run(["go", "install", PRISM], capture_output=True, text=True, timeout=1800, env=env)
        if done.returncode:
            pytest.skip(f"Go does not build {PRISM}: {done.stderr.strip()[-300:]}")
    return program


def java(folder: Path, main: str, *arguments: str, memory: str = "1g", options: Sequence[str] = ()) -> list[str]:
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED]
    exported = [f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in ("sun.net.util", "sun.nio.ch")]
    return ["java", *opened, *exported, f"-Xmx{memory}", *options, "-cp", f"{folder}/*", main, *arguments]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for_port(host: str, port: int, process: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            socket.create_connection((host, port), 1).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"nothing listens at {host}:{port}: {log.read_text()[-3000:]}")


@contextmanager
def running(command: Sequence[str], log: Path, machine: Machine | None = None, **options: object) -> Iterator:
    """A process for as long as the block, here or on a machine."""
    with log.open("ab") as file:
        process = start(machine.command(*command) if machine else command, file, **options)
    try:
        yield process
    finally:
        kill(process)


@contextmanager
def job_server(
    engine: str, folder: Path, master: str, processes: list[subprocess.Popen] | None = None
) -> Iterator[str]:
    """Beam's job server of an engine; yields its address.

    Args:
      engine: flink or spark.
      folder: for its log and what jobs stage there.
      master: of the cluster, or that of MASTERS.
      processes: gets its process.
    """
    port, log = free_port(), folder / "job-server.log"
    main = {
        "flink": ("org.apache.beam.runners.flink.FlinkJobServerDriver", f"--flink-master={master}"),
        "spark": ("org.apache.beam.runners.spark.SparkJobServerDriver", f"--spark-master-url={master}"),
    }[engine]
    served = [f"--job-port={port}", "--job-host=localhost", "--artifact-port=0", "--expansion-port=0"]
    command = java(jars(engine), *main, *served, f"--artifacts-dir={folder}/artifacts", memory="2g")
    with running(command, log) as process:
        if processes is not None:
            processes.append(process)
        wait_for_port("127.0.0.1", port, process, log)
        yield f"localhost:{port}"


FLINK_MEMORY = {
    "cpu.cores": "1.0", "memory.task.heap.size": "256m", "memory.managed.size": "128m", "memory.network.min": "256m",
    "memory.network.max": "256m", "memory.task.off-heap.size": "64m", "memory.framework.heap.size": "64m",
    "memory.framework.off-heap.size": "64m", "memory.jvm-metaspace.size": "128m", "memory.jvm-overhead.min": "64m",
    "memory.jvm-overhead.max": "64m", "memory.process.size": "1024m",
}  # fmt: skip


class FlinkCluster:
    """A session cluster of Flink with a task manager, and a worker pool of Beam's beside it, on each machine.

    Attributes:
      address: of its REST interface.
      task_managers: the processes, in the order of the machines.
    """

    def __init__(self, folder: Path, host: str, machines: Sequence[Machine], pool_port: int, stack: ExitStack):
        self._folder, self._stack, self._lib = folder, stack, jars("flink")
        self._machines = machines
        rest, rpc = free_port(), free_port()
        conf = folder / "conf"
        conf.mkdir()
        (conf / "flink-conf.yaml").write_text(
            f"jobmanager.rpc.address: {host}\njobmanager.rpc.port: {rpc}\njobmanager.bind-host: 0.0.0.0\n"
            "jobmanager.memory.process.size: 1024m\ntaskmanager.numberOfTaskSlots: 1\n"
            f"rest.port: {rest}\nrest.address: {host}\nrest.bind-address: 0.0.0.0\n"
            "taskmanager.memory.process.size: 1024m\nheartbeat.timeout: 8000\nheartbeat.interval: 2000\n"
            "slot.request.timeout: 8000\n"
            # By itself a lost task manager would end a job without checkpoints, as all of Beam's batch jobs are.
            "restart-strategy: fixed-delay\nrestart-strategy.fixed-delay.attempts: 5\n"
            "restart-strategy.fixed-delay.delay: 2 s\n"
        )
        self._env = {"FLINK_CONF_DIR": str(conf)}
        main = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
        log = folder / "job-manager.log"
        command = java(self._lib, main, "--configDir", str(conf), memory="512m")
        process = stack.enter_context(running(command, log, env=self._env))
        wait_for_port(host, rest, process, log)
        self.address = f"{host}:{rest}"
        python = [sys.executable, "-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={pool_port}"]
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])  # the pool starts `python`
        for machine in machines:
            log = folder / f"pool-{machine.name}.log"
            stack.enter_context(running(python, log, machine, env={"PATH": path}))
        self.task_managers = [self.start_task_manager(i) for i in range(len(machines))]

    def start_task_manager(self, index: int) -> subprocess.Popen:
        machine, memory = self._machines[index], [f"-Dtaskmanager.{key}={value}" for key, value in FLINK_MEMORY.items()]
        of_host = [f"-Dtaskmanager.host={machine.address}", "-Dtaskmanager.bind-host=0.0.0.0"]
        main, conf = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", self._env["FLINK_CONF_DIR"]
        command = java(
            self._lib, main, "--configDir", conf, *memory, *of_host,
            memory="512m", options=["-XX:MaxDirectMemorySize=700m"],
        )  # fmt: skip
        log = self._folder / f"task-manager-{machine.name}.log"
        return self._stack.enter_context(running(command, log, machine, env=self._env))


@contextmanager
def flink_cluster(folder: Path, host: str, machines: Sequence[Machine], pool_port: int) -> Iterator[FlinkCluster]:
    with ExitStack() as stack:
        yield FlinkCluster(folder, host, machines, pool_port, stack)
