"""What came of each group: a row of the results, or why there is none."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.limits import groups_over_limits
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.groups.each import TrainEach
from beamfeed.transforms.groups.places import Group


@dataclass(frozen=True)
class Outcome:
    """What came of a group.

    Attributes:
      group: its name.
      windows: by split.
      reason: why there is no model; empty where there is one.
      row: else, of the results.
    """

    group: str
    windows: Mapping[SplitName, int]
    reason: str = ""
    row: Mapping[str, Any] | None = None


def read_row(each: TrainEach, name: str) -> dict[str, Any] | None:
    """The result of a group that was trained before, in an attempt that was ended; None where there is none."""
    try:
        row = json.loads(storage.read_text(each.layout.result(name)))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) and row.get("fingerprint") == each.fingerprint(name) else None


def row_of(each: TrainEach, group: Group, result: TrainResult, model: str | None, seconds: float) -> dict[str, Any]:
    """A row of the results."""
    return {
        "group": group.name,
        **window_counts(Outcome(group.name, group.windows)),
        "epochs": result.epochs,
        "steps": result.steps,
        "best_split": result.best_split,
        "best_epoch": result.best_epoch,
        "best_loss": result.best_loss,
        **{f"best_{name}": value for name, value in result.metrics.items()},
        "test_loss": result.test_loss,
        **{f"test_{name}": value for name, value in result.test_metrics.items()},
        "seconds": seconds,
        "model": model and model.removeprefix(each.out).lstrip("/"),
        "fingerprint": each.fingerprint(group.name),
    }


TYPES = {
    str: ("group", "best_split", "model", "fingerprint"),
    int: (*(f"{split}_windows" for split in SPLITS), "epochs", "steps", "best_epoch"),
}  # all others are numbers


def results_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The results, in order of the groups. A metric that not all groups have is null for the others."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    kinds = {name: kind for kind, of_kind in ((pa.string(), TYPES[str]), (pa.int64(), TYPES[int])) for name in of_kind}
    ordered = sorted(rows, key=lambda row: row["group"])
    columns = {name: pa.array([row.get(name) for row in ordered], kinds.get(name, pa.float64())) for name in names}
    return pa.table(columns)


def write_rejects(path: str, rejected: Sequence[Outcome]) -> None:
    """Writes why groups have no model, one JSON line each; no file where all have one."""
    lines = [
        json.dumps({"group": outcome.group, **window_counts(outcome), "reason": outcome.reason}, ensure_ascii=False)
        for outcome in sorted(rejected, key=lambda outcome: outcome.group)
    ]
    if lines:
        storage.write_text(path, "\n".join(lines) + "\n")
    else:
        storage.remove_file(path)


def window_counts(outcome: Outcome) -> dict[str, int]:
    """`train_windows` and the like."""
    return {f"{split}_windows": outcome.windows.get(split, 0) for split in SPLITS}


def check_limits(rejected: Sequence[Outcome], groups: int, each: TrainEach) -> None:
    """Raises JobFailed where too many groups are set aside, or all."""
    over = groups_over_limits(each.job.limits, len(rejected), groups)
    if over is None and len(rejected) < groups:
        return
    first = min(rejected, key=lambda outcome: outcome.group, default=None)
    such = f"; such as {first.group}: {first.reason}" if first else ""
    untrained = any(not outcome.windows.get("train") for outcome in rejected)
    hint = "; a split by time gives each group something to train on (split.by)" if untrained else ""
    raise JobFailed(f"{over or 'no group can be trained'}{such}{hint}; see {each.layout.rejects}")
