"""The error of exported forecasts over the test rows of ETTh1, as papers count it.

Their test windows may begin in the rows before the test rows, as long as all that is forecast lies in these: 2,785
windows of 336 hours and 96 ahead. Columns are divided by their deviation in the training rows.

    python examples/forecast_score.py --file ETTh1.csv --model out/forecast/model-1 --model out/forecast/model-2
"""

import argparse
import os

import numpy as np
import pyarrow.csv
import tensorflow as tf

TRAIN, TEST, END = 8640, 11520, 14400  # rows: training ends, testing begins and ends


def errors(model: str, rows: np.ndarray) -> tuple[int, float, float]:
    """The windows of a model, and its mean squared and mean absolute error over them, scaled.

    Args:
      model: the `train.workdir` of a run.
      rows: float32 `[rows, features]`, the columns of the file in its order.
    """
    signatures = tf.saved_model.load(os.path.join(model, "saved_model")).signatures
    facts = {name: value.numpy() for name, value in signatures["features"]().items()}
    length, ahead = int(facts["length"]), int(facts["ahead"])
    context = rows[TEST - length : END - ahead]
    forecast = signatures["rows"](rows=tf.constant(context))["forecast"].numpy()
    places = [list(facts["features"]).index(name) for name in facts["forecast_columns"]]
    first = TEST + np.arange(len(forecast))
    truth = rows[:, places][first[:, None] + np.arange(ahead)]
    apart = (forecast - truth) / rows[:TRAIN, places].std(axis=0, dtype=np.float64)
    return len(forecast), float(np.square(apart).mean()), float(np.abs(apart).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True, help="ETTh1.csv")
    parser.add_argument("--model", required=True, action="append", help="the train.workdir of a run; may be repeated")
    options = parser.parse_args()
    table = pyarrow.csv.read_csv(options.file).drop_columns(["date"])
    rows = np.stack([column.to_numpy().astype(np.float32) for column in table.columns], axis=1)
    measured = [errors(model, rows) for model in options.model]
    for model, (windows, squared, absolute) in zip(options.model, measured, strict=True):
        print(f"{model}: {windows:,} windows, mean squared error {squared:.4f}, mean absolute error {absolute:.4f}")
    if len(measured) > 1:
        _, squared, absolute = np.mean(measured, axis=0)
        print(f"mean of {len(measured)}: {squared:.4f}, {absolute:.4f}")


if __name__ == "__main__":
    main()
