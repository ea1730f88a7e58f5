"""Tortures preprocessing with thousands of broken and odd fleets.

    python -m tests.torture.run --fleets 2000 --seed 0 --jobs 2

Each fleet is made from a seed, preprocessed, and compared with what an independent oracle expects. Prints a table by
kind of damage, and the seeds of what was not as expected, each of which can be run again by itself:

    python -m tests.torture.run --only 1234 --keep /tmp/1234 --shrink

With `--out FILE` each result is kept as soon as it is there, and a run that was stopped goes on: a fleet that is in the
file is not run again, unless the code has changed since.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import asdict, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from benchmarks.marks import write_section

from .check import Problem
from .fleet import Plan, plain_value
from .kept import Kept
from .report import torture_section

FLEETS_A_PROCESS = 150  # then another is started, as TensorFlow keeps what it traced
HANG_S = 900.0  # after which a process is killed, and the fleet counted as one that hangs


def work(pipe: Connection, folder: str) -> None:
    """Runs the fleets whose seeds come through a pipe, and answers with what became of each."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    from tests.fast import keep_what_beam_works_out

    from .one import choose_plan, remove, run_one

    keep_what_beam_works_out()
    while (seed := pipe.recv()) is not None:
        plan = choose_plan(seed)
        where = Path(tempfile.mkdtemp(dir=folder, prefix=f"{seed}-"))
        result = run_one(plan, where)
        remove(where)
        pipe.send(result)


class Worker:
    """A process that runs fleets, one after the other."""

    def __init__(self, folder: str):
        self._pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(target=work, args=(theirs, folder))
        self.process.start()
        theirs.close()
        self.seed: int | None = None
        self.began, self.done = 0.0, 0

    @property
    def ready(self) -> Any:
        """What to wait for."""
        return self._pipe

    def give(self, seed: int | None) -> None:
        """The next fleet; None ends the process."""
        self.seed, self.began = seed, time.monotonic()
        self._pipe.send(seed)

    def take(self) -> Any:
        """The result; None if the process has died."""
        self.done += 1
        try:
            return self._pipe.recv()
        except EOFError:
            return None

    def kill(self) -> None:
        """Ends it, whatever it does."""
        self.process.kill()
        self.process.join()


def torture(seeds: list[int], jobs: int, kept: Kept) -> list[Any]:
    """The results of all seeds; those that are kept first."""
    from .one import Result, choose_plan

    found = [kept.results[seed] for seed in seeds if seed in kept.results]
    left, workers = [seed for seed in seeds if seed not in kept.results][::-1], []
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:

        def ended(worker: Worker, kind: str, what: str) -> None:
            plan = choose_plan(worker.seed)
            seconds = time.monotonic() - worker.began
            found.append(Result(plan, [Problem(kind, what)], seconds, None))
            kept.add(found[-1])
            worker.kill()
            workers.remove(worker)

        try:
            while left or workers:
                while left and len(workers) < jobs:
                    workers.append(Worker(folder))
                    workers[-1].give(left.pop())
                ready = wait([worker.ready for worker in workers], timeout=1)
                for worker in list(workers):
                    if worker.ready not in ready:
                        if time.monotonic() - worker.began > HANG_S:
                            ended(worker, "hang", f"no end after {HANG_S:.0f} s")
                        continue
                    result = worker.take()
                    if result is None:
                        worker.process.join()
                        ended(worker, "crash", f"the process died with {worker.process.exitcode}")
                        continue
                    found.append(result)
                    kept.add(result)
                    tell(result, len(found), len(seeds))
                    if left and worker.done < FLEETS_A_PROCESS:
                        worker.give(left.pop())
                    else:
                        worker.give(None)
                        worker.process.join()
                        workers.remove(worker)
        except KeyboardInterrupt:  # what is done is told
            print(f"stopped after {len(found)} of {len(seeds)} fleets", flush=True)
        finally:
            for worker in workers:
                worker.kill()
    return found


def state_of(result: Any) -> str:
    """right or wrong."""
    return "wrong" if result.problems else "right"


def tell(result: Any, done: int, total: int) -> None:
    """A line for a fleet that is not as expected, and now and then how far it is."""
    if state_of(result) == "wrong":
        print(f"seed {result.plan.seed}: {', '.join(result.plan.damages) or 'no damage'}", flush=True)
        for problem in result.problems[:4]:
            print(f"    {problem.kind}: {problem.what}", flush=True)
    if done % 50 == 0:
        print(f"{done}/{total}", flush=True)


def table(results: list[Any]) -> str:
    """By kind of damage, how many fleets it was done to and what became of them."""
    rows: dict[str, Counter] = defaultdict(Counter)
    for result in results:
        for name in result.plan.damages or ("none",):
            rows[name][state_of(result)] += 1
            rows[name][f"exit {result.code}"] += 1
    columns = ["right", "wrong", "exit 0", "exit 1", "exit 2"]
    width = max(map(len, rows))
    lines = [f"{'damage':{width}} " + " ".join(f"{column:>8}" for column in columns)]
    for name in sorted(rows):
        lines.append(f"{name:{width}} " + " ".join(f"{rows[name][column] or '':>8}" for column in columns))
    return "\n".join(lines)


def shrink(plan: Plan, problems: list[Problem]) -> Plan:
    """The plan made as plain as it can be with the same kind of problem."""
    from .one import remove, run_one

    kinds = {problem.kind for problem in problems}

    def still(candidate: Plan) -> bool:
        where = Path(tempfile.mkdtemp(prefix="shrink-"))
        try:
            return bool(kinds & {problem.kind for problem in run_one(candidate, where).problems})
        except Exception:
            return False
        finally:
            remove(where)

    candidates: list[dict[str, Any]] = [
        {"damages": tuple(name for name in plan.damages if name != out)}
        for out in plan.damages
        if len(plan.damages) > 1
    ]
    for name in asdict(plan):
        if name not in ("seed", "damages") and getattr(plan, name) != plain_value(name):
            candidates.append({name: plain_value(name)})
    candidates += [{"assets": 4}, {"features": 1}, {"rows": 20}, {"length": 2}, {"stride": 1}]
    for change in candidates:
        if any(getattr(plan, name) != value for name, value in change.items()):
            smaller = replace(plan, **change)
            if still(smaller):
                plan = smaller
                print(f"    still with {change}", flush=True)
    return plan


def show_one(arguments: argparse.Namespace) -> int:
    """Runs one fleet here, and keeps it."""
    from tests.fast import keep_what_beam_works_out

    from .one import choose_plan, run_one

    keep_what_beam_works_out()
    plan = choose_plan(arguments.only)
    if arguments.set:
        plan = replace(plan, **{key: json.loads(value) for key, value in (one.split("=", 1) for one in arguments.set)})
    plan = replace(plan, damages=tuple(plan.damages))
    where = Path(arguments.keep or tempfile.mkdtemp(prefix=f"torture-{plan.seed}-"))
    where.mkdir(parents=True, exist_ok=True)
    result = run_one(plan, where / "whole")
    print(f"{where}/whole: {state_of(result)}, exit code {result.code}")
    for problem in result.problems:
        print(f"    {problem.kind}: {problem.what}")
    if result.problems and arguments.shrink:
        plan = shrink(plan, result.problems)
        run_one(plan, where / "small")
        told = {"seed", "damages", "assets", "features", "rows"}
        told |= {name for name in asdict(plan) if getattr(plan, name) != plain_value(name)}
        small = ", ".join(f"{name}={value!r}" for name, value in asdict(plan).items() if name in told)
        print(f"smallest, in {where}/small: {small}")
    return int(bool(result.problems))


def main(argv: list[str] | None = None) -> int:
    """Returns 0 if every fleet came out as expected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fleets", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="of the first fleet")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", type=int, help="run this seed alone, and keep what it makes")
    parser.add_argument("--set", action="append", default=[], help="with --only, a field of the plan: rows=20")
    parser.add_argument("--keep", help="with --only, where to")
    parser.add_argument("--shrink", action="store_true", help="with --only, make it as plain as it can be")
    parser.add_argument("--docs", help="write what was measured into this page")
    parser.add_argument("--out", help="keep the results as JSON lines in this file, and go on from what it has")
    arguments = parser.parse_args(argv)
    if arguments.only is not None:
        return show_one(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seeds = list(range(arguments.seed, arguments.seed + arguments.fleets))
    results = torture(seeds, arguments.jobs, Kept(arguments.out))
    print(table(results))
    states, kinds = Counter(map(state_of, results)), Counter()
    for result in results:
        if state_of(result) == "wrong":
            kinds.update({problem.kind for problem in result.problems})
    seconds = sorted(result.seconds for result in results)
    if not results:
        return 1
    took, half = sum(seconds), seconds[len(seconds) // 2]
    print(f"{len(results)} fleets in {took:.0f} s of one process, half of them within {half:.1f} s each")
    print(", ".join(f"{states[state]} {state}" for state in ("right", "wrong")), dict(kinds) or "")
    if len(results) < arguments.fleets:
        return 1
    wrong = sorted(result.plan.seed for result in results if state_of(result) == "wrong")
    if wrong:
        print("wrong seeds: " + " ".join(map(str, wrong)))
    if arguments.docs:
        write_section(arguments.docs, "torture", torture_section(results, states, kinds, took))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
