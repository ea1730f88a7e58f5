"""The jobs with labels: faults of simulated pumps, and the remaining life of engines."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BEAMFEED_DATA", ROOT.parent / "shared" / "data"))


def run(folder, *command):
    return subprocess.run(
        [sys.executable, *map(str, command)], check=True, cwd=folder, timeout=400, capture_output=True, text=True
    ).stdout


@pytest.mark.long
def test_faults_of_pumps(tmp_path):
    """The commands that stand at the top of the job file."""
    job = ROOT / "examples" / "fleet_faults.yaml"
    make, run_job = re.findall(r"^#   (.+)$", job.read_text(), re.MULTILINE)
    run(tmp_path, ROOT / "examples" / "make_fleet.py", *make.split()[2:])
    assert run_job == "beamfeed run examples/fleet_faults.yaml"
    told = run(tmp_path, "-m", "beamfeed.launcher.cli", "run", job, "--set", "train.epochs=4")
    result = json.loads((tmp_path / "out/fleet_faults/model/complete.json").read_text())
    assert result["watched"] == "auc"
    assert result["best"] > 0.95
    assert result["test_metrics"]["auc"] > 0.9
    assert re.search(r"^best eval auc \(epoch \d+\) +\S+\neval loss +\S+, accuracy \S+, auc \S+$", told, re.MULTILINE)
    manifest = json.loads((tmp_path / "out/fleet_faults/data/manifest.json").read_text())
    (label,) = (field for field in manifest["fields"] if field["role"] == "target")
    assert label["classes"] == ["false", "true"]


@pytest.mark.long
@pytest.mark.skipif(not (DATA / "turbofan").is_dir(), reason=f"{DATA} is not there")
def test_remaining_life_of_engines(tmp_path):
    """One seed of docs/results.md. The published figure of a deep LSTM, 16.1, is for the mean of three."""
    sets = [
        f"source.files={DATA}/turbofan/*.parquet",
        f"output.path={tmp_path}/data",
        f"train.workdir={tmp_path}/model",
    ]
    arguments = [part for one in [*sets, "train.seed=1", "train.feed.seed=1"] for part in ("--set", one)]
    run(tmp_path, "-m", "beamfeed.launcher.cli", "run", ROOT / "examples" / "turbofan_life.yaml", *arguments)
    engines, truth = DATA / "turbofan_test_FD001.txt", DATA / "turbofan_rul_FD001.txt"
    score = [ROOT / "examples" / "turbofan_life.py", "--engines", engines, "--truth", truth]
    told = run(tmp_path, *score, "--model", tmp_path / "model", "--plot", tmp_path / "life.png")
    assert float(re.search(r"^mean ([\d.]+), ", told, re.MULTILINE)[1]) < 17
    assert (tmp_path / "life.png").read_bytes().startswith(b"\x89PNG")
