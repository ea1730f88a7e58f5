"""Compares ways to feed windows to a training run: windows per second and peak memory.

    python benchmarks/feed.py --assets 200 --rows 31250 --json out/bench/feed.json

The same windows are written in each reader's format, and all are read from the page cache. The readers take turns,
each time in a process of its own; a figure is the median of its turns.
"""

import argparse
import importlib.util
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import feed_data
from feed_data import Sizes
from feed_readers import ARRAYS, NEEDS, OURS, READERS, SEGMENTS, WINDOWS
from measure import measure

INPUTS = "inputs"  # the child that writes them

Result = dict[str, dict[str, float]]


def rate(batches: Iterator[Any], seconds: float, warm_up: float) -> float:
    """Windows per second of a loop that takes batches and does nothing with them."""
    began = time.perf_counter()
    while time.perf_counter() - began < warm_up:
        next(batches)
    windows, began = 0, time.perf_counter()
    while (spent := time.perf_counter() - began) < seconds:
        windows += next(batches).shape[0]
    return windows / spent


def write_inputs(folder: str, sizes: Sizes, names: Sequence[str]) -> None:
    """The formats that the readers need, each in its own folder."""
    feed_data.write_segments(os.path.join(folder, SEGMENTS), sizes)
    feed_data.write_windows(os.path.join(folder, WINDOWS), sizes)
    if any(name in NEEDS for name in names):
        feed_data.write_array_records(os.path.join(folder, ARRAYS), sizes)


def available(names: Sequence[str]) -> list[str]:
    """The readers whose library is installed; the others are told."""
    missing = [name for name in names if name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None]
    for name in missing:
        print(f"feed: {name}: left out, {NEEDS[name]} is not installed", file=sys.stderr)
    return [name for name in names if name not in missing]


def compare(names: Sequence[str], turn: Callable[[str], tuple[float, float]], repeats: int) -> Result:
    """Medians of the turns, and each reader's speed as a multiple of ours.

    Args:
      turn: runs a reader once; returns its windows per second and its peak memory in MB.
    """
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for i in range(repeats):
        for name in names:
            found = turn(name)
            print(f"feed: {i + 1}/{repeats} {name}: {found[0]:,.0f} windows/s, {found[1]:,.0f} MB", file=sys.stderr)
            turns[name].append(found)
    result: Result = {}
    for name, pairs in turns.items():
        speeds, memories = zip(*pairs, strict=True)
        result[name] = {"windows_per_second": statistics.median(speeds), "peak_rss_mb": statistics.median(memories)}
    for row in result.values():
        row["ours_is_faster"] = result[OURS]["windows_per_second"] / row["windows_per_second"]
    return result


def _child(name: str, args: argparse.Namespace) -> None:
    """Writes the inputs, or reads as `name` and writes its windows per second to the file `args.result`."""
    if name == INPUTS:
        write_inputs(args.folder, _sizes(args), args.only)
        return
    batches = READERS[name](args.folder, _sizes(args), args.batch, args.shuffle)
    found = rate(batches, args.seconds, args.seconds / 2)
    with open(args.result, "w", encoding="utf-8") as file:
        json.dump(found, file)
    os._exit(0)  # nobody waits for what was read ahead


def _run_child(name: str, args: argparse.Namespace, folder: str) -> float:
    """Runs a child and returns its peak memory in MB.

    This process loads no framework: a child's peak counts what its parent had when it was started.
    """
    command = [sys.executable, os.path.abspath(__file__), "--child", name, "--result", _result(folder)]
    command += ["--folder", folder]
    for option in ("rows", "assets", "features", "length", "stride", "shards", "batch", "shuffle", "seconds"):
        command += [f"--{option}", str(getattr(args, option))]
    return measure([*command, "--only", *args.only], os.path.join(folder, "log.txt")).peak_rss_mb


def _turn(name: str, args: argparse.Namespace, folder: str) -> tuple[float, float]:
    peak = _run_child(name, args, folder)
    with open(_result(folder), encoding="utf-8") as file:
        return json.load(file), peak


def _result(folder: str) -> str:
    return os.path.join(folder, "result.json")


def _sizes(args: argparse.Namespace) -> Sizes:
    return Sizes(
        args.assets, args.rows, features=args.features, length=args.length, stride=args.stride, shards=args.shards
    )


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--assets", type=int, default=200)
    parser.add_argument("--rows", type=int, default=31_250, help="rows of each asset")
    parser.add_argument("--features", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--stride", type=int, default=16)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--shuffle", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured in each turn, after half of it to warm up")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=list(READERS), choices=list(READERS), metavar="NAME")
    parser.add_argument("--json", help="file to write to")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--result", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    if args.child:
        _child(args.child, args)
        return
    if args.assets < args.shards:
        sys.exit(f"feed: --assets {args.assets}: must be at least --shards, {args.shards}")
    names = args.only = available([OURS, *(name for name in args.only if name != OURS)])
    with tempfile.TemporaryDirectory(prefix="beamfeed-feed-") as folder:
        _run_child(INPUTS, args, folder)
        result = compare(names, lambda name: _turn(name, args, folder), args.repeats)
    text = json.dumps({"results": result}, indent=1)
    print(text)
    if args.json:
        os.makedirs(os.path.dirname(os.path.abspath(args.json)), exist_ok=True)
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
