"""The lake of examples/fraud.yaml as it comes, a folder a day; each week the model learns on from its last weights.

    python examples/fraud_growing.py --lake '/where/they/are' --out out/fraud_growing [--seed 1]

The days from 18 July on are added one by one to a dataset that grows. On 24 July a model is trained, on 31 July it goes
on from its weights with two weeks; the week after is left out, as in examples/fraud.yaml, and that from 8 August on is
the test. Beside it, a model that learns of the two weeks in one go, on a dataset that one run made. Prints ROC AUC and
average precision of each on all rows of the test week.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import yaml
from fraud_score import TEST, average_precision, read_days, roc_auc, scores_of

ROOT = Path(__file__).resolve().parent
FIRST_WEEK, TRAINED = "date=2018-07-24", "date=2018-07-31"  # the days after which a model is trained


def job_of(folder: Path, files: Path, name: str, seed: int, **train: object) -> Path:
    """The job of the example on a folder of days, whose dataset grows."""
    job = yaml.safe_load((ROOT / "fraud.yaml").read_text())
    job["source"]["files"] = str(files / "**" / "*.parquet")
    job["split"] |= {"train_from": "2018-07-18"}
    job["output"] = {"path": str(folder / f"{files.name}-data"), "grow": True}
    job["train"] |= {"workdir": str(folder / name), "seed": seed, **train}
    job["train"]["feed"]["seed"] = seed
    job.pop("after")
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(job, sort_keys=False))
    return path


def beamfeed(command: str, job: Path) -> None:
    """Runs a command of Beamfeed on a job."""
    subprocess.run([sys.executable, "-m", "beamfeed.launcher.cli", command, str(job), "-q"], check=True)


def link(day: Path, folder: Path) -> None:
    """Puts the files of a day into a folder, as if they had just come."""
    (folder / day.name).mkdir(parents=True)
    for file in day.iterdir():
        (folder / day.name / file.name).symlink_to(file.resolve())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lake", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("out/fraud_growing"))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    days = sorted(args.lake.glob("date=*"))
    first = job_of(args.out, args.out / "grown", "first", args.seed)
    warm = {"init": {"from": str(args.out / "first")}}
    second = job_of(args.out, args.out / "grown", "second", args.seed, **warm)
    for day in days:
        link(day, args.out / "grown")
        link(day, args.out / "whole")
        if day.name >= FIRST_WEEK:
            beamfeed("preprocess", first)
        for last, job in ((FIRST_WEEK, first), (TRAINED, second)):
            if day.name == last:
                beamfeed("train", job)
    beamfeed("run", job_of(args.out, args.out / "whole", "at_once", args.seed))
    rows = read_days(args.lake, TEST, 7)
    is_fraud = rows["TX_FRAUD"].to_numpy() == 1
    for name in ("first", "second", "at_once"):
        scores = scores_of(args.out / name, rows)
        print(f"{name:8} ROC AUC {roc_auc(is_fraud, scores):.3f}  AP {average_precision(is_fraud, scores):.3f}")


if __name__ == "__main__":
    main()
