"""A sweep to be made of a few lines, and trainers that only say what they measure."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from beamfeed.contract.config.load import JobFile
from beamfeed.launcher.job import job_model
from beamfeed.launcher.processes import Process, start_process
from beamfeed.launcher.sweep import search as search_module
from beamfeed.launcher.sweep.space import Search, read_space
from beamfeed.launcher.sweep.trials import Going

TEXT = """
name: tried
source: {{kind: timeseries, files: in, time: {{column: t}}, features: [a]}}
windows: {{length: 8, stride: 2}}
output: {{path: {folder}/data}}
train: {{model: {{name: dense_autoencoder, units: [8], latent: 2}}, epochs: 3, workdir: {folder}/model}}
sweep: {{pruner: none, space: {{train.seed: {{low: 1, high: 1000}}, train.optimizer.clip_norm: {{low: 0.1, high: 2}}}}}}
"""
# What a trainer writes: its loss is the seed over the epoch. It ends badly where the seed is below the least.
TRAINER = """
import json, pathlib, signal, sys, time
folder, seed, epochs, pause = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
least = int(sys.argv[5])
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
if seed < least:
    sys.exit("beamfeed: the seed is bad")
(folder / "run.json").write_text(json.dumps({"watched": {"metric": "loss", "mode": "min"}}))
lines = []
for epoch in range(1, epochs + 1):
    lines.append({"epoch": epoch, "step": epoch, "loss": 0.0, "eval_loss": seed / epoch})
    (folder / "new").write_text("".join(json.dumps(line) + chr(10) for line in lines))
    (folder / "new").rename(folder / "metrics.jsonl")
    time.sleep(pause)
(folder / "complete.json").write_text(json.dumps({
    "fingerprint": "", "epochs": epochs, "stale": 0, "stopped_early": False, "first_loss": 0, "last_loss": 0,
    "best": seed / epochs, "best_loss": seed / epochs, "test_loss": None, "seconds": 1, "workers": 1}))
"""


@pytest.fixture
def publish(tmp_path) -> Callable[[str], None]:
    """Writes as much of a dataset as a sweep looks at while it goes on."""

    def publish(fingerprint: str) -> None:
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / "manifest.json").write_text(json.dumps({"fingerprint": fingerprint}))

    return publish


@pytest.fixture
def make(tmp_path, publish) -> Callable[..., Search]:
    def make(*overrides: str, parallel: int = 1) -> Search:
        file = JobFile(TEXT.format(folder=tmp_path), "job.yaml", overrides)
        job = file.job(job_model(sourced=False))
        folder = tmp_path / "sweep"
        folder.mkdir(exist_ok=True)
        publish("data")
        return Search(file, job, job.sweep, read_space(file, job.sweep), str(folder), parallel, "data")

    return make


@pytest.fixture
def trainers(tmp_path, monkeypatch) -> Callable[..., None]:
    """Puts trainers that pause so long after each epoch in the place of real ones."""
    (tmp_path / "trainer.py").write_text(TRAINER)

    def use(pause: float, least: int = 100) -> None:
        def start(trial, job, search, slot):
            folder = Path(job.train.workdir)
            folder.mkdir(exist_ok=True)
            words = (tmp_path / "trainer.py", folder, job.train.seed, job.train.epochs, pause, least)
            process = Process((sys.executable, *map(str, words)), {}, log=str(folder / "train.log"))
            return Going(trial, job.train, start_process("trial", process))

        monkeypatch.setattr(search_module, "start_trial", start)

    return use
