"""Runs the commands of a page of docs/, in order, and compares or writes what they print.

    python tests/docs/run_page.py docs/tutorial.md    # writes it anew

A block that begins with ```console holds commands, each after `$ `, and below it what it prints to stdout. A file that
a block is headed by, as in ```yaml title="job.yaml"```, is what a command has written.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(?m)^```(console|\w+ title=\"([^\"]+)\")\n(.*?)^```$", re.DOTALL)
PROGRAMS = {"beamfeed": [sys.executable, "-m", "beamfeed.launcher.cli"], "python": [sys.executable]}
SECONDS_MOST = 600


def run(command: str, folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints to stdout.

    Raises:
      AssertionError: if it fails.
    """
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [*PROGRAMS.get(program, [program]), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS_MOST,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def written(text: str, folder: Path, shown: Callable[[Path], None] = lambda path: None) -> str:
    """The page with what its commands print and write now.

    Args:
      text: of the page.
      folder: where they run; the repository's examples/ is in it.
      shown: is called with each file that the page shows, once its text is taken.
    """
    (folder / "examples").symlink_to(ROOT / "examples")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3", "COLUMNS": "120"}

    def anew(found: re.Match[str]) -> str:
        head, path, body = found.groups()
        if path:
            told = (folder / path).read_text()
            shown(folder / path)
            return f"```{head}\n{told}```"
        commands = [line for line in body.splitlines() if line.startswith("$ ")]
        told = "".join(f"{line}\n{run(line[2:], folder, environment)}" for line in commands)
        return f"```{head}\n{told}```"

    return BLOCK.sub(anew, text)


def steady(text: str) -> str:
    """The text without what hangs on the machine: seconds, sizes in memory, losses, and when training stops."""
    text = re.sub(r"(?m)^(epochs|steps|go on) .*$", r"\1", text)
    text = re.sub(r"[0-9a-f]{64}", "#", text)  # of the times of the files
    text = re.sub(r"epoch \d+\b|\d+ epochs, ", "epoch #", text)
    text = re.sub(r"\d+\.\d+(e-?\d+)?", "#", text)
    text = re.sub(r"[\d,]+ (s|GB)\b", r"# \1", text)
    return re.sub(r"[ -]{2,}", "  ", text)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as scratch:
        page.write_text(written(page.read_text(), Path(scratch)))
