"""`python -m beamfeed.trainer.tools.list_checkpoints WORKDIR`: the checkpoints that a training run may go back to."""

import json
import sys
from collections.abc import Sequence

from beamfeed.contract import storage, streams
from beamfeed.contract.arguments import Parser
from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.trainer.loop.state import TrainingState
from beamfeed.trainer.tools.table import table


def describe(workdir: str) -> list[str]:
    """A line for each checkpoint, in order of steps, under a line of names.

    Raises:
      UserError: if there is none.
    """
    folder = RunLayout(workdir).checkpoints
    rows: list[tuple[str, ...]] = [("step", "epoch", "steps of it", "best at step", "best loss")]
    for step, prefix in find_checkpoints(folder).items():
        try:
            state = TrainingState.of(json.loads(storage.read_text(prefix + ".json")))
        except FileNotFoundError:  # a run that goes on has removed it meanwhile
            continue
        except (ValueError, TypeError):
            rows.append((str(step), "damaged", "", "", ""))
            continue
        loss = state.measured.get("loss")
        best = (str(state.best_step), "-" if loss is None else f"{loss:.6g}") if state.best_step else ("-", "-")
        # An epoch that is over counts; one that is under way is the next.
        rows.append((str(step), str(state.epoch + (state.done > 0)), str(state.done) if state.done else "all", *best))
    if len(rows) == 1:
        raise UserError(f"{folder}: holds no checkpoint")
    return [f"  {line}" for line in table(rows, left=0)]


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    program = "python -m beamfeed.trainer.tools.list_checkpoints"
    parser = Parser(
        prog=program,
        description="Shows the checkpoints that a training run may go back to (--from-step).",
        example=f"{program} out/model",
    )
    parser.add_argument("workdir", help="train.workdir of a job")
    arguments = parser.parse_args(argv)
    try:
        lines = describe(arguments.workdir)
    except Exception as error:
        return complain(error, FailureLog())
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
