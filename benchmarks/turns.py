"""Turns of several ways to do one thing, each in a process of its own: figures, medians and peak memory.

A benchmark calls itself as a child, `--child NAME --folder FOLDER`, with the options that it was given. The child
leaves its figure in the folder. The parent loads no framework: a child's peak counts what its parent had when it
was started.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from measure import measure

ROOT = Path(__file__).resolve().parent.parent
INPUTS = "inputs"  # the child that writes what the others read


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rate(batches: Iterator[Any], seconds: float) -> float:
    """Windows per second of a loop that takes batches and does nothing with them, after half the time to warm up."""
    began = time.perf_counter()
    while time.perf_counter() - began < seconds / 2:
        next(batches)
    windows, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        windows += len(next(batches))
    return windows / spent


def add_child_options(parser: argparse.ArgumentParser) -> None:
    """What a benchmark says to itself."""
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)


def leave(figure: float, folder: str) -> None:
    """Ends a child that has its figure; nobody waits for what was read ahead."""
    Path(folder, "result.json").write_text(json.dumps(figure), encoding="utf-8")
    os._exit(0)


def run_child(script: str, name: str, folder: str, options: Mapping[str, object]) -> float:
    """Runs a child and returns its peak memory in MB."""
    command = [sys.executable, os.path.abspath(script), "--child", name, "--folder", folder]
    for option, value in options.items():
        command += [f"--{option}", str(value)]
    return measure(command, os.path.join(folder, "log.txt")).peak_rss_mb


def turn(script: str, name: str, folder: str, options: Mapping[str, object]) -> tuple[float, float]:
    """The figure that a child left, and its peak memory in MB."""
    peak = run_child(script, name, folder, options)
    return json.loads(Path(folder, "result.json").read_text(encoding="utf-8")), peak


def figure_of(program: Sequence[object], tree: Path = ROOT) -> Any:
    """What a Python program with the code of a tree prints in its last line, as JSON."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, *map(str, program)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def installed(names: Sequence[str], needs: Mapping[str, str]) -> list[str]:
    """The readers whose library is installed; of the others it is told."""
    missing = [name for name in names if name in needs and importlib.util.find_spec(needs[name]) is None]
    for name in missing:
        say(f"{name}: left out, {needs[name]} is not installed")
    return [name for name in names if name not in missing]


def compare(
    names: Sequence[str], run: Callable[[str], tuple[float, float]], repeats: int
) -> dict[str, dict[str, float]]:
    """The medians of all turns.

    Args:
      run: takes a turn; returns its windows per second and its peak memory in MB.
    """
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for number in range(repeats):
        for name in names:
            speed, peak = run(name)
            say(f"{number + 1}/{repeats} {name}: {speed:,.0f} windows/s, {peak:,.0f} MB")
            turns[name].append((speed, peak))
    columns = {name: tuple(map(statistics.median, zip(*pairs, strict=True))) for name, pairs in turns.items()}
    return {name: {"windows_per_second": speed, "peak_rss_mb": peak} for name, (speed, peak) in columns.items()}


def add_ratio(result: dict[str, dict[str, float]], ours: str, key: str = "ours_is_faster") -> None:
    """Adds to each entry how many times its speed ours is."""
    for entry in result.values():
        entry[key] = result[ours]["windows_per_second"] / entry["windows_per_second"]


def preprocessing(job: dict, path: Path) -> list[str]:
    """The command that preprocesses a job, whose file is written."""
    path.write_text(yaml.safe_dump(job, sort_keys=False), encoding="utf-8")
    return [sys.executable, "-m", "beamfeed.pipelines.preprocess", "--job", str(path)]


def write_json(result: object, path: str | Path | None) -> None:
    """Writes the figures as JSON, if a file is given."""
    if path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
