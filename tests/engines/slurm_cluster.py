"""Slurm for real: munge, a controller on this machine, and a slurmd on each of several."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from engines.beam_engines import free_port, running
from engines.machines import Machine

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
START_SECONDS = 60.0
CONF = """
ClusterName=beamfeed
SlurmctldHost={host}({gateway})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdParameters=config_overrides
SlurmdTimeout=20
KillWait=30
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""


@contextmanager
def slurm(folder: Path, machines: Sequence[Machine]) -> Iterator[dict[str, str]]:
    """A cluster of these machines, a processor each; yields the environment of who submits to it.

    Its partitions are `long`, and `urgent`, whose jobs take the nodes of others.
    """
    missing = [name for name in NEEDED if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed (apt-get install slurm-wlm munge)")
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir()
    port, names = free_port(), [machine.name for machine in machines]
    nodes = [
        f"NodeName={machine.name} NodeHostname={os.uname().nodename} NodeAddr={machine.address} Port={free_port()} "
        "CPUs=1 RealMemory=4000"
        for machine in machines
    ]
    partitions = [
        f"PartitionName=long Nodes={','.join(names)} Default=YES MaxTime=INFINITE State=UP PriorityTier=1",
        f"PartitionName=urgent Nodes={','.join(names)} MaxTime=INFINITE State=UP PriorityTier=10",
    ]
    common = CONF.format(host=os.uname().nodename.split(".")[0], gateway=machines[0].gateway, port=port, folder=folder)
    conf = folder / "slurm.conf"
    conf.write_text("\n".join([common, *nodes, *partitions, ""]))
    env = {"SLURM_CONF": str(conf)}
    with ExitStack() as stack:
        stack.enter_context(_munge(folder))
        stack.enter_context(running(["slurmctld", "-D", "-f", str(conf)], folder / "controller.out", env=env))
        for machine in machines:
            command = ["slurmd", "-D", "-f", str(conf), "-N", machine.name]
            stack.enter_context(running(command, folder / f"{machine.name}.out", machine, env=env))
        end = time.monotonic() + START_SECONDS
        while _idle(env) != len(machines):
            assert time.monotonic() < end, (folder / "slurmctld.log").read_text()[-3000:]
            time.sleep(0.5)
        yield env


def _idle(env: dict[str, str]) -> int:
    done = subprocess.run(
        ["sinfo", "-h", "-p", "long", "-t", "idle", "-o", "%D"], capture_output=True, text=True, env=os.environ | env
    )
    return sum(map(int, done.stdout.split())) if done.returncode == 0 else 0


@contextmanager
def _munge(folder: Path) -> Iterator[None]:
    """Munge of our own, as its key must be that of all who ask."""
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    options = [f"--key-file={key}", f"--socket={folder}/munge.socket", "--foreground", "--force",
               f"--log-file={folder}/munge/log", f"--pid-file={folder}/munge/pid",
               f"--seed-file={folder}/munge/seed"]  # fmt: skip
    with running(["munged", *options], folder / "munged.out"):
        yield
