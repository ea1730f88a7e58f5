"""Runs the stages on this machine: one process to prepare, one per worker to train."""

import json
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from beamfeed.contract import storage
from beamfeed.launcher.backends.local.processes import Process, run_together
from beamfeed.launcher.plan import Stage
from beamfeed.launcher.progress import watching

HOST = "127.0.0.1"
ENDED_BY_SIGNAL = 128  # exit codes from here on: the process did not fail, something ended it


class LocalBackend:
    """Every worker is a process here; they find each other on free ports."""

    def describe(self, stage: Stage) -> list[str]:
        processes = worker_processes(stage, free_ports(stage.workers), stage.logs)
        return [shell_command(process) for process in processes]

    def run(self, stage: Stage) -> int:
        with ExitStack() as stack:
            if storage.is_remote(stage.logs):
                stage = replace(stage, logs=tempfile.mkdtemp(prefix="beamfeed-logs-"))  # kept: a failure points there
            watch = None
            if stage.reports_progress:
                folder = stack.enter_context(
                    tempfile.TemporaryDirectory(prefix="beamfeed-progress-", ignore_cleanup_errors=True)
                )
                stage = replace(stage, command=(*stage.command, "--progress-dir", folder))
                watch = watching(folder)
            restarts = 0
            while True:
                processes = worker_processes(stage, free_ports(stage.workers), stage.logs)
                code = run_together(stage.name, processes, watch)
                if code < ENDED_BY_SIGNAL or restarts == stage.restarts:
                    return code
                restarts += 1
                told = f"starts again from its last checkpoint ({restarts} of {stage.restarts})"
                print(f"beamfeed: {stage.name}: {told}", file=sys.stderr, flush=True)
                # What it should remove is removed; from here on it goes on.
                stage = replace(stage, command=tuple(part for part in stage.command if part != "--restart"))


def worker_processes(stage: Stage, ports: Sequence[int], logs: str) -> list[Process]:
    """The processes of a stage, the chief first; each learns from TF_CONFIG who the others are."""
    quiet = {"TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2")}
    if stage.workers == 1:
        return [Process(stage.command, quiet)]
    return [
        Process(
            stage.command,
            {"TF_CONFIG": tf_config(ports, index), **quiet},
            log=os.path.join(logs, f"worker-{index}.log") if index else None,
        )
        for index in range(stage.workers)
    ]


def tf_config(ports: Sequence[int], index: int) -> str:
    """The environment variable from which TensorFlow builds a cluster, for one of its workers."""
    cluster = {"worker": [f"{HOST}:{port}" for port in ports]}
    return json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now. All are held until the last is found, so they differ."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


def shell_command(process: Process) -> str:
    """The process as one line for a shell."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in process.env.items()]
    return " ".join([*variables, shlex.join(process.command)])
