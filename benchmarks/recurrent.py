"""Compares the steps of recurrent models, by sizes of layer and batch: by Keras's loop over rows, ours, and by XLA.

    python benchmarks/recurrent.py --json out/bench/recurrent.json

Each turn is a process of its own: the trainer's own steps on one batch that is there already, so that the feed has no
part in it. The first step, which is traced and compiled, is told by itself.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

import feed_data
from turns import figure_of, write_json

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.manifest import read_manifest

KERAS, OURS, XLA = "keras", "beamfeed", "xla"
STEPS = 4  # in a call


def measure(path: str, way: str, seconds: float) -> dict[str, float]:
    """Seconds of the first step, and of one after it; a process of its own runs this."""
    import tensorflow as tf

    from beamfeed.trainer.loop import model
    from beamfeed.trainer.tools.job_steps import make_job_steps

    if way == KERAS:
        model.quicken = lambda _: None
    job = load_as(TrainingJob, path)
    trained = make_job_steps(job, read_manifest(job.output.path))
    strategy = trained.cluster.strategy
    same = tf.data.Dataset.from_tensors(strategy.experimental_local_results(next(trained.batches))[0]).repeat()
    batches = iter(strategy.distribute_datasets_from_function(lambda _: same.prefetch(2)))

    def time_of(steps: int) -> float:
        began = time.perf_counter()
        trained.run(batches, steps)
        return time.perf_counter() - began

    first = time_of(1)
    time_of(STEPS)
    rounds = []
    until = time.perf_counter() + seconds
    while len(rounds) < 3 or time.perf_counter() < until:
        rounds.append(time_of(STEPS) / STEPS)
    return {"first": first, "step": statistics.median(rounds)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", default=["gru", "lstm"], choices=("gru", "lstm"))
    parser.add_argument("--units", nargs="+", default=["8", "32", "64", "128", "256"], metavar="N[,N]")
    parser.add_argument("--batches", nargs="+", type=int, default=[64, 256], metavar="N")
    parser.add_argument("--length", type=int, default=64, metavar="ROWS")
    parser.add_argument("--ways", nargs="+", default=[KERAS, OURS, XLA], choices=(KERAS, OURS, XLA))
    parser.add_argument("--seconds", type=float, default=2.0, help="of each turn")
    parser.add_argument("--json", type=Path, help="file to write to")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one, args.ways[0], args.seconds)))
        return
    sizes = []
    with tempfile.TemporaryDirectory(prefix="beamfeed-recurrent-") as name:
        folder = Path(name)
        feed_data.write_segments(str(folder / "data"), feed_data.Sizes(16, 2_000, length=args.length, shards=1))
        for cell, units, batch in itertools.product(args.cells, args.units, args.batches):
            model = {"name": "recurrent_autoencoder", "cell": cell, "units": [int(count) for count in units.split(",")]}
            turns = {}
            for way in args.ways:
                train = {
                    "model": model,
                    "feed": {"batch_size": batch},
                    "workdir": "none",
                    "devices": {"xla": way == XLA},
                }
                job = feed_data.write_job(folder, {"length": args.length, "stride": 16}, train)
                turns[way] = figure_of([__file__, "--one", job, "--ways", way, "--seconds", args.seconds])
            first = turns[args.ways[0]]["step"]
            ways = [
                f"{way} {turn['step'] * 1e3:6.1f} ms {first / turn['step']:5.2f}x (first {turn['first']:.1f} s)"
                for way, turn in turns.items()
            ]
            print(f"{cell:4} {units:>7} units, batch {batch:4}: {'; '.join(ways)}", flush=True)
            sizes.append({"cell": cell, "units": units, "batch": batch, "ways": turns})
    write_json({"length": args.length, "sizes": sizes}, args.json)


if __name__ == "__main__":
    main()
