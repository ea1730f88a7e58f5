"""docs/check.md shows what `beamfeed check` prints for the demo."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "check.md").read_text()

pytestmark = pytest.mark.slow


def test_the_output_is_that_of_the_demo(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    (tmp_path / "examples").symlink_to(ROOT / "examples")

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)

    assert run("examples/make_fleet.py", "--out", "out/fleet").returncode == 0
    shown, failing = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[:2]
    done = run("-m", "beamfeed.launcher.cli", "check", "examples/fleet.yaml")
    assert done.returncode == 0
    for line, told in zip(shown.splitlines(), done.stdout.splitlines(), strict=True):
        if not line.startswith("preprocess"):  # hangs on the machine
            assert line == told
    command, *problems = failing.splitlines()
    done = run("-m", "beamfeed.launcher.cli", *command.split()[2:])
    assert done.returncode == 2
    assert done.stderr.replace(str(tmp_path), "/home/me/beamfeed").splitlines() == problems
