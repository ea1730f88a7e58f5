"""What docs/reliability.md says of a run, and the machine."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from .damage import DAMAGES

TITLES = {
    "values": "values",
    "times": "times",
    "parquet": "Parquet",
    "text": "text",
    "bad_rows": "one row",
    "layout": "files and folders",
    "splits": "splits",
    "tables": "tables alone",
    "arrays": "arrays",
    "mistakes": "the job file",
}


def torture_section(results: Sequence[Any], states: dict[str, int], kinds: dict[str, int], seconds: float) -> str:
    """The figures of a run, and how many fleets had damage of each group.

    Args:
      results: of all fleets.
      states: how many were right and wrong.
      kinds: how many fleets had a problem of each kind.
      seconds: of all fleets together.
    """
    seeds = sorted(result.plan.seed for result in results)
    commands = sum(result.plan.process for result in results)
    units = sum(result.plan.units for result in results)
    tables, arrays = (sum(result.plan.kind == kind for result in results) for kind in ("table", "array"))
    wrong = {name: kinds.get(name, 0) for name in ("wrong window", "silent loss", "traceback", "hang")}
    lines = [
        f"{len(results):,} fleets (seeds {seeds[0]} to {seeds[-1]}) in {seconds / 3600:.1f} hours of one process; "
        f"{tables:,} tables, {arrays:,} sets of arrays, all others series; {units:,} with assets of several units, "
        f"{commands} as a command of their own. {_machine()}",
        "",
        "| fleets | as expected | wrong windows or rows | silent losses | tracebacks | hangs | anything else |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        f"| {len(results):,} | {states.get('right', 0):,} | "
        + " | ".join(str(count) for count in wrong.values())
        + f" | {len(results) - states.get('right', 0) - sum(wrong.values())} |",
    ]
    done = Counter(name for result in results for name in result.plan.damages)
    clean = sum(not result.plan.damages for result in results)
    lines += ["", f"{len(DAMAGES)} kinds of damage; {clean} fleets had none."]
    lines += ["", "| damage to | kinds | fleets |", "| --- | ---: | ---: |"]
    for group, title in TITLES.items():
        names = [name for name, one in DAMAGES.items() if one.group == group]
        lines.append(f"| {title} | {len(names)} | {sum(done[name] for name in names)} |")
    return "\n".join(lines)


def _machine() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("apache-beam", "tensorflow", "pyarrow", "numpy"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    python = platform.python_version()
    return (
        f"{cores} cores, {memory:.0f} GB memory, {platform.system()} {platform.machine()}; Python {python}, {packages}."
    )
