"""The names of checkpoints in their folder: `step-000001200` and so on; see `trainer/loop/checkpoint.py`."""

import json
import re

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError

_DONE = re.compile(r"step-(\d{9,})\.json")


def checkpoint_path(folder: str, step: int) -> str:
    """The prefix of a checkpoint's files."""
    return storage.join(folder, f"step-{step:09d}")


def find_checkpoints(folder: str) -> dict[int, str]:
    """The finished checkpoints in a folder: step -> prefix of its files, in order of steps."""
    try:
        names = storage.list_folder(folder)
    except FileNotFoundError:
        return {}
    steps = sorted(int(match[1]) for name in names if (match := _DONE.fullmatch(name)))
    return {step: checkpoint_path(folder, step) for step in steps}


def check_step(folder: str, step: int) -> None:
    """Raises UserError where there is no finished checkpoint of a step."""
    steps = find_checkpoints(folder)
    if step not in steps:
        raise UserError(
            f"--from-step {step}: {folder} holds no checkpoint of step {step} "
            f"(there: {', '.join(map(str, steps)) or 'none'})"
        )


def find_progress(folder: str) -> tuple[int, int] | None:
    """The step of the newest checkpoint and the epoch that it is in, from 1; None where there is none to be read."""
    try:
        step, prefix = list(find_checkpoints(folder).items())[-1]
        state = json.loads(storage.read_text(f"{prefix}.json"))
        return step, max(1, state["epoch"] + (state.get("done", 0) > 0))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None
