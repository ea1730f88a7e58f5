"""The forecasts of docs/results.md, one seed each."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from beamfeed.contract.dataset.result import read_result
from beamfeed.contract.dataset.review import read_review

ROOT = Path(__file__).parents[2]
FILE = Path(os.environ.get("BEAMFEED_DATA", ROOT.parent / "shared" / "data")) / "ett" / "ETTh1.csv"
pytestmark = [pytest.mark.long, pytest.mark.skipif(not FILE.exists(), reason=f"{FILE} is not there")]


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *map(str, command)], check=True, cwd=folder, timeout=400, capture_output=True, text=True
    ).stdout


def test_the_benchmark_of_a_transformer(tmp_path):
    """Published for linear models: 0.374 and 0.375."""
    sets = [f"source.files={FILE}", f"output.path={tmp_path}/data", f"train.workdir={tmp_path}/model"]
    arguments = [part for one in [*sets, "train.seed=1", "train.feed.seed=1"] for part in ("--set", one)]
    run(tmp_path, "-m", "beamfeed.launcher.cli", "run", ROOT / "examples" / "forecast.yaml", *arguments)
    assert read_result(str(tmp_path / "model")).test_loss < 0.39
    printed = run(tmp_path, ROOT / "examples" / "forecast_score.py", "--file", FILE, "--model", tmp_path / "model")
    windows, error = re.search(r": (\S+) windows, mean squared error ([\d.]+)", printed).groups()
    assert windows == "2,785"
    assert float(error) < 0.385


def test_the_untouched_job_of_init_beats_the_last_value(tmp_path):
    shutil.copy(FILE, tmp_path / "plant.csv")
    run(tmp_path, "-m", "beamfeed.launcher.cli", "init", "plant.csv", "--label", "OT", "--out", "job.yaml")
    run(tmp_path, "-m", "beamfeed.launcher.cli", "run", "job.yaml")
    workdir = str(tmp_path / "out" / "plant" / "model")
    for split in read_review(workdir, read_result(workdir).fingerprint).splits.values():
        errors = {name: found["mean_absolute_error"] for name, found in split.guesses.items()}
        assert split.model["mean_absolute_error"] < 0.97 * errors["the last value"]
        assert errors["the last value"] < errors["the value 24 rows before"]
