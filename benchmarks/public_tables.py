"""How good are the untouched jobs of public tables and forecasts, beside simple models on the same rows?

    python benchmarks/public_tables.py FOLDER [--only NAME ...] [--seeds 1 2 3]

FOLDER holds clones of the repositories that `TABLES` and `FORECASTS` name, as FOLDER/owner/repository. For each file
this runs `beamfeed init FILE --label NAME`, and the job file that it wrote once for each seed. It reads the test
split's losses of `review.json`: cross-entropy of classes, of numbers the root of the mean squared error, of
forecasts in deviations of the training rows. A file is even where the model's mean is at most 2 % above the better of
the others: a linear model, and gradient boosting or, of forecasts, the last values. No default was chosen by these
losses.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from public_data import BEAMFEED, SECONDS, PublicData, last_line

_R = "selva86/datasets"
TABLES = (
    PublicData(f"{_R}/Ionosphere.csv", "table", label="Class"),
    PublicData(f"{_R}/Vowel.csv", "table", label="Class"),
    PublicData(f"{_R}/BreastCancer.csv", "table", label="Class"),
    PublicData(f"{_R}/Soybean.csv", "table", label="Class"),
    PublicData(f"{_R}/Auto.csv", "table", label="mpg"),
    PublicData(f"{_R}/Carseats.csv", "table", label="Sales"),
    PublicData(f"{_R}/College.csv", "table", label="Grad.Rate"),
    PublicData(f"{_R}/Hitters.csv", "table", label="Salary"),
    PublicData(f"{_R}/Sacramento.csv", "table", label="price"),
    PublicData(f"{_R}/diamonds.csv", "table", label="price"),
)
FORECASTS = (
    PublicData(f"{_R}/a10.csv", "timeseries", label="value"),
    PublicData(f"{_R}/elecequip.csv", "timeseries", label="value"),
    PublicData("unit8co/darts/datasets/taxi_new_york_passengers.csv", "timeseries", label="#Passengers"),
    PublicData("unit8co/darts/datasets/us_gasoline.csv", "timeseries", label="Gasoline"),
    PublicData("panambY/Hourly_Energy_Consumption/data/DUQ_hourly.csv", "timeseries", label="DUQ_MW"),
    PublicData("unit8co/darts/datasets/taylor.csv", "timeseries", label="Y"),
    PublicData("mwaskom/seaborn-data/dowjones.csv", "timeseries", label="Price"),
    PublicData("vega/vega-datasets/data/co2-concentration.csv", "timeseries", label="CO2"),
    PublicData("vega/vega-datasets/data/seattle-weather.csv", "timeseries", label="temp_max"),
    PublicData("vega/vega-datasets/data/sp500-2000.csv", "timeseries", label="close"),
)
LINEAR, OTHER, MODEL = "linear", "other", "model"
LOSSES = {"classify": "cross-entropy", "regress": "RMSE", "forecast": "scaled RMSE"}
EVEN = 1.02
HEAD = (
    "| data | rows | loss | the model | a linear model | boosting, or last values | model / better one |",
    "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
)


def run(arguments: list[str], work: Path) -> str:
    done = subprocess.run([*BEAMFEED, *arguments], cwd=work, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        sys.exit(f"beamfeed {' '.join(arguments)}: {last_line(done.stderr)}")
    return done.stdout


def losses_of(job: Path, seed: int, work: Path) -> dict[str, float]:
    """Test losses by `MODEL`, `LINEAR` and `OTHER`."""
    workdir = f"out/model-{seed}"
    seeds = ["--set", f"train.seed={seed}", "--set", f"train.feed.seed={seed}", "--set", f"train.workdir={workdir}"]
    run(["run", str(job), "--json", "-q", *seeds], work)
    split = json.loads((work / workdir / "review.json").read_text())["splits"]["test"]
    losses = {MODEL: split["model"]["loss"]}
    for name, numbers in split["guesses"].items():
        if kind := _kind(name):
            losses[kind] = min(numbers["loss"], losses.get(kind, math.inf))
    return losses


def _kind(guess: str) -> str | None:
    if guess.startswith(("logistic regression", "a linear model")):
        return LINEAR
    return OTHER if guess.startswith(("gradient boosting", "the last value", "the value ")) else None


def measure(dataset: PublicData, folder: Path, seeds: list[int], work: Path) -> tuple[str, bool]:
    """The line of the table, and whether the model is even."""
    job = work / "job.yaml"
    run(["init", str(folder / dataset.place), "--label", str(dataset.label), "--out", str(job)], work)
    task = yaml.safe_load(job.read_text())["train"]["task"]["name"]
    each = [losses_of(job, seed, work) for seed in seeds]
    mean = {name: sum(losses[name] for losses in each) / len(each) for name in each[0]}
    if task != "classify":
        mean = {name: math.sqrt(loss) for name, loss in mean.items()}
    rows = sum(1 for _ in (folder / dataset.place).open()) - 1
    ratio = mean[MODEL] / min(mean[LINEAR], mean[OTHER])
    numbers = " | ".join(f"{mean[name]:.4g}" for name in (MODEL, LINEAR, OTHER))
    return f"| {dataset.name}, {dataset.label} | {rows:,} | {LOSSES[task]} | {numbers} | {ratio:.3f} |", ratio <= EVEN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the clones")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="the stems of some files")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments = parser.parse_args()
    print("\n".join(HEAD))
    measured = even = 0
    for dataset in TABLES + FORECASTS:
        if arguments.only and dataset.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as work:
            line, is_even = measure(dataset, arguments.folder.resolve(), arguments.seeds, Path(work))
        print(line, flush=True)
        measured += 1
        even += is_even
    print(f"\n{even} of {measured} are even or better.")


if __name__ == "__main__":
    main()
