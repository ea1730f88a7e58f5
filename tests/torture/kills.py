"""Kills preprocessing again and again, at random moments, and compares what a run that may end leaves behind.

python -m tests.torture.kills --kills 100 [--grow] [--compact]
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.marks import write_section
from tests.fleets import files_of

from .fleet import Fleet, Plan, make_fleet
from .one import ROOT, build
from .write import write_fleet

START_S = 120.0
KILLS_A_ROUND = 10  # then a run may end


def start(job: Path, program: str = "preprocess") -> subprocess.Popen:
    """Starts a program on a job."""
    command = [sys.executable, "-m", f"beamfeed.pipelines.{program}", "--job", str(job)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def wait_for_lock(process: subprocess.Popen, output: Path) -> None:
    """Waits until a run holds its output."""
    path, deadline = output / "lock.json", time.monotonic() + START_S
    while not path.exists() or f'"pid": {process.pid},' not in path.read_text():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the run did not start: {process.communicate()}")
        time.sleep(0.002)


def kill_again_and_again(folder: Path, fleet: Fleet, kills: int, seed: int, program: str = "preprocess") -> list[str]:
    """Kills runs on a fleet; returns what is wrong.

    Args:
      folder: an empty one.
      fleet: to preprocess.
      kills: how often.
      seed: of the moments.
      program: that is killed: preprocess, or compact on a dataset that has grown.
    """
    write_fleet(fleet, folder / "fleet")
    base = folder / "nothing"
    if fleet.job["output"].get("grow"):
        base = _grow(folder, fleet, whole=program == "compact")
    there = files_of(base)
    expected, lasts = _undisturbed(folder, fleet, base, program)
    output, job = folder / "data", _job(folder, fleet, "data")
    _begin(output, base)
    chance, problems = random.Random(seed), []
    for kill in range(kills):
        process = start(job, program)
        try:
            wait_for_lock(process, output)
            time.sleep(chance.uniform(0, lasts))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        found = files_of(output)
        if found.get("manifest.json") != there.get("manifest.json"):  # it was published whole: from the start again
            if not found.items() >= expected.items():
                problems.append(f"kill {kill}: what was published differs")
            _begin(output, base)
        elif not found.items() >= there.items():
            problems.append(f"kill {kill}: what was there differs")
        if (kill + 1) % KILLS_A_ROUND == 0 or kill + 1 == kills:
            problems += _ends(job, output, expected, kill, program)
            print(f"{kill + 1}/{kills} kills, {len(problems)} problems", flush=True)
            _begin(output, base)
    return problems


def _begin(output: Path, base: Path) -> None:
    """The output as it is before the run, but that it may hold what a run that was killed has left."""
    (output / "manifest.json").unlink(missing_ok=True)
    if base.exists():
        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(base, output)


def _grow(folder: Path, fleet: Fleet, *, whole: bool) -> Path:
    """A dataset of the first files of each asset of a fleet that grows; `whole`: the others are added, run by run."""
    later = sorted(path for path in (folder / "fleet").rglob("part-*") if not path.name.startswith("part-0"))
    for path in later:
        path.rename(folder / "_".join(path.relative_to(folder).parts))
    job = _job(folder, fleet, "base")
    _end(start(job))
    for stem in sorted({path.stem for path in later}):
        for path in later:
            if path.stem == stem:
                (folder / "_".join(path.relative_to(folder).parts)).rename(path)
        if whole:
            _end(start(job))
    return folder / "base"


def _end(process: subprocess.Popen) -> None:
    _, err = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(err.decode())


def _undisturbed(folder: Path, fleet: Fleet, base: Path, program: str) -> tuple[dict[str, bytes], float]:
    """What a run leaves that nobody kills, and how many seconds it holds its output."""
    for name in ("first", "undisturbed"):  # the second finds all files of the environment in memory
        _begin(folder / name, base)
        process = start(_job(folder, fleet, name), program)
        wait_for_lock(process, folder / name)
        began = time.monotonic()
        _end(process)
    return files_of(folder / "undisturbed"), time.monotonic() - began


def _ends(job: Path, output: Path, expected: dict[str, bytes], kill: int, program: str) -> list[str]:
    process = start(job, program)
    _, err = process.communicate()
    if process.returncode != 0:
        return [f"after kill {kill}: exit code {process.returncode}: {err.decode()[-300:]}"]
    found = files_of(output)
    if found != expected:
        names = [name for name in {*found, *expected} if found.get(name) != expected.get(name)]
        return [f"after kill {kill}: other bytes: {sorted(names)[:5]}"]
    extra = {path.name for path in output.iterdir()} - {name.partition("/")[0] for name in expected}
    return [f"after kill {kill}: left behind: {sorted(extra)}"] if extra else []


def _job(folder: Path, fleet: Fleet, name: str) -> Path:
    job: dict[str, Any] = {**fleet.job, "source": {**fleet.job["source"], "files": str(folder / "fleet")}}
    job["output"] = {**job["output"], "path": str(folder / name)}
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


PLANS = [
    Plan(seed=1, damages=("shuffled_rows", "truncated"), assets=8, rows=40_000, scale="standard", row_group=5000),
    Plan(seed=2, format="csv", naming="pattern", files=3, assets=8, rows=20_000, resample="mean", scale="minmax",
         per="asset", split="time"),
]  # fmt: skip


GROWING = [
    Plan(seed=3, format="csv", naming="pattern", files=2, assets=8, rows=20_000),
    Plan(seed=4, naming="pattern", files=2, assets=8, rows=40_000, resample="mean", scale="standard", row_group=5000),
]  # fmt: skip


def parse(argv: list[str] | None, message: str | None, **flags: str) -> argparse.Namespace:
    """The command line of programs that kill; `flags` have their help by name."""
    parser = argparse.ArgumentParser(description=message, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--docs", help="write what was measured into this page")
    for name, help_ in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=help_)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Returns 0 if all runs ended in the same bytes."""
    arguments = parse(
        argv, __doc__, grow="kill runs that add to a dataset that grows", compact="kill those that compact it"
    )
    problems = []
    grows = arguments.grow or arguments.compact
    plans = GROWING if grows else PLANS
    for number, plan in enumerate(plans):
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            plan = replace(plan, files=6) if arguments.compact else plan
            fleet = build(plan) if plan.damages else make_fleet(plan)
            if grows:
                fleet.job["output"]["grow"] = True
            if arguments.compact:
                fleet.job["output"]["shards"] = 1
            program = "compact" if arguments.compact else "preprocess"
            kills, seed = arguments.kills // len(plans), arguments.seed + number
            problems += kill_again_and_again(Path(folder), fleet, kills, seed, program)
    what = " of runs that compact" if arguments.compact else " of runs that add" if arguments.grow else ""
    summary = f"{arguments.kills} kills{what}: {problems or 'the same bytes each time'}"
    print(summary)
    if arguments.docs:
        section = "compacting-kills" if arguments.compact else "growing-kills" if arguments.grow else "kills"
        write_section(arguments.docs, section, summary + ".")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
