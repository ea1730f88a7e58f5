"""`python -m beamfeed.trainer.tools.list_checkpoints WORKDIR`: the checkpoints that a training run may go back to."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from beamfeed.contract import storage, streams
from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.options import CHECKPOINTS
from beamfeed.contract.text import table
from beamfeed.trainer.loop.state import TrainingState


def read(workdir: str) -> dict[int, TrainingState | None]:
    """The state of each checkpoint, by steps; None of one that is damaged.

    Raises:
      UserError: if there is none.
    """
    folder = RunLayout(workdir).checkpoints
    states: dict[int, TrainingState | None] = {}
    for step, prefix in find_checkpoints(folder).items():
        try:
            states[step] = TrainingState(**json.loads(storage.read_text(prefix + ".json")))
        except FileNotFoundError:  # a run that goes on has removed it meanwhile
            continue
        except (ValueError, TypeError):
            states[step] = None
    if not states:
        raise UserError(f"{folder}: holds no checkpoint")
    return states


def describe(states: Mapping[int, TrainingState | None]) -> list[str]:
    """A line for each checkpoint, in order of steps, under a line of names."""
    rows: list[tuple[str, ...]] = [("step", "epoch", "steps of it", "best at step", "best loss")]
    for step, state in states.items():
        if state is None:
            rows.append((str(step), "damaged", "", "", ""))
            continue
        values = values_of(step, state)
        best_step, loss = values["best_step"], values["best_loss"]
        best = ("-" if best_step is None else str(best_step), "-" if loss is None else f"{loss:.6g}")
        rows.append((str(step), str(values["epoch"]), str(state.done) if state.done else "all", *best))
    return [f"  {line}" for line in table(rows, left=0)]


def values_of(step: int, state: TrainingState | None) -> dict[str, Any]:
    """A checkpoint as values for programs; those of a damaged one are null."""
    if state is None:
        return {"step": step, "damaged": True, "epoch": None, "best_step": None, "best_loss": None}
    best = state.best_step
    loss = state.measured.get("loss") if best is not None else None
    epoch = state.epoch + (state.done > 0)  # one that is over counts; one that is under way is the next
    return {"step": step, "damaged": False, "epoch": epoch, "best_step": best, "best_loss": loss}


def show(arguments: argparse.Namespace) -> None:
    """Prints the checkpoints of a folder."""
    states = read(arguments.workdir)
    if arguments.json:
        for step, state in states.items():
            emit_event("checkpoint", **values_of(step, state))
    else:
        print("\n".join(describe(states)))


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    return CHECKPOINTS.run(show, argv)


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
