"""Builds and installs Beamfeed in environments of their own."""

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

FOLDERS = ("contract", "launcher", "pipelines", "trainer", "transforms")


def run(*command, **options):
    """Runs a command to its end and returns what it printed; fails the test with it."""
    result = subprocess.run(command, capture_output=True, text=True, timeout=400, **options)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def copy_source(root: Path, to: Path) -> Path:
    """A copy of what a build takes, links as links: a build leaves files in the tree."""
    to.mkdir()
    for name in (*FOLDERS, "beamfeed", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(root / name, to / name)
    return to


def new_environment(folder: Path, *install: str) -> str:
    """The Python of a new environment with something installed; a path file lends it the dependencies alone.

    The path files of the environment that runs the tests are not read, so that its Beamfeed is not seen.
    """
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index"]
    run(*pip, "--no-build-isolation", *install)
    return python
