"""This tree and that of another commit, which preprocess the same files on the same interpreter and libraries."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Measured, measure_writing
from turns import ROOT, preprocessing


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
    command = ["env", "-C", str(tree), f"PYTHONPATH={tree}", *preprocessing(job, scratch / "job.yaml")]
    return measure_writing(command, Path(job["output"]["path"]), scratch / "log.txt")
