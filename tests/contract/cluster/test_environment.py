"""Who this process is, by every launcher's variables, right and wrong."""

import json

import pytest

from beamfeed.contract.cluster.environment import read_worker_info
from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import UserError


def tf_config(cluster, *, kind="worker", index=0, **more):
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}, **more})}


def slurm(worker, **changes):
    """Task of a step with 3 tasks on 2 nodes; a change to None unsets the variable."""
    environ = {
        "SLURM_JOB_ID": "4711",
        "SLURM_STEP_ID": "0",
        "SLURM_STEP_NUM_TASKS": "3",
        "SLURM_PROCID": str(worker),
        "SLURM_STEP_NODELIST": "gpu[01-02]",
        "SLURM_STEP_TASKS_PER_NODE": "2,1",
        **changes,
    }
    return {name: value for name, value in environ.items() if value is not None}


TORCHRUN = {"MASTER_ADDR": "node0", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "RANK": "2"}
KUBEFLOW = {
    "PET_NNODES": "3",
    "PET_NODE_RANK": "1",
    "PET_NPROC_PER_NODE": "auto",
    "PET_MASTER_ADDR": "job-node-0-0.job",
    "PET_MASTER_PORT": "29500",
}

# A slot of 32 ports by job and step: 12000 + 32 * (4711 + 25 * step) % 625.
BASE = 12000 + 32 * (4711 % 625)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"TF_CONFIG": ""},
        {"TF_CONFIG": "{}"},
        {"TF_CONFIG": '{"cluster": {}, "environment": "cloud", "task": {}}'},
        tf_config({"worker": ["a:1"]}),
        tf_config({"chief": ["a:1"]}, kind="chief", index="0", environment="cloud", job={"region": "europe-west4"}),
        tf_config({"chief": ["a:1"], "evaluator": ["b:1"]}, kind="chief"),
        {"WORLD_SIZE": "1"},
        {"WORLD_SIZE": "1", "RANK": "0", "LOCAL_RANK": "0"},
        {"LOCAL_RANK": "0"},
        {"PET_NNODES": "1", "PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": "8"},
        slurm(0, SLURM_STEP_NUM_TASKS="1"),
        slurm(0, SLURM_STEP_NUM_TASKS=None, SLURM_NTASKS="1"),
        slurm(0, SLURM_STEP_ID=None, SLURM_NTASKS="3"),  # the batch script
        slurm(0, SLURM_STEP_ID="4294967290"),  # the shell of salloc
        slurm(0, SLURM_STEP_ID=None, MASTER_ADDR="gpu01"),  # a batch script that exports it for srun
    ],
)
def test_alone(environ):
    assert read_worker_info(environ) == WorkerInfo() == WorkerInfo(0, 1)
    assert WorkerInfo().is_chief


@pytest.mark.parametrize(
    ("environ", "worker", "addresses"),
    [
        (tf_config({"worker": ["a:1", "b:1"]}, index=1), 1, ("a:1", "b:1")),
        (tf_config({"worker": ["a:1", "b:1"]}, index="1"), 1, ("a:1", "b:1")),
        (tf_config({"worker": ["[::1]:1", "b.ns.svc:65535"]}), 0, ("[::1]:1", "b.ns.svc:65535")),
        (tf_config({"chief": ["a:1"], "worker": ["b:1", "c:1"]}, kind="chief"), 0, ("a:1", "b:1", "c:1")),
        (tf_config({"worker": ["b:1", "c:1"], "chief": ["a:1"]}, index="0"), 1, ("a:1", "b:1", "c:1")),
        (tf_config({"master": ["a:1"], "worker": ["b:1"], "ps": []}, kind="master"), 0, ("a:1", "b:1")),
        (tf_config({"master": ["a:1"], "worker": ["b:1"], "ps": None}), 1, ("a:1", "b:1")),
        (tf_config({"worker": ["a:1", "b:1"], "evaluator": ["c:1"]}, index=1), 1, ("a:1", "b:1")),
        (tf_config({"worker": {"1": "b:1", "0": "a:1"}}, index=1), 1, ("a:1", "b:1")),
    ],
)
def test_tf_config(environ, worker, addresses):
    assert read_worker_info(environ) == WorkerInfo(worker, len(addresses), addresses, "TF_CONFIG")


def test_tf_config_as_vertex_writes_it():
    cluster = {"chief": ["cmle-training-chief-8f-0:2222"], "worker": ["cmle-training-worker-8f-0:2222"]}
    text = json.dumps(
        {
            "cluster": cluster,
            "environment": "cloud",
            "task": {"type": "worker", "index": 0, "trial": "3", "cloud": "x"},
            "job": '{"worker_pool_specs": []}',
        }
    )
    worker = read_worker_info({"TF_CONFIG": text})
    assert worker == WorkerInfo(1, 2, (*cluster["chief"], *cluster["worker"]), "TF_CONFIG")
    assert not worker.is_chief


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"TF_CONFIG": "{"}, "'{', which is not JSON"),
        ({"TF_CONFIG": "[" * 5000}, "not JSON"),
        ({"TF_CONFIG": "[]"}, r"is '\[\]', it must be a mapping"),
        ({"TF_CONFIG": '{"cluster": ["a:1"], "task": {}}'}, "cluster must be a mapping"),
        (tf_config({"worker": "a:1"}), "cluster.worker must be a list of host:port, not 'a:1'"),
        (tf_config({"worker": ["a"]}), "holds 'a', it must be host:port"),
        (tf_config({"worker": ["a:0"]}), "holds 'a:0'"),
        (tf_config({"worker": ["a:65536"]}), "holds 'a:65536'"),
        (tf_config({"worker": ["grpc://a:1"]}), "holds 'grpc://a:1'"),
        (tf_config({"worker": [1]}), "holds 1, "),
        (tf_config({"worker": ["a:1", "a:1"]}), "holds a:1 twice"),
        (tf_config({"worker": ["a:1"], "ps": ["b:1"]}), r"cluster.ps is \['b:1'\]: parameter servers are not"),
        (tf_config({"worker": ["a:1"], "boss": ["b:1"]}), "it may hold chief"),
        (tf_config({"chief": ["a:1"], "master": ["b:1"]}, kind="chief"), "chiefs a:1, b:1; there may be one"),
        (tf_config({"worker": {"1": "b:1"}}, index=1), "a mapping must have every index"),
        (tf_config({"worker": {"0": "a:1"}}), "a mapping must have every index"),
        (tf_config({"worker": {"x": "a:1", "0": "b:1"}}), "a mapping must have every index"),
        (
            {"TF_CONFIG": '{"sparseCluster": {"worker": {"1": "b:1"}, "ps": []}, "task": {"type": "worker"}}'},
            "sparseCluster, which names only some of the workers",
        ),
        (
            tf_config({"worker": ["a:1", "b:1"]}, kind="evaluator"),
            "the workers evaluate, so this process is not needed",
        ),
        ({"TF_CONFIG": '{"task": {"type": "evaluator", "index": 0}}'}, "the workers evaluate"),
        (tf_config({"worker": ["a:1", "b:1"]}, kind="chief"), "task.type must be one of worker, task is"),
        ({"TF_CONFIG": '{"cluster": {"worker": ["a:1", "b:1"]}}'}, "task is None"),
        (tf_config({"worker": ["a:1", "b:1"]}, index=2), "task.index must be from 0 to 1"),
        (tf_config({"worker": ["a:1", "b:1"]}, index=-1), "task.index must be from 0 to 1"),
        (tf_config({"worker": ["a:1", "b:1"]}, index=True), "task.index must be from 0 to 1"),
        (tf_config({"worker": ["a:1", "b:1"]}, index=None), "task.index must be from 0 to 1"),
    ],
)
def test_a_wrong_tf_config_is_told_in_one_line(environ, message):
    with pytest.raises(UserError, match=rf"^TF_CONFIG: .*{message}") as caught:
        read_worker_info(environ)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "worker"),
    [
        (TORCHRUN, WorkerInfo(2, 4, (), "torchrun", "node0:29500")),
        ({**TORCHRUN, "MASTER_ADDR": "fd00::1"}, WorkerInfo(2, 4, (), "torchrun", "[fd00::1]:29500")),
        # torchrun's children: its own server has MASTER_PORT, and its arguments still stand in PET_*.
        (
            {**TORCHRUN, **KUBEFLOW, "LOCAL_RANK": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"},
            WorkerInfo(2, 4, (), "torchrun", "node0:29501"),
        ),
        ({**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "False"}, WorkerInfo(2, 4, (), "torchrun", "node0:29500")),
        (KUBEFLOW, WorkerInfo(1, 3, (), "Kubeflow Trainer", "job-node-0-0.job:29500")),
        ({**KUBEFLOW, "PET_NNODES": "3:3"}, WorkerInfo(1, 3, (), "Kubeflow Trainer", "job-node-0-0.job:29500")),
        # A PyTorchJob writes both, and counts devices in WORLD_SIZE.
        ({**KUBEFLOW, **TORCHRUN}, WorkerInfo(1, 3, (), "Kubeflow Trainer", "job-node-0-0.job:29500")),
    ],
)
def test_torchrun_and_kubeflow_trainer(environ, worker):
    assert read_worker_info(environ) == worker


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({**TORCHRUN, "RANK": "4"}, "^RANK: is '4', it must be a whole number from 0 to 3$"),
        ({**TORCHRUN, "RANK": "one"}, "^RANK: is 'one'"),
        ({**TORCHRUN, "RANK": ""}, "^RANK: is not set"),
        ({**TORCHRUN, "WORLD_SIZE": "0"}, "^WORLD_SIZE: is '0', it must be a whole number from 1$"),
        ({"RANK": "0"}, "^WORLD_SIZE: is not set"),
        ({"WORLD_SIZE": "1", "RANK": "1"}, "^RANK: is '1', it must be a whole number from 0 to 0$"),
        ({**TORCHRUN, "MASTER_ADDR": " "}, "^MASTER_ADDR: is not set"),
        ({**TORCHRUN, "MASTER_ADDR": "http://x"}, "^MASTER_ADDR: is .*it must be a host name or an IP address$"),
        ({**TORCHRUN, "MASTER_PORT": "99999"}, "^MASTER_PORT: is '99999', it must be a whole number from 1 to 65535$"),
        ({**KUBEFLOW, "PET_NNODES": "1:4"}, "^PET_NNODES: is '1:4'"),
        ({**KUBEFLOW, "PET_NODE_RANK": "3"}, "^PET_NODE_RANK: is '3'"),
        ({**KUBEFLOW, "PET_MASTER_PORT": ""}, "^PET_MASTER_PORT or MASTER_PORT: is not set"),
        ({"MASTER_ADDR": "node0", "MASTER_PORT": "1"}, "^MASTER_ADDR: is 'node0', so WORLD_SIZE and RANK must be set"),
        ({"PET_MASTER_ADDR": "node0"}, "^PET_MASTER_ADDR: is 'node0', so PET_NNODES and PET_NODE_RANK must be set"),
    ],
)
def test_wrong_torchrun_variables_are_told_in_one_line(environ, message):
    with pytest.raises(UserError, match=message) as caught:
        read_worker_info(environ)
    assert "\n" not in str(caught.value)


def test_slurm_block_order():
    addresses = (f"gpu01:{BASE}", f"gpu01:{BASE + 1}", f"gpu02:{BASE}")
    for worker in range(3):
        seat = {"SLURM_NODEID": str(worker // 2), "SLURM_LOCALID": str(worker % 2)}
        assert read_worker_info(slurm(worker, **seat)) == WorkerInfo(worker, 3, addresses, "Slurm")


def test_slurm_cyclic_order():
    worker = read_worker_info(slurm(1, SLURM_DISTRIBUTION="cyclic:block", SLURM_NODEID="1", SLURM_LOCALID="0"))
    assert worker.addresses == (f"gpu01:{BASE}", f"gpu02:{BASE}", f"gpu01:{BASE + 1}")


def test_slurm_with_the_variables_of_the_job_only():
    old = dict.fromkeys(("SLURM_JOB_ID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"))
    new = {"SLURM_JOBID": "4711", "SLURM_NTASKS": "3", "SLURM_NODELIST": "gpu[01-02]", "SLURM_TASKS_PER_NODE": "2,1"}
    assert read_worker_info(slurm(2, **old, **new)) == read_worker_info(slurm(2))


def test_slurm_ports_of_jobs_and_steps_that_share_a_node_differ():
    first = [
        read_worker_info(slurm(0, SLURM_JOB_ID=str(job), SLURM_STEP_ID=str(step))).addresses[0]
        for job in range(4711, 4711 + 25)
        for step in range(25)
    ]
    assert len(set(first)) == 625
    ports = [int(address.rpartition(":")[2]) for address in first]
    assert min(ports) == 12000
    assert max(ports) + 31 < 32768


def test_slurm_reserved_ports_come_first():
    worker = read_worker_info(slurm(1, SLURM_STEP_RESV_PORTS="13000,13005-13006"))
    assert worker.addresses == ("gpu01:13000", "gpu01:13005", "gpu02:13000")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        (slurm(3), "^SLURM_PROCID: is '3', it must be a whole number from 0 to 2$"),
        (slurm(0, SLURM_PROCID=None), "^SLURM_PROCID: is not set"),
        (slurm(0, SLURM_STEP_NUM_TASKS=None), "^SLURM_STEP_NUM_TASKS or SLURM_NTASKS or SLURM_NPROCS: is not set"),
        (slurm(0, SLURM_STEP_NUM_TASKS="many"), "^SLURM_STEP_NUM_TASKS: is 'many'"),
        (slurm(0, SLURM_STEP_ID="x"), "^SLURM_STEP_ID: is 'x'"),
        (slurm(0, SLURM_JOB_ID=None), "^SLURM_JOB_ID or SLURM_JOBID: is not set"),
        (slurm(0, SLURM_JOB_ID="a_1"), "^SLURM_JOB_ID: is 'a_1'"),
        (slurm(0, SLURM_STEP_NODELIST=None), "^SLURM_STEP_NODELIST or .*SLURM_NODELIST: is not set"),
        (slurm(0, SLURM_STEP_NODELIST="gpu[01-02"), "^SLURM_STEP_NODELIST: is 'gpu.01-02', it must be like"),
        (slurm(0, SLURM_STEP_NODELIST="gpu[02-01]"), "^SLURM_STEP_NODELIST: .*must count up"),
        (slurm(0, SLURM_STEP_TASKS_PER_NODE="2(x"), r"^SLURM_STEP_TASKS_PER_NODE: is '2\(x', it must be like"),
        (
            slurm(0, SLURM_STEP_TASKS_PER_NODE="3"),
            "^SLURM_STEP_TASKS_PER_NODE: is '3', it must give 3 tasks .* 2 nodes",
        ),
        (slurm(0, SLURM_STEP_TASKS_PER_NODE="2(x2)"), "^SLURM_STEP_TASKS_PER_NODE: .* must give 3 tasks"),
        (slurm(1, SLURM_NODEID="1"), "^SLURM_NODEID: is '1' for task 1, not 0; start srun with --distribution=block$"),
        (slurm(1, SLURM_LOCALID="0"), "^SLURM_LOCALID: is '0' for task 1, not 1"),
        (slurm(1, SLURM_STEP_RESV_PORTS="13000"), "^SLURM_STEP_RESV_PORTS: is '13000', it must hold 2 ports"),
        (slurm(1, SLURM_STEP_RESV_PORTS="some"), "^SLURM_STEP_RESV_PORTS: is 'some', it must be like"),
    ],
)
def test_wrong_slurm_variables_are_told_in_one_line(environ, message):
    with pytest.raises(UserError, match=message) as caught:
        read_worker_info(environ)
    assert "\n" not in str(caught.value)


def test_the_first_launcher_that_names_a_cluster_counts():
    everything = {**slurm(2), **KUBEFLOW, **tf_config({"worker": ["a:1", "b:1"]})}
    assert read_worker_info(everything).source == "TF_CONFIG"
    assert read_worker_info({**everything, "TF_CONFIG": "{}"}).source == "Kubeflow Trainer"
    assert read_worker_info(slurm(2, MASTER_ADDR="gpu01", MASTER_PORT="29500")).source == "Slurm"
    # A launcher inside a step that says "alone" is believed.
    assert read_worker_info({**everything, **tf_config({"worker": ["a:1"]})}) == WorkerInfo()
