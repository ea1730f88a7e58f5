"""How far a local run is: workers append what they did to files that the launcher reads."""

import json
import os
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """Reports to `folder`; does nothing without one, as on Dataflow, which shows Beam's own counters."""

    folder: str | None = None

    def add(self, stage: str, assets: int = 0, rows: int = 0) -> None:
        """Says that so many more assets (files, when scanning) and rows are done."""
        self._append({"stage": stage, "assets": assets, "rows": rows})

    def total(self, stage: str, assets: int, rows: int = 0) -> None:
        """Says how much there is to do in a stage."""
        self._append({"stage": stage, "total_assets": assets, "total_rows": rows})

    def _append(self, event: dict) -> None:
        if self.folder is None:
            return
        # One short write to a file of the process's own: lines never mix. A job is worth more than what is told of it.
        with suppress(OSError), open(os.path.join(self.folder, f"{os.getpid()}.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")
