"""Compares training: our loop with one and two workers against `keras.Model.fit`, on the same model and data.

    python benchmarks/train.py --repeats 3 --json out/bench/train.json

Each turn is a process of its own and trains a few epochs; its figure is the median of the windows per second of the
epochs after the first. `fit` compiles its steps by XLA where that is said, and else where Keras chooses to, and gets
its batches from `load_dataset`, as a user of the feed alone would.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import feed_data
from turns import figure_of, write_json

HERE = Path(__file__).resolve().parent
FIT, FIT_XLA = "keras.Model.fit", "keras.Model.fit, xla"
OURS = {  # the workers, and whether steps are compiled by XLA
    "beamfeed, one worker": (1, False),
    "beamfeed, two workers": (2, False),
    "beamfeed, one worker, xla": (1, True),
    "beamfeed, two workers, xla": (2, True),
}
MODELS = {  # one of long steps, one of short ones
    "A recurrent autoencoder: GRU of 32 units, 8 latent numbers": {
        "name": "recurrent_autoencoder", "cell": "gru", "units": [32], "latent": 8
    },
    "A dense autoencoder: 256 units, 8 latent numbers, 267,000 weights": {
        "class": "dense_autoencoder:DenseAutoencoder"
    },
}  # fmt: skip


def train_ours(job: Path, folder: Path, workers: int, xla: bool) -> float:
    """Windows per second, by the trainer's own metrics."""
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "train", str(job), "--restart"]
    sets = ["--set", f"launch.train.workers={workers}", "--set", f"train.devices.xla={str(xla).lower()}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([*command, *sets], check=True, capture_output=True, env=environment)
    lines = (folder / "model" / "metrics.jsonl").read_text().splitlines()
    return statistics.median(json.loads(line)["windows_per_second"] for line in lines[1:])


def train_fit(job_path: str, xla: bool) -> None:
    """Prints the windows per second of `keras.Model.fit`; a process of its own runs this."""
    import keras

    from beamfeed.contract.config.job import TrainingJob
    from beamfeed.contract.config.load import load_as
    from beamfeed.contract.dataset.manifest import read_manifest
    from beamfeed.trainer import models
    from beamfeed.trainer.feed.dataset import load_dataset
    from beamfeed.trainer.tasks.objective import Objective

    job = load_as(TrainingJob, job_path)
    manifest = read_manifest(job.output.path)
    feed, train = job.train.feed, job.train
    model = models.build(train.model, Objective(train.task, manifest).signature, train.seed)
    model.compile(keras.optimizers.Adam(train.optimizer.learning_rate), "mse", jit_compile=True if xla else "auto")
    steps = manifest.splits["train"].windows // feed.batch_size
    batches = load_dataset(job.output.path, "train", batch_size=feed.batch_size, shuffle=feed.shuffle, epochs=None)
    rates = []

    class EpochTimes(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, epoch: int, logs: object = None) -> None:
            rates.append(steps * feed.batch_size / (time.perf_counter() - self.began))

    pairs = batches.map(lambda fields: (fields["values"], fields["values"]))
    model.fit(pairs, epochs=train.epochs, steps_per_epoch=steps, verbose=0, callbacks=[EpochTimes()])
    print(statistics.median(rates[1:]))


def turn(name: str, job: Path, folder: Path) -> float:
    if name in (FIT, FIT_XLA):
        return figure_of([__file__, "--fit", job, *["--xla"] * (name == FIT_XLA)])
    return train_ours(job, folder, *OURS[name])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--assets", type=int, default=40)
    parser.add_argument("--rows", type=int, default=10_000, help="rows of each asset")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=(FIT, FIT_XLA, *OURS), metavar="NAME", help="these alone")
    parser.add_argument("--model", choices=("recurrent", "dense"), help="this one alone")
    parser.add_argument("--json", type=Path, help="file to write to")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    parser.add_argument("--xla", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fit:
        train_fit(args.fit, args.xla)
        return
    sizes = feed_data.Sizes(args.assets, args.rows)
    with tempfile.TemporaryDirectory(prefix="beamfeed-train-") as name:
        folder = Path(name)
        feed_data.write_segments(str(folder / "data"), sizes)
        results = []
        for words, model in MODELS.items():
            if args.model is None or args.model in words:
                train = {"model": model, "feed": {"batch_size": args.batch}, "epochs": args.epochs,
                         "workdir": str(folder / "model")}  # fmt: skip
                job = feed_data.write_job(folder, {"length": sizes.length, "stride": sizes.stride}, train)
                results.append({"model": words, "results": compare(job, folder, args)})
    write_json({"batch": args.batch, "models": results}, args.json)


def compare(job: Path, folder: Path, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The median rates of each, in turn."""
    names = args.only or (FIT, FIT_XLA, *OURS)
    rates_of: dict[str, list[float]] = {name: [] for name in names}
    for i in range(args.repeats):
        for name in names:
            rates_of[name].append(turn(name, job, folder))
            print(f"train: {i + 1}/{args.repeats} {name}: {rates_of[name][-1]:,.0f} windows/s", file=sys.stderr)
    medians = {name: statistics.median(rates) for name, rates in rates_of.items()}
    for name, rate in medians.items():
        steps = rate / args.batch
        print(f"{name:26} {rate:10,.0f} windows/s {steps:8,.0f} steps/s {rate / medians[names[0]]:6.2f}x {names[0]}")
    return {name: {"windows_per_second": rate, "steps_per_second": rate / args.batch} for name, rate in medians.items()}


if __name__ == "__main__":
    main()
