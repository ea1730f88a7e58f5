"""Real worker processes that are killed, stopped, frozen or never come."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import psutil
import pytest
import yaml
from labelled import labelled_job, write_labelled
from sampling import sample
from trained import without_times

from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.cluster.watchdog import LOST, PREEMPTED
from beamfeed.trainer.feed.dataset import load_dataset

pytestmark = pytest.mark.slow
ODD_WORKER = os.path.join(os.path.dirname(__file__), "odd_worker.py")


@pytest.fixture(scope="module")
def data(helpers_module, tmp_path_factory):
    """Two shards, one of them three times as large: 93 steps of 16 windows."""
    segments = {
        "train": helpers_module.segments_of([1000, 2100, 900, 2010], 3),
        "eval": helpers_module.segments_of([200, 90], 3, seed=2),
        "test": [],
    }
    return helpers_module.write_dataset(
        str(tmp_path_factory.mktemp("data")), segments, length=8, stride=4, shards=2, block_bytes=2000
    )


@pytest.fixture
def job_file(helpers, data, tmp_path):
    """Writes job files; keywords replace keys of the train section."""

    def write(name: str, workers: int = 2, restarts: int = 0, **train: object) -> str:
        section = {
            "model": {"name": "recurrent_autoencoder", "cell": "gru", "units": [16], "latent": 4},
            "feed": {"batch_size": 16, "shuffle": 200},
            "checkpoint": {"every_steps": 10},
            "worker_timeout": "60s",
            "review": {"baselines": "none"},
            **train,
        }
        job = helpers.make_job(data.output, workdir=str(tmp_path / name), **section)
        made = job.model_dump(mode="json", by_alias=True)
        made["launch"]["train"].update(workers=workers, restarts=restarts)
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(made))
        return str(path)

    return write


@pytest.fixture
def start(free_ports, tmp_path):
    """Starts worker processes; all that are left are killed in the end.

    Those that come to their end are odd ones, which export the Keras model and the result alone where they are bare.
    """
    running = []

    def run(
        job: str,
        workers: int = 1,
        come: int | None = None,
        bare: bool = True,
        **odd: float,
    ) -> list[subprocess.Popen]:
        program = [ODD_WORKER] if odd else ["-m", "beamfeed.trainer.main"]
        program += ["--bare"] if odd and bare else []
        program += [word for name, value in odd.items() for word in (f"--{name}", str(value))]
        addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
        group = []
        for i in range(workers if come is None else come):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": i}}
            group.append(
                subprocess.Popen(
                    [sys.executable, *program, "--job", job],
                    env={
                        **os.environ,
                        "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}",
                        **({"TF_CONFIG": json.dumps(config)} if workers > 1 else {}),
                    },
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        running.extend(group)
        return group

    yield run
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def end(process: subprocess.Popen) -> tuple[int, str]:
    _, errors = process.communicate(timeout=300)
    code = process.returncode
    return 128 - code if code < 0 else code, errors


def finish(group: list[subprocess.Popen]) -> None:
    for process in group:
        code, errors = end(process)
        assert code == 0, errors


def last_step(job: str) -> int:
    with open(job) as file:
        workdir = yaml.safe_load(file)["train"]["workdir"]
    return max(find_checkpoints(RunLayout(workdir).checkpoints), default=0)


def wait_for_step(job: str, step: int, group: list[subprocess.Popen]) -> None:
    deadline = time.monotonic() + 100
    while last_step(job) < step:
        assert time.monotonic() < deadline
        if any(process.poll() is not None for process in group):
            return
        time.sleep(0.01)


def wait_for_listening(process: subprocess.Popen) -> None:
    """Waits until a worker is there for the others to come."""
    deadline = time.monotonic() + 100
    while not any(one.status == "LISTEN" for one in psutil.Process(process.pid).net_connections("tcp")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)


def weights(job: str) -> list[np.ndarray]:
    with open(job) as file:
        workdir = yaml.safe_load(file)["train"]["workdir"]
    return keras.saving.load_model(RunLayout(workdir).model).get_weights()


def assert_same_bits(job: str, other: str) -> None:
    for a, b in zip(weights(job), weights(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.long
@pytest.mark.parametrize("times", [4, 20])
def test_killed_again_and_again_the_weights_are_those_of_a_run_never_killed(job_file, start, times):
    epochs = 6 + times  # so long that each kill comes before the end
    whole, killed = job_file("whole", epochs=epochs), job_file("killed", epochs=epochs)
    finish(start(whole, devices=1))
    chance = random.Random(5)
    kills = 0
    while kills < times:
        until = last_step(killed) + chance.randint(1, 100)
        group = start(killed, hold=until + 40)
        wait_for_step(killed, until, group)
        time.sleep(chance.random() / 5)
        if group[0].poll() is not None:
            break
        group[0].send_signal(signal.SIGKILL)
        assert end(group[0])[0] == 128 + signal.SIGKILL
        kills += 1
    assert kills == times
    finish(start(killed, devices=1))
    assert_same_bits(whole, killed)
    with open(os.path.join(os.path.dirname(whole), "whole", "metrics.jsonl")) as file:
        expected = [json.loads(line)["loss"] for line in file]
    with open(os.path.join(os.path.dirname(whole), "killed", "metrics.jsonl")) as file:
        assert [json.loads(line)["loss"] for line in file] == expected


ANY_LAYERS = """
import keras
from keras import layers, ops

def make(length, features):
    windows = keras.Input((length, features))
    near = ops.cast(ops.round(windows[..., 0]), "int64")
    looked_up = layers.Embedding(5, 2)(layers.IntegerLookup(vocabulary=[-1, 0, 1])(near))
    state = layers.Dense(8)(layers.Concatenate()([windows, looked_up]))
    state = layers.Dropout(0.3)(layers.BatchNormalization()(layers.GaussianNoise(0.1)(state)))
    return keras.Model(windows, layers.Dense(features)(state))
"""


@pytest.mark.parametrize(
    ("workers", "devices", "kills"),
    [pytest.param(1, 2, 1, id="two_devices"), pytest.param(2, 1, 3, id="two_workers", marks=pytest.mark.long)],
)
def test_statistics_and_random_layers_survive_kills_too(job_file, start, data, tmp_path, workers, devices, kills):
    (tmp_path / "any_layers.py").write_text(ANY_LAYERS)
    files = {
        name: job_file(
            name, workers=workers, epochs=1 + kills, model={"class": "any_layers:make"},
            feed={"batch_size": 32, "shuffle": 200},
        )
        for name in ("whole", "killed")
    }  # fmt: skip
    finish(start(files["whole"], workers, bare=False, devices=devices))
    for kill in range(kills):
        until = last_step(files["killed"]) + 20 + 15 * kill
        group = start(files["killed"], workers, devices=devices, hold=until + 20)
        wait_for_step(files["killed"], until, group)
        for process in group:
            assert process.poll() is None, process.communicate()
            process.send_signal(signal.SIGKILL)
        for process in group:
            end(process)
    finish(start(files["killed"], workers, devices=devices))
    assert_same_bits(files["whole"], files["killed"])

    # What is exported scores what the run says, whose evaluation was on both.
    result = json.loads((tmp_path / "whole" / "complete.json").read_text())
    model = keras.saving.load_model(RunLayout(str(tmp_path / "whole")).model)
    windows = np.concatenate([batch["values"] for batch in load_dataset(data.output, "eval", batch_size=1)])
    assert np.mean((model.predict(windows, verbose=0) - windows) ** 2) == pytest.approx(result["best_loss"], rel=1e-5)


def test_one_run_at_a_time_in_a_working_folder(job_file, start, tmp_path):
    job = job_file("one", epochs=40)
    (first,) = start(job)
    wait_for_step(job, 1, [first])
    (second,) = start(job)
    code, errors = end(second)
    assert code == 2
    told = f"train.workdir: process {first.pid} on {os.uname().nodename} is training in {tmp_path}/one right now"
    assert errors.splitlines()[-1].startswith(told)
    first.send_signal(signal.SIGKILL)
    end(first)
    (third,) = start(job)  # at once: the lock went with its holder
    wait_for_step(job, last_step(job) + 1, [third])
    assert third.poll() is None, third.communicate()
    third.send_signal(signal.SIGTERM)
    assert end(third)[0] == PREEMPTED
    assert not (tmp_path / "one" / "lock.json").exists()


TASKS = {
    "classifier": {"name": "classify", "target": "fault", "class_weights": "balanced", "metrics": ["accuracy", "auc"]},
    "two_outputs": {
        "outputs": {
            "hot": {"name": "classify", "target": "hot", "weight": 0.5},
            "life": {"name": "regress", "target": "life", "sample_weight": "importance"},
        }
    },
}


@pytest.mark.long
@pytest.mark.parametrize("task", ["classifier", "two_outputs"])
def test_other_tasks_survive_kills_too(tmp_path, start, task):
    data = write_labelled(str(tmp_path / "data"), {"train": 800, "eval": 100, "test": 30})
    files = {}
    for name in ("whole", "killed"):
        job = labelled_job(
            data.output,
            task=TASKS[task],
            model={"name": "recurrent", "cell": "gru", "units": [8], "dropout": 0.2},
            checkpoint={"every_steps": 10},
            epochs=20,
            workdir=str(tmp_path / name),
        )
        files[name] = str(tmp_path / f"{name}.yaml")
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(job.model_dump(mode="json", by_alias=True)))
    finish(start(files["whole"], devices=1))
    for kill in range(3):
        until = last_step(files["killed"]) + 200 + 90 * kill
        group = start(files["killed"], hold=until + 40)
        wait_for_step(files["killed"], until, group)
        assert group[0].poll() is None, group[0].communicate()
        group[0].send_signal(signal.SIGKILL)
        assert end(group[0])[0] == 128 + signal.SIGKILL
    finish(start(files["killed"], devices=1))
    assert_same_bits(files["whole"], files["killed"])
    whole, killed = ((tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in files)
    assert without_times(map(json.loads, whole)) == without_times(map(json.loads, killed))


def test_sigterm_to_one_of_two_saves_and_asks_for_a_restart(job_file, start):
    whole, stopped = job_file("whole", epochs=2), job_file("stopped", epochs=2)
    finish(start(whole, 2, devices=1))
    group = start(stopped, 2, save=0.3)
    wait_for_step(stopped, 30, group)
    group[1].send_signal(signal.SIGTERM)
    for process in group:
        code, errors = end(process)
        assert code == PREEMPTED, errors
        assert re.search(r"^train: stopped at step \d+, saved. The same command continues.$", errors, re.MULTILINE)
    assert 30 <= last_step(stopped) < 2 * 93
    finish(start(stopped, 2, devices=1))
    assert_same_bits(whole, stopped)


def test_a_worker_that_never_comes_is_named(job_file, start):
    (chief,) = start(job_file("alone", join_timeout="12s"), workers=2, come=1)
    code, errors = end(chief)
    assert code == LOST, errors
    (line,) = [line for line in errors.splitlines() if line.startswith("worker 0:")]
    assert "waited 12 s" in line
    assert "worker 1 (127.0.0.1:" in line
    assert "does not answer" in line


def test_sigterm_ends_a_worker_that_waits(job_file, start):
    (chief,) = start(job_file("alone", join_timeout="5m"), workers=2, come=1)
    wait_for_listening(chief)
    chief.send_signal(signal.SIGTERM)
    code, errors = end(chief)
    assert code > 128
    assert "asked to stop (connecting)" in errors


def test_a_worker_killed_for_good_is_named(job_file, start):
    job = job_file("lost", epochs=500)
    group = start(job, 2)
    wait_for_step(job, 20, group)
    group[1].kill()
    code, errors = end(group[0])
    assert code == LOST, errors
    assert "worker 1 (127.0.0.1:" in errors
    assert "does not answer" in errors


def test_work_that_takes_longer_than_the_others_wait_is_no_reason_to_end(job_file, start):
    """Writing the best weights and each checkpoint, and compiling: each of them takes more than the limit."""
    job = job_file("slow", max_steps=12, worker_timeout="5s", checkpoint={"every": "1h"})
    for process in start(job, 2, save=7, trace=7):
        code, errors = end(process)
        assert code == 0, errors


@pytest.mark.parametrize(("workers", "frozen"), sample([(2, 1), (2, 0), (3, 1)], [(2, 0)]))
def test_a_frozen_worker_is_named(job_file, start, workers, frozen):
    job = job_file("frozen", epochs=500, worker_timeout="25s")
    group = start(job, workers)
    wait_for_step(job, 20, group)
    group[frozen].send_signal(signal.SIGSTOP)
    others = [process for process in group if process is not group[frozen]]
    ends = [end(process) for process in others]
    group[frozen].kill()
    for code, errors in ends:
        assert code == LOST, errors
        assert re.search(rf"worker {frozen} \(127.0.0.1:\d+\) is frozen", errors), errors


@pytest.mark.long
def test_the_launcher_starts_the_group_again(job_file, tmp_path):
    whole, lost = job_file("whole", epochs=40), job_file("lost", epochs=40, restarts=2)
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "train"]
    subprocess.run([*command, whole], check=True, capture_output=True, timeout=600)
    launcher = subprocess.Popen(
        [*command, lost, "--restart"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        wait_for_step(lost, 100, [launcher])
        (worker,) = [pid for pid in children(launcher.pid) if is_worker(pid, 1)]
        os.kill(worker, signal.SIGKILL)
        _, errors = launcher.communicate(timeout=600)
    finally:
        launcher.kill()
    assert launcher.returncode == 0, errors
    assert "train worker 1 of 2 was ended by SIGKILL" in errors
    assert "starts again from its last checkpoint (1 of 2)" in errors
    assert_same_bits(whole, lost)


def children(parent: int) -> list[int]:
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        return [int(pid) for pid in file.read().split()]


def is_worker(pid: int, index: int) -> bool:
    with open(f"/proc/{pid}/environ") as file:
        return f'"index": {index}' in file.read()


@pytest.mark.long
@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_workers_trains_alike(job_file, start, workers):
    """Three workers on two files of unequal size; 50 steps and more, at the same global batch."""
    one, several = job_file("one", epochs=1), job_file("several", epochs=1)
    finish(start(one, devices=1))
    finish(start(several, workers, devices=1))
    assert last_step(one) == 93
    for a, b in zip(weights(one), weights(several), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6 * float(np.abs(a).max()))
