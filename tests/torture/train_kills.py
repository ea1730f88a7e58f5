"""Kills training runs again and again, at random moments, and compares what a run that may end leaves behind.

python -m tests.torture.train_kills --kills 100

Five kinds of model, each with one worker and with two.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.marks import write_section

from .kills import parse
from .one import ROOT

START_S, END_S = 240.0, 600.0
LOST = 138  # the exit code of a worker whose other one was killed
TIMES = ("seconds", "windows_per_second", "waiting")  # of metrics.jsonl and complete.json; differ from run to run

OWN = """
import keras
from keras import layers, ops

def statistics(length, features):
    windows = keras.Input((length, features))
    state = layers.BatchNormalization()(layers.Dense(16)(layers.GaussianNoise(0.1)(windows)))
    return keras.Model(windows, layers.Dense(features)(layers.Dropout(0.3)(state)))


class Spread(layers.Layer):
    def call(self, values):
        self.add_loss(0.01 * ops.mean(ops.square(values)))
        return values


def added(length, features):
    windows = keras.Input((length, features))
    state = Spread()(layers.GRU(8, return_sequences=True)(windows))
    return keras.Model(windows, layers.Dense(features, kernel_regularizer="l2")(state))
"""
CELL = {"name": "recurrent_autoencoder", "units": [16], "latent": 4}
SECTIONS: dict[str, dict[str, Any]] = {
    "lstm": {"model": {**CELL, "cell": "lstm"}},
    "gru": {"model": {**CELL, "cell": "gru"}, "optimizer": {"ema": 0.99}},
    "statistics": {"model": {"class": "own_models:statistics"}},
    "added": {"model": {"class": "own_models:added"}},
    "classifier": {
        "model": {"name": "recurrent", "cell": "gru", "units": [16], "dropout": 0.2},
        "task": {"name": "classify", "target": "worn", "class_weights": "balanced", "metrics": ["accuracy", "auc"]},
    },
}


def prepare(folder: Path) -> dict[str, Any]:
    """Writes a small fleet whose assets wear out, preprocesses it, and returns its job without the section train."""
    rng = np.random.default_rng(4)
    (folder / "fleet").mkdir()
    for asset in range(12):
        rows = 900
        wear = np.linspace(0, 1, rows)
        values = np.sin(np.arange(rows)[:, None] / (3 + np.arange(3)) + asset) * (1 + wear[:, None])
        values += 0.1 * rng.normal(size=values.shape)
        lines = [f"{row},{a:.4f},{b:.4f},{c:.4f},{int(wear[row] > 0.6)}" for row, (a, b, c) in enumerate(values)]
        (folder / "fleet" / f"asset-{asset:02d}.csv").write_text("\n".join(["t,a,b,c,worn", *lines]) + "\n")
    (folder / "own_models.py").write_text(OWN)
    job = {
        "name": "kills",
        "source": {
            "kind": "timeseries", "files": str(folder / "fleet"), "time": {"column": "t", "unit": "s"},
            "features": ["a", "b", "c"],
        },
        "windows": {"length": 16, "stride": 4},
        "label": {"name": "worn", "column": "worn", "classes": [0, 1]},
        "split": {"by": "asset", "train": 0.7, "eval": 0.2, "test": 0.1},
        "output": {"path": str(folder / "data"), "shards": 3},
    }  # fmt: skip
    path = folder / "data.yaml"
    path.write_text(yaml.safe_dump(job))
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return job


class Run:
    """A training run in a folder, which can be started again and again."""

    def __init__(self, folder: Path, data: dict[str, Any], name: str, section: dict[str, Any], workers: int):
        self.workdir, self._folder, self._workers = folder / name, folder, workers
        self._path = folder / f"{name}.yaml"
        train = {
            "feed": {"batch_size": 32, "shuffle": 200}, "epochs": 10, "checkpoint": {"every_steps": 20},
            "worker_timeout": "30s", "join_timeout": "120s", "workdir": str(self.workdir),
            "task": {"name": "reconstruct"}, **section,
        }  # fmt: skip
        self._path.write_text(yaml.safe_dump({**data, "train": train}))

    def start(self) -> list[subprocess.Popen]:
        """One process for each worker, the chief first."""
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(self._workers)]
            for one in sockets:
                one.bind(("127.0.0.1", 0))
            addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
        group = []
        for index in range(self._workers):
            cluster = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            environ = {**os.environ, "PYTHONPATH": str(self._folder), "TF_CPP_MIN_LOG_LEVEL": "3"}
            if self._workers > 1:
                environ["TF_CONFIG"] = json.dumps(cluster)
            command = [sys.executable, "-m", "beamfeed.trainer.main", "--job", str(self._path)]
            with open(self._folder / f"worker-{index}.log", "w") as log:
                group.append(subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log))
        return group

    def wait_for_lock(self, chief: subprocess.Popen) -> None:
        """Waits until a chief holds the working folder."""
        path, deadline = self.workdir / "lock.json", time.monotonic() + START_S
        while not path.exists() or f'"pid": {chief.pid},' not in path.read_text():
            if chief.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the run did not start: {self.told()}")
            time.sleep(0.005)

    def told(self, index: int = 0) -> str:
        """The end of what a worker wrote last."""
        return (self._folder / f"worker-{index}.log").read_text()[-500:]

    def remove(self) -> None:
        """Begins anew."""
        for path in sorted(self.workdir.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()


def left_by(workdir: Path) -> dict[str, Any]:
    """All that a run which is over leaves: variables as bytes, numbers without times."""
    found: dict[str, Any] = {}
    for path in (*workdir.glob("checkpoints/*"), *workdir.glob("best/*")):
        name = path.relative_to(workdir).as_posix()
        found[name] = path.read_bytes() if path.suffix != ".json" else path.name
    for name in ("metrics.jsonl", "complete.json"):
        text = (workdir / name).read_text()
        for number, line in enumerate([text] if name == "complete.json" else text.splitlines()):
            values = json.loads(line)
            found[f"{name}:{number}"] = {key: value for key, value in values.items() if key not in TIMES}
    return found


def finish(run: Run) -> list[str]:
    """Lets a run end; what is wrong."""
    group = run.start()
    try:
        codes = [process.wait(END_S) for process in group]
    except subprocess.TimeoutExpired:
        return ["does not end"]
    finally:
        kill(group)
    return [f"worker {n}: exit code {code}: {run.told(n)}" for n, code in enumerate(codes) if code]


def kill(group: list[subprocess.Popen]) -> None:
    """SIGKILL to those that are there."""
    for process in group:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
    for process in group:
        process.wait()


def kill_again_and_again(
    folder: Path, data: dict[str, Any], name: str, workers: int, kills: int, chance: random.Random
) -> list[str]:
    """Kills runs with a kind of model; returns what is wrong."""
    whole = Run(folder, data, f"{name}-{workers}-whole", SECTIONS[name], workers)
    group = whole.start()
    whole.wait_for_lock(group[0])
    began = time.monotonic()
    codes = [process.wait(END_S) for process in group]
    if any(codes):
        problem = f"the run that nobody killed: {whole.told()}"
        print(f"{name}, {workers} workers: {problem}", flush=True)
        return [problem]
    lasts, wanted = time.monotonic() - began, left_by(whole.workdir)
    run, problems, ended = Run(folder, data, f"{name}-{workers}-killed", SECTIONS[name], workers), [], 0
    for number in range(kills):
        group = run.start()
        try:
            run.wait_for_lock(group[0])
            time.sleep(chance.uniform(0, lasts))
            victims = chance.choice([group, [chance.choice(group)]])  # all at once, as a machine goes; or one
            over = all(process.poll() is not None for process in group)
            kill(victims)
            for process in group:  # the others see it and end by themselves, or had ended
                code = process.wait(END_S)
                if (128 - code if code < 0 else code) not in (0, LOST, 128 + signal.SIGKILL):
                    problems.append(f"kill {number}: a worker ended with {code}: {run.told(group.index(process))}")
        except subprocess.TimeoutExpired:
            problems.append(f"kill {number}: another worker does not end")
        finally:
            kill(group)
        over = over or (run.workdir / "complete.json").exists()
        if over or number == kills - 1:
            told = finish(run)
            if not told and (found := left_by(run.workdir)) != wanted:
                different = [key for key in {*found, *wanted} if found.get(key) != wanted.get(key)]
                told = [f"other bytes: {sorted(different)[:5]}"]
            problems += [f"after kill {number}: {one}" for one in told]
            run.remove()
            ended += 1
    print(f"{name}, {workers} workers: {kills} kills, {ended} ends, {lasts:.1f} s undisturbed; {problems}", flush=True)
    return problems


def main(argv: list[str] | None = None) -> int:
    """Returns 0 if all runs ended in the same bytes."""
    arguments = parse(argv, __doc__)
    cases = [(name, workers) for name in SECTIONS for workers in (1, 2)]
    problems = []
    with tempfile.TemporaryDirectory(prefix="train-kills-") as folder:
        data = prepare(Path(folder))
        for number, (name, workers) in enumerate(cases):
            chance = random.Random(arguments.seed + number)
            kills = arguments.kills * (number + 1) // len(cases) - arguments.kills * number // len(cases)
            if kills:
                found = kill_again_and_again(Path(folder), data, name, workers, kills, chance)
                problems += [f"{name}, {workers} workers: {one}" for one in found]
    told = f"{arguments.kills} kills of training runs: {problems or 'the same bytes each time'}"
    print(told)
    if arguments.docs:
        write_section(arguments.docs, "train-kills", told + ".")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
