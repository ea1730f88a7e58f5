"""The page docs/results.md: an autoencoder of the first half of each engine's life notices the end of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGINES = Path(os.environ.get("BEAMFEED_DATA", ROOT.parent / "shared" / "data")) / "turbofan"


@pytest.mark.long
@pytest.mark.skipif(not ENGINES.is_dir(), reason=f"{ENGINES} is not there")
def test_scores_tell_of_the_end_of_an_engines_life(tmp_path):
    sets = [f"source.files={ENGINES}/*.parquet", f"output.path={tmp_path}/data", f"train.workdir={tmp_path}/model"]
    arguments = [part for one in sets for part in ("--set", one)]
    job = ROOT / "examples" / "turbofan_health.yaml"
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "run", str(job), *arguments]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=400)
    plot = tmp_path / "health.png"
    script = [sys.executable, str(ROOT / "examples" / "turbofan_health.py"), str(tmp_path / "model" / "scores")]
    told = subprocess.run(
        [*script, "--plot", str(plot)], check=True, capture_output=True, text=True, cwd=tmp_path, timeout=200
    ).stdout
    higher, ahead, early = (float(number) for number in re.findall(r"^(?:flagged from )?([\d.]+)", told, re.MULTILINE))
    assert higher >= 95
    assert ahead >= 20
    assert early <= 5
    assert plot.read_bytes().startswith(b"\x89PNG")
