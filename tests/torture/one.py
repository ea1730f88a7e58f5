"""One fleet: made, damaged, written, run and checked."""

from __future__ import annotations

import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from random import Random

import yaml

from .check import Outcome, Problem, find_problems
from .damage import DAMAGES
from .fleet import Fleet, Plan, draw_plan
from .kinds import KINDS, kind_of

HANG_S = 600.0  # after which a process is ended that may be waiting for ever
PROCESSES = 0.04  # the share of fleets that is run as a command of its own
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Result:
    """What became of a fleet.

    Attributes:
      problems: what is wrong; nothing where it is as expected.
      seconds: making and checking included.
      exits: the exit codes that were expected.
    """

    plan: Plan
    problems: list[Problem]
    seconds: float
    code: int | None


def build(plan: Plan) -> Fleet:
    """The fleet of a plan, with its damages done to the picture."""
    fleet = KINDS[plan.kind].make(plan)
    for name in sorted(plan.damages, key=lambda name: DAMAGES[name].last):
        DAMAGES[name].apply(fleet, Random(f"{plan.seed} {name}"))
    return fleet


def choose_plan(seed: int) -> Plan:
    """A plan with no damage, one, or a few that go together."""
    chance = Random(f"damages {seed}")
    kind, number = kind_of(seed)
    names = sorted(name for name, one in DAMAGES.items() if kind in one.kinds)
    mistakes = [name for name in names if DAMAGES[name].group == "mistakes"]  # which end early: a few will do
    names = [name for name in names if name not in mistakes] + chance.sample(mistakes, min(4, len(mistakes)))
    chosen: list[str] = []
    wants: dict = {}
    for _ in range(chance.choice([0, 1, 1, 1, 1, 1, 2, 2, 3])):
        # In turn, so that each comes as often as any other; further ones at random.
        name = names[number % len(names)] if not chosen else chance.choice(names)
        damage = DAMAGES[name]
        both = wants | damage.wants
        clash = any(wants.get(key, want) != want for key, want in damage.wants.items())
        clash |= "path" in both.get("split", ()) and both.get("naming", "pattern") != "pattern"
        alone = chosen and (damage.alone or any(DAMAGES[other].alone for other in chosen))
        if name not in chosen and not clash and not alone:
            chosen.append(name)
            wants |= damage.wants
    plan = draw_plan(seed, tuple(chosen), wants, kind)
    return replace(plan, process=chance.random() < PROCESSES)


def run_one(plan: Plan, folder: Path) -> Result:
    """Makes a fleet in an empty folder, preprocesses it and checks what comes out.

    Args:
      plan: of the fleet.
      folder: where to.
    """
    began = time.monotonic()
    fleet, kind = build(plan), KINDS[plan.kind]
    source = folder / "fleet"
    source.mkdir(parents=True)
    kind.write(fleet, source)
    for hook in fleet.before:
        hook(str(source))
    job = folder / "job.yaml"
    write_job(fleet, folder, job)
    with _during(fleet, folder):
        outcome = _command(job, folder) if plan.process else _here(fleet, job, folder)
    for hook in fleet.after:
        hook(str(source))
    expected = kind.expect(deepcopy(fleet))
    problems = find_problems(outcome, expected, kind.compare)
    for variant in fleet.variants if problems else ():
        other = deepcopy(fleet)
        try:
            variant(other)
            right = not find_problems(outcome, kind.expect(other), kind.compare)
        except Exception:  # such as bytes that cannot be decoded: then this is not what may come out
            right = False
        if right:
            problems = []
            break
    return Result(plan, problems, time.monotonic() - began, outcome.code)


def write_job(fleet: Fleet, folder: Path, path: Path) -> None:
    """The job file; `{fleet}` in it stands for the folder of the files."""
    job = deepcopy(fleet.job)
    job["source"].setdefault("files", "{fleet}")
    job["output"]["path"] = str(folder / "data")
    text = yaml.safe_dump(job, allow_unicode=True)
    path.write_text(text.replace("{fleet}", str(folder / "fleet")), encoding="utf-8")


def _command(job: Path, folder: Path) -> Outcome:
    """Runs the command line."""
    temporary = folder / "tmp"
    temporary.mkdir()
    command = [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(job)]
    environment = {**os.environ, "TMPDIR": str(temporary), "TF_CPP_MIN_LOG_LEVEL": "2"}
    before = _children_s()
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, errors="replace", env=environment
        )
        code, out, err, seconds = done.returncode, done.stdout, done.stderr, _children_s() - before
    except subprocess.TimeoutExpired:
        code, out, err, seconds = None, "", "", HANG_S
    return Outcome(code, out, err, "", seconds, folder / "data", temporary, True)


def _children_s() -> float:
    times = os.times()
    return times.children_user + times.children_system


def _here(fleet: Fleet, job: Path, folder: Path) -> Outcome:
    """Runs the entry point in this process."""
    from beamfeed.pipelines.preprocess import main

    temporary = folder / "tmp"
    temporary.mkdir()
    code, raised = None, ""
    began = time.process_time()
    with _caught(folder) as said, _sizes(fleet.sizes), _tempdir(temporary):
        try:
            code = main(["--job", str(job)])
        except BaseException:
            raised = traceback.format_exc()
    seconds = time.process_time() - began
    return Outcome(code, said[0], said[1], raised, seconds, folder / "data", temporary, False)


@contextmanager
def _during(fleet: Fleet, folder: Path) -> Iterator[None]:
    """Calls the fleet's hooks as soon as the job has listed its input."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.002):
            if next(folder.glob("data/data-*/tmp/*"), None):
                for hook in fleet.during:
                    hook(str(folder / "fleet"))
                return

    thread = threading.Thread(target=watch)
    if fleet.during:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if fleet.during:
            thread.join()


@contextmanager
def _caught(folder: Path) -> Iterator[list[str]]:
    """Catches what is written to stdout and stderr, also by C++; the list is filled at the end."""
    said: list[str] = []
    paths = [folder / "stdout", folder / "stderr"]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    try:
        for number, path in zip((1, 2), paths, strict=True):
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, number)
            os.close(file)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False) for number in (1, 2))  # noqa: SIM115
        yield said
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = streams
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        said += [path.read_text(errors="replace") for path in paths]


@contextmanager
def _sizes(sizes: dict[str, int]) -> Iterator[None]:
    """Sets constants of the project in every module that has them."""
    import beamfeed.transforms

    for module in pkgutil.walk_packages(beamfeed.transforms.__path__, "beamfeed.transforms."):
        import_module(module.name)
    before = []
    for module in [m for name, m in sys.modules.items() if name.startswith("beamfeed.transforms") and m]:
        for name, value in sizes.items():
            if isinstance(vars(module).get(name), int):
                before.append((module, name, getattr(module, name)))
                setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


@contextmanager
def _tempdir(folder: Path) -> Iterator[None]:
    before = tempfile.tempdir
    tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before


def remove(folder: Path) -> None:
    """Removes a fleet and all that was made of it."""
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
