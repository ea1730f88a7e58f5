"""The strategy that joins the workers and the devices."""

import json
import os
import socket
import subprocess
import sys

import pytest
import tensorflow as tf

from beamfeed.contract.cluster.environment import read_worker_info
from beamfeed.contract.cluster.tf_config import tf_config
from beamfeed.contract.cluster.worker_info import GPUS, SHARE, WorkerInfo
from beamfeed.contract.errors import UserError
from beamfeed.trainer.cluster.strategy import Cluster, connect, describe, share_of

# One worker, as beamfeed.trainer.main begins: it finds the others, and can listen at its own address.
RESOLVED = """
import os, socket
from beamfeed.contract.cluster.environment import read_worker_info
from beamfeed.trainer.cluster.rendezvous import resolve
worker = resolve(read_worker_info(os.environ), 60)
with socket.create_server(("", int(worker.addresses[worker.index].rpartition(":")[2]))):
    print(worker.index, worker.count, worker.source, *worker.addresses)
"""
# It goes on: it adds up over all of them, and says so.
CONNECTED = """
import os
from beamfeed.contract.cluster.environment import read_worker_info
from beamfeed.trainer.cluster.rendezvous import resolve
worker = resolve(read_worker_info(os.environ), 60)
from beamfeed.contract.imports import heavy_imports
with heavy_imports():
    import tensorflow as tf
from beamfeed.trainer.cluster.strategy import connect, describe
cluster = connect(worker, "ring")
cluster.barrier()
rank = tf.constant(float(worker.index + 1))
total = tf.function(lambda: cluster.strategy.reduce("SUM", cluster.strategy.run(lambda: rank), axis=None))()
assert cluster.all_same(7) and not cluster.all_same(worker.index)
most = (1 << 24) - 1
assert cluster.differing([most, most - worker.index, 5, worker.index << 12]) == [1, 3]
print(describe(cluster))
print(float(total), os.environ["TF_CONFIG"])
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run_workers(program: str, *environs: dict[str, str]) -> list[list[str]]:
    """Runs a program with each of these; returns the lines that each has printed."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PET_", "TF_CONFIG"))}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**keep, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for environ in environs
    ]
    try:
        told = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (_, errors) in zip(processes, told, strict=True):
        assert process.returncode == 0, errors
    return [lines.splitlines() for lines, _ in told]


def find_two_workers(source: str, *environs: dict[str, str]) -> list[str]:
    """Both have found each other; returns the addresses."""
    (one,), (other,) = run_workers(RESOLVED, *environs)
    index, count, named, *addresses = one.split()
    assert (index, count, named) == ("0", "2", source)
    assert other.split() == ["1", "2", source, *addresses]
    return addresses


@pytest.mark.slow
def test_two_processes_find_each_other_by_slurm():
    job = free_port()  # as good a number as any; another one in each run
    common = {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_TASKS_PER_NODE": "2",
        "SLURM_NODEID": "0",
    }
    both = [{**common, "SLURM_PROCID": str(i), "SLURM_LOCALID": str(i)} for i in range(2)]
    base = 12000 + job % 625 * 32
    assert find_two_workers("Slurm", *both) == [f"localhost:{base}", f"localhost:{base + 1}"]


@pytest.mark.slow
def test_two_processes_find_each_other_by_torchrun():
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    both = [{**common, "RANK": str(i), "LOCAL_RANK": str(i)} for i in range(2)]
    assert len(set(find_two_workers("torchrun", *both))) == 2


@pytest.mark.slow
def test_two_processes_find_each_other_by_tf_config_with_a_chief():
    chief, worker = (f"127.0.0.1:{free_port()}" for _ in range(2))
    config = {"cluster": {"chief": [chief], "worker": [worker]}, "environment": "cloud"}
    told = run_workers(
        CONNECTED,
        {"TF_CONFIG": json.dumps({**config, "task": {"type": "chief", "index": 0}})},
        {"TF_CONFIG": json.dumps({**config, "task": {"type": "worker", "index": 0}})},
    )
    for index, (said, result) in enumerate(told):
        assert said == f"worker {index} of 2 (TF_CONFIG), each on the CPU, ring collectives"
        total, found = result.split(" ", 1)
        assert float(total) == 3.0
        assert json.loads(found) == {
            "cluster": {"worker": [chief, worker]},
            "task": {"type": "worker", "index": index},
        }


@pytest.mark.slow
def test_a_port_that_is_taken_is_told_in_one_line():
    program = (
        "import sys; from beamfeed.trainer.cluster.strategy import *\n"
        "from beamfeed.contract.errors import JobFailed\n"
        "from beamfeed.contract.imports import heavy_imports\n"
        "with heavy_imports(): import tensorflow\n"
        "try: connect(WorkerInfo(0, 2, (f'127.0.0.1:{sys.argv[1]}', '127.0.0.1:1'), 'Slurm'))\n"
        "except JobFailed as error: print(error)"
    )
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-c", program, str(port)], capture_output=True, text=True, timeout=300, check=True
        )
    told = f"worker 0 cannot listen at 127.0.0.1:{port}: the port is taken, or is not allowed"
    assert done.stdout.strip() == f"job failed: {told}"


def test_one_device_needs_no_strategy():
    cluster = connect(WorkerInfo())
    assert cluster.strategy is tf.distribute.get_strategy()
    assert cluster.replicas == 1
    assert cluster.all_same(3)
    assert describe(cluster) == "on the CPU"


def test_several_devices_are_described():
    class TwoEach:
        num_replicas_in_sync = 6

    cluster = Cluster(TwoEach(), WorkerInfo(2, 3, ("a:1", "b:1", "c:1"), "Slurm"), "nccl")
    assert describe(cluster) == "worker 2 of 3 (Slurm), each on 2 CPUs, nccl collectives"


def test_the_processes_of_a_launcher_are_described_by_its_key(monkeypatch):
    class OneEach:
        num_replicas_in_sync = 2

    monkeypatch.setenv(SHARE, "0/2")
    cluster = Cluster(OneEach(), WorkerInfo(0, 2, ("127.0.0.1:1", "127.0.0.1:2"), "TF_CONFIG"))
    assert describe(cluster) == "2 processes on this machine (launch.train.workers), each on the CPU"


def test_what_tensorflow_is_told():
    worker = read_worker_info(
        {"TF_CONFIG": '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": "0"}}'}
    )
    assert json.loads(tf_config(worker.addresses, worker.index)) == {
        "cluster": {"worker": ["a:1", "b:1"]},
        "task": {"type": "worker", "index": 1},
    }


@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="for a machine without a GPU")
def test_nccl_needs_a_gpu():
    with pytest.raises(UserError, match=r"^train.devices.collectives: is 'nccl', "):
        connect(WorkerInfo(0, 2, ("a:1", "b:1"), "Slurm"), "nccl")


@pytest.mark.parametrize("worker", [WorkerInfo(), WorkerInfo(0, 2, ("a:1", "b:1"), "Slurm")])
def test_fewer_gpus_than_it_was_given_are_one_line(monkeypatch, worker):
    found = len(tf.config.list_physical_devices("GPU"))
    monkeypatch.setenv(GPUS, str(found + 1))
    with pytest.raises(UserError, match=rf"^gpus: is {found + 1}, of which TensorFlow sees {found}; "):
        connect(worker)
    monkeypatch.setenv(GPUS, str(found))
    assert connect(WorkerInfo()).replicas == max(1, found)


@pytest.mark.parametrize(("devices", "count"), [(1, 1), (4, 2), (8, 8), (7, 3)])
def test_each_has_as_many_and_none_has_anothers(devices, count):
    shares = [share_of(range(devices), index, count) for index in range(count)]
    assert {len(share) for share in shares} == {devices // count}
    assert len({device for share in shares for device in share}) == devices // count * count


def test_fewer_than_processes_is_one_line():
    with pytest.raises(UserError, match=r"--parallel of a sweep: is 3, but this machine has 2 GPUs; one process uses"):
        share_of(range(2), 0, 3)
    with pytest.raises(UserError, match=r"is 2, but this machine has 1 GPU; one"):
        share_of(range(1), 1, 2)
