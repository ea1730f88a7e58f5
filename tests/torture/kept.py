"""Results of fleets in a file, so that a run of hours may be stopped and go on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from .check import Problem
from .fleet import Plan
from .one import ROOT, Result

CODE = ("contract", "transforms", "pipelines", "tests/torture")
TRAINING = tuple(f"contract/config/{name}.py" for name in ("train", "model", "task"))  # is of no fleet's job
OTHER_KINDS = ("transforms/sources/image/",)


def digest_of_code() -> str:
    """Of all that a result depends on."""
    found = hashlib.sha256()
    for path in sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py")):
        if path.relative_to(ROOT).as_posix().startswith((*TRAINING, *OTHER_KINDS)):
            continue
        found.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


class Kept:
    """The results that a file has of the present code; without a file there are none, and none are kept.

    Attributes:
      results: by seed.
    """

    def __init__(self, path: str | None):
        self._path, self._code = Path(path) if path else None, digest_of_code()
        self.results: dict[int, Result] = {}
        for line in self._path.read_text().splitlines() if self._path and self._path.exists() else []:
            try:
                row = json.loads(line)
            except ValueError:  # of a run that was killed while it wrote
                continue
            if row["code_digest"] == self._code:
                plan = Plan(**{key: tuple(v) if isinstance(v, list) else v for key, v in row["plan"].items()})
                problems = [Problem(**problem) for problem in row["problems"]]
                self.results[plan.seed] = Result(plan, problems, row["seconds"], row["code"])

    def add(self, result: Result) -> None:
        """Keeps a result."""
        if self._path:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:  # a line of its own, also after one that was cut off
                file.write("\n" + json.dumps({"code_digest": self._code, **asdict(result)}))
