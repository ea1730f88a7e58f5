"""Public files that Beamfeed was not made with: does the first job file understand them, and run as it is?

    python benchmarks/public_data.py FOLDER [--only NAME ...] [--docs docs/init.md]

FOLDER holds clones of the repositories that `DATASETS` names, as FOLDER/owner/repository. For each data set this
runs `beamfeed init` and then `beamfeed run` on the file that init wrote, untouched, and compares kind, time, asset and
label with what a person finds in the file. With --docs the lines replace those of that page's table. It takes some
twenty minutes; ends with 1 where fewer than nine of ten tables, or of ten series, are right.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml
from marks import section, with_section

HEAD = "| file | what the untouched job came to on its test split |"
BEAMFEED = [sys.executable, "-m", "beamfeed.launcher.cli"]
SECONDS = 900  # that a run may take
SHARE_RIGHT = 0.9


@dataclass(frozen=True)
class PublicData:
    """A file and what a person finds in it.

    Attributes:
      place: owner/repository/path.
      time: the column that orders the rows of a series; several are `year, month`.
      asset: the column that names assets; None where a file is one.
      label: what a model is to tell; None where a series has no column for it.
    """

    place: str
    kind: str
    time: str | None = None
    asset: str | None = None
    label: str | None = None

    @property
    def name(self) -> str:
        return Path(self.place).stem

    @property
    def parts(self) -> tuple[str | None, ...]:
        return self.kind, self.time, self.asset, self.label


_R_BOOK = "stedy/Machine-Learning-with-R-datasets"
DATASETS = (
    PublicData("IBM/telco-customer-churn-on-icp4d/data/Telco-Customer-Churn.csv", "table", label="Churn"),
    PublicData("IBM/employee-attrition-aif360/data/emp_attrition.csv", "table", label="Attrition"),
    PublicData("kb22/Heart-Disease-Prediction/dataset.csv", "table", label="target"),
    PublicData(f"{_R_BOOK}/credit.csv", "table", label="default"),
    PublicData(f"{_R_BOOK}/wisc_bc_data.csv", "table", label="diagnosis"),
    PublicData(f"{_R_BOOK}/whitewines.csv", "table", label="quality"),
    PublicData(f"{_R_BOOK}/insurance.csv", "table", label="charges"),
    PublicData("selva86/datasets/Churn_Modelling.csv", "table", label="Exited"),
    PublicData("selva86/datasets/bank_marketing_test.csv", "table", label="y"),
    PublicData("selva86/datasets/Vehicle.csv", "table", label="Class"),
    PublicData("selva86/datasets/adult_train.csv", "table", label="class"),
    PublicData(f"{_R_BOOK}/concrete.csv", "table", label="strength"),
    PublicData(f"{_R_BOOK}/letterdata.csv", "table", label="letter"),
    PublicData(f"{_R_BOOK}/mushrooms.csv", "table", label="type"),
    PublicData("selva86/datasets/spam.csv", "table", label="type"),
    PublicData("selva86/datasets/Glass.csv", "table", label="Type"),
    PublicData("selva86/datasets/orange_juice_withmissing.csv", "table", label="Purchase"),
    PublicData("selva86/datasets/segmentationData.csv", "table", label="Class"),
    PublicData("selva86/datasets/GermanCredit.csv", "table", label="credit_risk"),
    PublicData("plotly/datasets/diabetes.csv", "table", label="Outcome"),
    PublicData("panambY/Hourly_Energy_Consumption/data/PJME_hourly.csv", "timeseries", time="Datetime"),
    PublicData("facebook/prophet/examples/example_wp_log_peyton_manning.csv", "timeseries", time="ds"),
    PublicData("facebook/prophet/examples/example_yosemite_temps.csv", "timeseries", time="ds"),
    PublicData("plotly/datasets/finance-charts-apple.csv", "timeseries", time="Date"),
    PublicData("plotly/datasets/dash-stock-ticker-demo.csv", "timeseries", time="Date", asset="Stock"),
    PublicData("datasets/natural-gas/data/daily.csv", "timeseries", time="Date"),
    PublicData("datasets/finance-vix/data/vix-daily.csv", "timeseries", time="DATE"),
    PublicData("unit8co/darts/datasets/taxi_new_york_passengers.csv", "timeseries", time="time"),
    PublicData("unit8co/darts/datasets/us_gasoline.csv", "timeseries", time="Week"),
    PublicData("selva86/datasets/MarketArrivals.csv", "timeseries", time="date", asset="market"),
    PublicData("unit8co/darts/datasets/monthly-sunspots.csv", "timeseries", time="Month"),
    PublicData("plotly/datasets/stockdata.csv", "timeseries", time="Date"),
    PublicData("plotly/datasets/nz_weather.csv", "timeseries", time="DATE"),
    PublicData("selva86/datasets/australian_capital_retail.csv", "timeseries", time="month"),
    PublicData("selva86/datasets/norway_new_car_sales_by_make.csv", "timeseries", time="Year, Month", asset="Make"),
    PublicData("unit8co/darts/datasets/ILINet.csv", "timeseries", time="DATE"),
    PublicData("selva86/datasets/yahoo.csv", "timeseries", time="date"),
    PublicData("selva86/datasets/economics.csv", "timeseries", time="date"),
    PublicData("selva86/datasets/Life_Expectancy_Data.csv", "timeseries", time="Year", asset="Country"),
    PublicData("facebook/prophet/examples/example_pedestrians_multivariate.csv", "timeseries", time="ds"),
)
KINDS = {"table": "tables", "timeseries": "series"}


@dataclass(frozen=True)
class Trial:
    """What became of a data set: what init took for its parts, and what the run came to.

    Attributes:
      parts: kind, time, asset, label, as in `PublicData`.
      failure: the last line of the command that failed; empty where the run made a model.
      test: the metric of the test split, and the guess beside it that is nearest to the model.
    """

    parts: tuple[str | None, ...]
    failure: str = ""
    test: str = ""


def parts_of(job: dict) -> tuple[str | None, ...]:
    """Kind, time, asset and label of a job file, as columns."""
    source = job["source"]
    asset = source.get("asset") or {}
    label = job.get("label") or {}
    time = ((source.get("time") or {}) if source["kind"] == "timeseries" else {}).get("column")
    time = ", ".join(time) if isinstance(time, list) else time
    return source["kind"], time, asset.get("column"), label.get("column")


def try_out(dataset: PublicData, folder: Path, work: Path) -> Trial:
    """Writes the job file of a data set and runs it, in the folder `work`."""
    job_file = work / "job.yaml"
    init = [*BEAMFEED, "init", str(folder / dataset.place), "--out", str(job_file)]
    written = subprocess.run(init, cwd=work, capture_output=True, text=True, timeout=SECONDS)
    if written.returncode or not job_file.is_file():
        return Trial((None,) * 4, f"init: {last_line(written.stderr)}")
    parts = parts_of(yaml.safe_load(job_file.read_text()))
    run = [*BEAMFEED, "run", str(job_file), "--json", "-q"]
    done = subprocess.run(run, cwd=work, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        return Trial(parts, f"run: {last_line(done.stderr)}")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    training = next(event for event in events if event["event"] == "summary")["training"]
    if training is None:
        return Trial(parts, "run: the job trains no model")
    return Trial(parts, test=beside(json.loads((work / training["path"] / "review.json").read_text())))


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["ended without a word"])[-1]


def beside(review: dict) -> str:
    """The metric of the test split, or else of eval, beside its best guess: `accuracy 0.81 (always '1': 0.50)`."""
    split = review["splits"].get("test") or review["splits"]["eval"]
    values = split["model"]
    metric = next((name for name in values if name != "loss"), "loss")
    guesses = {name: numbers[metric] for name, numbers in split["guesses"].items() if metric in numbers}
    if not guesses:
        return f"{metric} {values[metric]:.3g}"
    nearest = min(guesses, key=lambda name: abs(guesses[name] - values[metric]))
    return f"{metric} {values[metric]:.3g} ({nearest}: {guesses[nearest]:.3g})"


def row_of(dataset: PublicData, trial: Trial) -> str:
    guessed = dict(zip(("kind", "time", "asset", "label"), trial.parts, strict=True))
    expected = dict(zip(guessed, dataset.parts, strict=True))
    wrong = [f"{part} {guessed[part]}, not {expected[part]}" for part in guessed if guessed[part] != expected[part]]
    outcome = trial.failure or trial.test
    if wrong:
        told_wrong = f"wrong: {'; '.join(wrong)}"
        outcome = told_wrong if trial.failure else f"{told_wrong}; {trial.test}"  # then a failure is no news
    return f"| {dataset.place} | {outcome} |"


def is_right(row: str) -> bool:
    """Whether a line of the table says that all was understood, and that the job ran to a model."""
    return not row.split("|")[2].strip().startswith(("wrong:", "init:", "run:"))


def with_rows(page: str, rows: dict[str, str]) -> str:
    """The page with these lines, by the places of their files, in its table; those of other files stay."""
    lines = (section(page, "public") or "").splitlines()
    lines_of = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")} | rows
    shown = (dataset.place for dataset in DATASETS if dataset.kind == "timeseries")
    table = summary_table({place: lines_of[place] for place in shown if place in lines_of})
    return with_section(page, "public", "\n".join(table))


def summary_table(rows: dict[str, str]) -> list[str]:
    """How many are right, and the table."""
    of_kind = {kind: [rows[one.place] for one in DATASETS if one.kind == kind and one.place in rows] for kind in KINDS}
    counts = [f"{sum(map(is_right, group))} of {len(group)} {KINDS[kind]}" for kind, group in of_kind.items() if group]
    first = f"{' and '.join(counts)} are right and run untouched to a model."
    return [first, "", HEAD, "| --- | --- |", *(row for group in of_kind.values() for row in group)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the clones")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="the stems of some files")
    parser.add_argument("--docs", type=Path, help="the page whose table gets the lines")
    arguments = parser.parse_args()
    rows: dict[str, str] = {}
    fails = False
    for kind in KINDS:
        chosen = [one for one in DATASETS if one.kind == kind and (not arguments.only or one.name in arguments.only)]
        for dataset in chosen:
            with tempfile.TemporaryDirectory() as work:
                trial = try_out(dataset, arguments.folder.resolve(), Path(work))
            rows[dataset.place] = row_of(dataset, trial).replace("\\", "/")
            print(rows[dataset.place], flush=True)
        fails |= sum(is_right(rows[one.place]) for one in chosen) < SHARE_RIGHT * len(chosen)
    print(summary_table(rows)[0])
    if arguments.docs:
        arguments.docs.write_text(with_rows(arguments.docs.read_text(), rows))
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
