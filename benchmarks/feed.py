"""Compares ways to feed windows to a training run: windows per second and peak memory.

    python benchmarks/feed.py --assets 200 --rows 31250 --json out/bench/feed.json

The same windows are written in each reader's format, and all are read from the page cache. The readers take turns,
each time in a process of its own; a figure is the median of its turns.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence

import feed_data
import turns
from feed_data import Sizes
from feed_readers import ARRAYS, NEEDS, OURS, READERS, SEGMENTS, WINDOWS


def write_inputs(folder: str, sizes: Sizes, names: Sequence[str]) -> None:
    """The formats that the readers need, each in its own folder."""
    feed_data.write_segments(os.path.join(folder, SEGMENTS), sizes)
    feed_data.write_windows(os.path.join(folder, WINDOWS), sizes)
    if any(name in NEEDS for name in names):
        feed_data.write_array_records(os.path.join(folder, ARRAYS), sizes)


def _child(args: argparse.Namespace) -> None:
    """Writes the inputs, or reads as the reader that is named."""
    if args.child == turns.INPUTS:
        write_inputs(args.folder, _sizes(args), list(READERS) if args.arrays else [])
        return
    batches = READERS[args.child](args.folder, _sizes(args), args.batch, args.shuffle)
    turns.leave(turns.rate(batches, args.seconds), args.folder)


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
    parser.add_argument("--arrays", type=int, default=0, help=argparse.SUPPRESS)
    turns.add_child_options(parser)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    if args.child:
        _child(args)
        return
    if args.assets < args.shards:
        sys.exit(f"feed: --assets {args.assets}: must be at least --shards, {args.shards}")
    names = turns.installed([OURS, *(name for name in args.only if name != OURS)], NEEDS)
    passed = ("rows", "assets", "features", "length", "stride", "shards", "batch", "shuffle", "seconds")
    options = {option: getattr(args, option) for option in passed}
    with tempfile.TemporaryDirectory(prefix="beamfeed-feed-") as folder:
        arrays = int(any(name in NEEDS for name in names))
        turns.run_child(__file__, turns.INPUTS, folder, {**options, "arrays": arrays})
        result = turns.compare(names, lambda name: turns.turn(__file__, name, folder, options), args.repeats)
    turns.add_ratio(result, OURS)
    print(json.dumps({"results": result}, indent=1))
    turns.write_json({"results": result}, args.json)


if __name__ == "__main__":
    main()
