"""Random fleets that arrive bit by bit: after each increment a run, and at the end what one run over all files gives.

    python -m tests.torture.growth --fleets 500

The files of a fleet are put into increments at random, some are for a run gone or not as they will be, some runs are
killed and started again, the dataset is compacted now and then, and the oracle of the torture says what windows,
labels, splits, counts and rejects there must be: none lost, twice, or in another split.
"""

from __future__ import annotations

import argparse
import io
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from beamfeed.pipelines.compact import main as compact
from tests.fast import keep_what_beam_works_out

from .check import Outcome, Problem, find_problems
from .fleet import Fleet, Plan, draw_plan
from .kinds import KINDS
from .one import ROOT, _here, build, remove, write_job
from .run import FLEETS_A_PROCESS

KILLED = 0.1  # the share of runs that are killed once before
LASTS_S = 6.0  # about how long a run lasts that is to be killed
CHANGED = 0.4  # the share of runs for which a file is not as it will be
COMPACTED = 0.4  # the share of runs after which the dataset is compacted
TOLD = (
    "adding",
    "assets go on",
    "last run is done again",
    "1 run is done again",
    "runs are done again",
    "is prepared again",
    "all files are prepared again",
)
OF_STATISTICS = "statistics"  # they are those of the first increment


def choose_plan(seed: int) -> Plan:
    """A plan of values as they are, which hang on no statistics."""
    kind = "table" if seed % 5 == 0 else "timeseries"
    wants: dict[str, Any] = {"scale": "none", "per": "fleet"}
    if seed % 3:  # assets that go on
        wants |= {"naming": ["pattern", "column"], "split": ["asset", "asset", "time"], "clock": "integer"}
        wants |= {"fill": ["forward", "constant", "drop"], "label": [None, None, "end", "any", "horizon", "classes"]}
    plan = draw_plan(seed, (), wants if kind == "timeseries" else {"scale": "none", "per": "fleet"}, kind)
    shards = 1 if seed % 2 else plan.shards  # which are merged soon
    return replace(plan, files=max(plan.files, 1 + seed % 3) if plan.naming != "stem" else 1, shards=shards)


def build_growing(plan: Plan) -> Fleet:
    """The fleet of a plan, whose dataset grows."""
    fleet = build(plan)
    fleet.job["output"]["grow"] = True
    if plan.kind == "timeseries" and plan.split == "time" and plan.clock in ("integer", "int32"):
        times = np.concatenate([part.time for part in fleet.parts])
        eval_from, test_from = (int(cut) for cut in np.quantile(times, [0.6, 0.8]))
        fleet.job["split"] = {"by": "time", "eval_from": eval_from, "test_from": test_from}
    if plan.kind == "table":
        sections = fleet.job["features"]
        sections.pop("state", None)  # its vocabulary is that of the first increment
        for name, section in sections.items():
            if section["type"] == "numeric":
                sections[name] = {**section, "scale": "none", "missing": 0.5}
                sections[name].pop("clip", None)
    return fleet


def grow_one(plan: Plan, folder: Path) -> tuple[list[Problem], Counter[str]]:
    """Grows a dataset in an empty folder.

    Returns:
      what is wrong with it; and how many of the runs added to what was there, and went on with assets.
    """
    chance = Random(f"growth {plan.seed}")
    fleet, kind = build_growing(plan), KINDS[plan.kind]
    (folder / "all").mkdir(parents=True)
    kind.write(fleet, folder / "all")
    files = sorted(path for path in (folder / "all").rglob("*") if path.is_file())
    if chance.random() < 0.4:
        chance.shuffle(files)  # else in order, as days come
    else:
        files.sort(key=lambda path: (path.stem, path))
    job = folder / "job.yaml"
    write_job(fleet, folder, job)
    cuts = sorted(chance.sample(range(1, len(files)), min(len(files) - 1, chance.randint(1, 4))))
    runs, outcome, before = Counter[str](), None, None
    for first, end in zip([0, *cuts], [*cuts, len(files)], strict=True):
        for path in files[first:end]:
            target = folder / "fleet" / path.relative_to(folder / "all")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, target)
        if chance.random() < KILLED:
            _killed(job, chance.uniform(1.0, LASTS_S))
        changed: tuple[Path, bytes] | None = None
        if end < len(files) and chance.random() < CHANGED:
            changed = change_one(sorted(path for path in (folder / "fleet").rglob("*") if path.is_file()), chance)
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        outcome = _here(fleet, job, folder)
        now = manifest_text(outcome)
        if end < len(files) and outcome.code != 0 and now != before:
            return [Problem("published", "a run that failed changed the dataset")], runs
        runs += Counter(words for words in TOLD if words in outcome.out)
        if changed is not None:
            changed[0].write_bytes(changed[1])
        if now is not None and chance.random() < COMPACTED:
            out = io.StringIO()
            with redirect_stdout(out):
                code = compact(["--job", str(job)])
            runs["compacted"] += "shards are" in out.getvalue()
            if code:
                return [Problem("compacted", f"exit code {code}")], runs
            now = manifest_text(outcome)
        before = now
    assert outcome is not None
    expected = kind.expect(deepcopy(fleet))
    problems = find_problems(outcome, expected, kind.compare)
    return [problem for problem in problems if problem.kind != OF_STATISTICS], runs


def change_one(files: list[Path], chance: Random) -> tuple[Path, bytes]:
    """Takes one of some files away, or makes it another; gives its place, and what has to be there again."""
    path, other = chance.choice(files), chance.choice(files)
    content, how = path.read_bytes(), chance.random()
    if how < 0.3:
        path.unlink()
    elif how < 0.6:
        path.write_bytes(other.read_bytes() if other.suffix == path.suffix else content)
    elif how < 0.8:
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content)  # at another time
    return path, content


def manifest_text(outcome: Outcome) -> str | None:
    """What is published."""
    path = outcome.output / "manifest.json"
    return path.read_text() if path.exists() else None


def _killed(job: Path, seconds: float) -> None:
    """Starts a run as a command and kills it."""
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(job)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(seconds)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def grow_seed(seed: int) -> tuple[list[Problem], Counter[str]]:
    """As `grow_one`, of the plan of a seed, in a folder that goes."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keep_what_beam_works_out()
    folder = Path(tempfile.mkdtemp(prefix=f"growth-{seed}-"))
    try:
        return grow_one(choose_plan(seed), folder)
    finally:
        remove(folder)


def main() -> int:
    """Grows many datasets and prints those that are not as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0, help="of the first")
    args = parser.parse_args()
    wrong, runs = 0, Counter[str]()
    seeds = range(args.seed, args.seed + args.fleets)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=FLEETS_A_PROCESS) as pool:
        for seed, (problems, count) in zip(seeds, pool.imap(grow_seed, seeds, chunksize=1), strict=True):
            runs, wrong = runs + count, wrong + bool(problems)
            for problem in problems[:3]:
                print(f"seed {seed}: {problem.kind}: {problem.what}", flush=True)
    print(f"{args.fleets} fleets, {wrong} wrong; runs that told {dict(runs)}", flush=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
