"""Times this tree against another commit: preprocessing and feeding, in turn, a process for each run.

    python benchmarks/against.py --base 19f8c36 [--repeats 5] [--rows 2000000] [--out results.json]

Prints the median of the ratios base / this tree of the pairs: above 1, this tree is faster. A change should not
fall below 0.95. Of preprocessing also those of the processor's seconds, which other programs disturb less, and of
peak memory. Both trees run on the same interpreter and libraries, one right after the other, and the order changes
from pair to pair.
"""

import argparse
import os
import statistics
import tempfile
from functools import partial
from pathlib import Path

from alternatives import job
from fleet import make_fleet
from measure import Measured
from trees import checkout, preprocess
from turns import ROOT, figure_of, write_json

MANY = (32, 100_000)  # assets and rows of the fleet of many small ones
FEED = """
import sys, time
import tensorflow as tf
from beamfeed.trainer.feed.dataset import load_dataset

batches = iter(load_dataset(sys.argv[1], "train", batch_size=256, shuffle=10_000, epochs=None))

@tf.function
def consume(steps):
    total = 0.0
    for _ in tf.range(steps):
        batch = next(batches)
        values = batch["values"] if isinstance(batch, dict) else batch
        total += values[0, 0, 0]
    return total

consume(tf.constant(500)).numpy()
began, steps = time.perf_counter(), 0
while time.perf_counter() - began < float(sys.argv[2]):
    consume(tf.constant(500)).numpy()
    steps += 500
print(256 * steps / (time.perf_counter() - began))
"""


def feed(tree: Path, output: Path, seconds: float) -> float:
    """Seconds for a million windows."""
    program = output.with_suffix(".py")  # a file, as AutoGraph reads its source
    program.write_text(FEED)
    return 1e6 / figure_of([program, output, seconds], tree)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="a commit")
    parser.add_argument("--repeats", type=int, default=5, help="pairs of each measurement")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of each of the 8 large assets")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each run of feeding")
    parser.add_argument("--out", type=Path, help="a file for the figures, JSON")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="beamfeed-against-") as folder:
        scratch = Path(folder)
        with checkout(args.base, scratch / "base") as base:
            if base is None:
                parser.error(f"--base {args.base}: this repository has no such commit")
            results = compare(base, scratch, args)
    write_json(results, args.out)


def compare(base: Path, scratch: Path, args: argparse.Namespace) -> dict[str, dict]:
    """The seconds of both trees and the median ratio, by what was measured."""
    large, many = scratch / "large", scratch / "many"
    make_fleet(str(large), 8, args.rows)
    make_fleet(str(many), *MANY)
    trees = {"base": base, "this": ROOT}

    def preprocessed(files: Path, name: str) -> Measured:
        output = scratch / f"{name}-{files.name}"
        return preprocess(trees[name], job(files, output, scratch / "model", os.cpu_count() or 1), scratch)

    measures = {
        f"preprocess 8 x {args.rows:,} rows": partial(preprocessed, large),
        f"preprocess {MANY[0]} x {MANY[1]:,} rows": partial(preprocessed, many),
        "feed a million windows": lambda name: feed(trees[name], scratch / f"{name}-large", args.seconds),
    }
    results = {}
    for title, measure in measures.items():
        runs: dict[str, list[Measured | float]] = {name: [] for name in trees}
        for pair in range(args.repeats):
            for name in sorted(trees, reverse=bool(pair % 2)):
                runs[name].append(measure(name))
        seconds = {name: [run if isinstance(run, float) else run.seconds for run in runs[name]] for name in trees}
        ratios = [old / new for old, new in zip(seconds["base"], seconds["this"], strict=True)]
        results[title] = {**seconds, "ratios": ratios, "ratio": statistics.median(ratios)}
        medians = ", ".join(f"{name} {statistics.median(seconds[name]):.2f} s" for name in trees)
        line = f"{title}: {medians}, ratio {statistics.median(ratios):.3f} ({min(ratios):.2f} to {max(ratios):.2f})"
        for column, words in (("cpu_seconds", "the processor's seconds"), ("peak_rss_mb", "peak memory")):
            of = {name: [getattr(run, column) for run in runs[name] if isinstance(run, Measured)] for name in trees}
            if of["this"]:
                ratio = statistics.median(of["base"]) / statistics.median(of["this"])
                results[title] |= {column: of, f"{column}_ratio": ratio}
                line += f"; of {words} {ratio:.3f}"
        print(line, flush=True)
    return results


if __name__ == "__main__":
    main()
