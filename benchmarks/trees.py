"""This tree and that of another commit, which preprocess the same files on the same interpreter and libraries."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from measure import Measured, measure_writing
from turns import ROOT


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Path | None]:
    """The tree of a commit, in a new folder; None where this repository has none such."""
    add = ["git", "worktree", "add", "--quiet", "--detach", str(folder), commit]
    if subprocess.run(add, cwd=ROOT, stderr=subprocess.DEVNULL).returncode:
        yield None
        return
    try:
        yield folder
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT, check=True)


def preprocess(tree: Path, job: dict, scratch: Path) -> Measured:
    """Preprocesses with the code of a tree, start-up included.

    Raises:
      CommandFailed: if it fails.
    """
    path = scratch / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    command = ["env", "-C", str(tree), f"PYTHONPATH={tree}", sys.executable, "-m", "beamfeed.pipelines.preprocess"]
    return measure_writing([*command, "--job", str(path)], Path(job["output"]["path"]), scratch / "log.txt")
