"""How far a local run is: the processes of a stage append what they did to files that the launcher reads.

Each line is a JSON object of one of these kinds:

    {"stage": "write", "total_assets": 12, "total_rows": 240000}    how much there is to do in a step of the stage
    {"stage": "write", "assets": 1, "rows": 20000}                  what was done since the last such line
    {"stage": "train", "done": 40, "total": 400, "unit": "steps", "note": "epoch 1 of 8"}    where a step is now
    {"phase": "exporting"}                                          what is going on that cannot be counted
    {"evaluation": {"epoch": 1, "eval_loss": 0.05}}                 what was measured
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """Reports to `folder`; does nothing without one, as on Dataflow, which shows Beam's own counters."""

    folder: str | None = None

    def begin(self) -> None:
        """Makes the folder, where it is not there yet."""
        if self.folder is not None:
            os.makedirs(self.folder, exist_ok=True)

    def add(self, stage: str, assets: int = 0, rows: int = 0) -> None:
        """Says that so many more assets (files, when scanning) and rows are done."""
        self._append({"stage": stage, "assets": assets, "rows": rows})

    def total(self, stage: str, assets: int, rows: int = 0) -> None:
        """Says how much there is to do in a step."""
        self._append({"stage": stage, "total_assets": assets, "total_rows": rows})

    def reached(self, stage: str, done: int, total: int, unit: str, note: str = "") -> None:
        """Says where a step is: `done` of `total`, counted in `unit`; `note` is shown beside it."""
        self._append({"stage": stage, "done": done, "total": total, "unit": unit, "note": note})

    def phase(self, name: str) -> None:
        """Says what begins that is not counted, such as `exporting`; it ends with whatever is told next."""
        self._append({"phase": name})

    def evaluation(self, values: Mapping[str, Any]) -> None:
        """Says what was measured, by name: numbers, and None where there is none."""
        self._append({"evaluation": dict(values)})

    def _append(self, event: dict[str, Any]) -> None:
        if self.folder is None:
            return
        # One short write to a file of the process's own: lines never mix. A job is worth more than what is told of it.
        name = f"{os.uname().nodename}-{os.getpid()}.jsonl"  # workers on other machines may share the folder
        with suppress(OSError), open(os.path.join(self.folder, name), "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
