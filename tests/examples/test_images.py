"""The job on photographs, end to end on the local runner, scored on those that it did not see."""

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BEAMFEED_DATA", ROOT.parent / "shared" / "data"))

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (DATA / "smiles").is_dir(), reason=f"{DATA}/smiles is not there"),
]


def test_smiles(tmp_path):
    """The mean of three seeds that docs/results.md gives; 0.90 is what was to be reached."""
    found = [smiles(tmp_path, seed) for seed in (1, 2, 3)]
    assert statistics.mean(found) >= 0.90
    assert min(found) >= 0.88


def smiles(folder, seed):
    """The accuracy on the test split."""
    workdir = folder / f"model-{seed}"
    sets = {
        "source.files": DATA / "smiles", "output.path": folder / "data", "train.workdir": workdir,
        "train.seed": seed, "train.feed.seed": seed,
    }  # fmt: skip
    arguments = [part for key, value in sets.items() for part in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "run", ROOT / "examples" / "smiles.yaml", *arguments]
    done = subprocess.run(list(map(str, command)), timeout=900, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((workdir / "complete.json").read_text())["test_metrics"]["accuracy"]
