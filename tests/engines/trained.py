"""A job whose model was trained by three processes of this machine, and trainings of it on clusters to compare with."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import yaml

from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from tests.fleets import Fleet, make_table

BEAMFEED = [sys.executable, "-m", "beamfeed.launcher.cli"]


def train_here(folder: Path, epochs: int = 25) -> Path:
    """Makes the dataset, trains on it, and returns the job file."""
    fleet = Fleet(folder)
    for i in range(8):
        fleet.write(f"m{i}.parquet", make_table(2000, seed=i))
    fleet.job["train"] |= {"epochs": epochs, "feed": {"batch_size": 48}, "checkpoint": {"every_steps": 20},
                           "worker_timeout": "10s"}  # fmt: skip
    fleet.job["launch"]["train"]["workers"] = 3
    assert fleet.preprocess() == 0
    path = fleet.write_job()
    subprocess.run([*BEAMFEED, "train", str(path), "-q"], check=True, capture_output=True)
    return path


class Training:
    """The job on a cluster, in a working folder of its own.

    Args:
      job: as `train_here` makes it.
      workdir: of this training.
      env: of who submits.
      overrides: of each command.

    Attributes:
      overrides: all of them.
    """

    def __init__(self, job: Path, workdir: Path, env: dict[str, str], *overrides: str):
        self.workdir, self._job, self._env = workdir, job, env
        self.overrides = (f"train.workdir={workdir}", *overrides)

    def start(self, command: str = "train", *overrides: str) -> subprocess.Popen:
        sets = [part for value in (*self.overrides, *overrides) for part in ("--set", value)]
        return subprocess.Popen(
            [*BEAMFEED, command, str(self._job), *sets],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._env,
        )  # fmt: skip

    def run(self) -> dict[str, Any]:
        """What `beamfeed status` tells of the run."""
        status = subprocess.run(
            [*BEAMFEED, "status", str(self.workdir), "--json"],
            env=self._env,
            check=True,
            capture_output=True,
            text=True,
        )
        return json.loads(status.stdout)

    def attach(self) -> subprocess.Popen:
        """Follows the run."""
        return subprocess.Popen(
            [*BEAMFEED, "attach", self.run()["id"]],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self._env, cwd="/",
        )  # fmt: skip

    def reached(self, step: int, process: subprocess.Popen) -> None:
        """Waits for a checkpoint."""
        while max(find_checkpoints(RunLayout(str(self.workdir)).checkpoints), default=0) < step:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    def finished(self, process: subprocess.Popen, was_followed: bool = True) -> str:
        """What was said until the model was there, which is that of the run on this machine."""
        _, error = process.communicate(timeout=400)
        assert process.returncode == 0, error
        here = yaml.safe_load(self._job.read_text())["train"]["workdir"]
        for a, b in zip(weights(here), weights(self.workdir), strict=True):
            np.testing.assert_array_equal(a, b)
        assert losses(here) == losses(self.workdir)
        assert not was_followed or not list((self.workdir / "logs").glob("progress-*"))
        return error


def weights(workdir: Path | str) -> list[np.ndarray]:
    return keras.saving.load_model(RunLayout(str(workdir)).model).get_weights()


def losses(workdir: Path | str) -> list[tuple[float, float]]:
    with open(RunLayout(str(workdir)).metrics) as file:
        return [(line["loss"], line["eval_loss"]) for line in map(json.loads, file)]
