"""Scores models of examples/fraud.yaml on the test week: all rows, and those of customers not yet known as defrauded.

    python examples/fraud_score.py --lake '/where/they/are' --model out/fraud-1/model [out/fraud-2/model ...]

Prints ROC AUC and average precision of each model and their means. The rows are read from the files, and the exported
model takes them as they are. Known on a test day, as in the Fraud Detection Handbook: who had a fraud in the training
week, or in the days after it up to eight days before.
"""

import argparse
import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tensorflow as tf

TRAIN, DELAY, TEST = datetime.date(2018, 7, 25), datetime.date(2018, 8, 1), datetime.date(2018, 8, 8)


def read_days(lake: Path, first: datetime.date, days: int) -> pa.Table:
    """The rows of some days, one after the other."""
    paths = [lake / f"date={first + datetime.timedelta(day)}" for day in range(days)]
    return pa.concat_tables([pq.read_table(path, partitioning=None) for path in paths])


def scores_of(model: Path, rows: pa.Table) -> np.ndarray:
    """Float32 [rows], the probability of fraud."""
    serve = tf.saved_model.load(str(model / "saved_model")).signatures["serving_default"]
    names = serve.structured_input_signature[1]
    found = serve(**{name: tf.constant(rows[name].to_numpy().astype("f4")) for name in names})
    return found["probabilities"].numpy()[:, 1]


def unknown_rows(lake: Path, rows: pa.Table) -> np.ndarray:
    """Bool [rows]: those of customers that are not known as defrauded on the day of the row."""
    before = read_days(lake, TRAIN, (TEST - TRAIN).days)
    frauds = before.filter(pc.equal(before["TX_FRAUD"], 1))
    days = frauds["TX_DATETIME"].cast(pa.date32()).to_numpy().astype("datetime64[D]")
    first: dict[int, np.datetime64] = {}
    for customer, day in zip(frauds["CUSTOMER_ID"].to_pylist(), days, strict=True):
        first[customer] = min(day, first.get(customer, day))
    delay, of_row = np.datetime64(DELAY), rows["TX_DATETIME"].cast(pa.date32()).to_numpy().astype("datetime64[D]")
    known = np.array([first.get(customer, np.datetime64("2100")) for customer in rows["CUSTOMER_ID"].to_pylist()])
    return ~((known < delay) | (known <= of_row - 8))


def roc_auc(is_fraud: np.ndarray, score: np.ndarray) -> float:
    """The share of pairs of a fraud and another row in which the fraud has the higher score; equal ones count half."""
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - (counts - 1) / 2)[place]
    frauds = is_fraud.sum()
    return (rank[is_fraud].sum() - frauds * (frauds + 1) / 2) / (frauds * (~is_fraud).sum())


def average_precision(is_fraud: np.ndarray, score: np.ndarray) -> float:
    """The mean over the frauds of the precision at each one's score."""
    order = np.argsort(-score, kind="stable")
    found, last = np.cumsum(is_fraud[order]), np.append(np.diff(score[order]) != 0, True)  # the last of equal scores
    precision = found[last] / (np.flatnonzero(last) + 1)
    return float((np.diff(found[last], prepend=0) * precision).sum() / is_fraud.sum())


def main() -> None:
    """Prints a line for each model, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lake", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, nargs="+", help="working folders")
    args = parser.parse_args()
    rows = read_days(args.lake, TEST, 7)
    is_fraud, unknown = rows["TX_FRAUD"].to_numpy() == 1, unknown_rows(args.lake, rows)
    print(f"{len(rows):,} rows, {is_fraud.sum()} frauds; of customers not known as defrauded "
          f"{unknown.sum():,} and {is_fraud[unknown].sum()}")  # fmt: skip
    found = []
    for model in args.model:
        score = scores_of(model, rows)
        one = [metric(is_fraud[some], score[some]) for some in (slice(None), unknown)
               for metric in (roc_auc, average_precision)]  # fmt: skip
        found.append(one)
        print(f"{model}: {tell(one)}")
    print(f"mean: {tell(np.mean(found, axis=0))}")


def tell(numbers: list[float] | np.ndarray) -> str:
    """A line of the four numbers."""
    return "ROC AUC {:.4f}, average precision {:.4f}; not known: {:.4f}, {:.4f}".format(*numbers)


if __name__ == "__main__":
    main()
