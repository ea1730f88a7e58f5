"""Scores a new file of one series with the exported model: cuts it into windows, and shows the worst with their times.

    python examples/score_series.py --model out/fleet/model --file new/pump-01.parquet --time time --asset pump-01

The file is a CSV (--delimiter, --decimal) or Parquet. Rows are sorted by time; a missing value is NaN, and its windows
have no score. Gaps, resampling and filling are left to you: docs/serving.md says what is not in the model. Needs
TensorFlow and pyarrow.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import tensorflow as tf

ROWS = 65_536  # that are scored at a time, about


def read_series(path: Path, delimiter: str, decimal: str, time: str) -> pa.Table:
    """The file's rows, sorted by time."""
    if path.suffix == ".parquet":
        return pq.read_table(path, partitioning=None).sort_by(time)
    parse = pa.csv.ParseOptions(delimiter=delimiter)
    return pa.csv.read_csv(
        path, parse_options=parse, convert_options=pa.csv.ConvertOptions(decimal_point=decimal)
    ).sort_by(time)


def score(model: Path, table: pa.Table, asset: str | None) -> Iterator[tuple[int, float]]:
    """The first row of each window, and its score."""
    signatures = tf.saved_model.load(str(model / "saved_model")).signatures
    told = {name: one.numpy() for name, one in signatures["features"]().items()}
    names = [name.decode() for name in told["features"]]
    rows = np.stack([table[name].to_numpy().astype("f4") for name in names], axis=1)
    of_asset = (
        {"asset": tf.constant(asset or "")} if "asset" in signatures["rows"].structured_input_signature[1] else {}
    )
    length, stride = int(told["length"]), int(told["stride"])
    step = max(1, ROWS // stride) * stride  # a piece begins where a window does, and overlaps the one before
    for first in range(0, len(rows), step):
        piece = rows[first : first + step - stride + length]
        found = signatures["rows"](rows=tf.constant(piece), **of_asset)
        yield from zip((first + found["start"].numpy()).tolist(), found["score"].numpy().tolist(), strict=True)


def main() -> None:
    """Prints the number of windows, their mean score, and the worst."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="train.workdir of the job")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--time", required=True, help="the column of times")
    parser.add_argument("--asset", help="whose scale it has, with prepare.scale.per: asset")
    parser.add_argument("--delimiter", default=",")
    parser.add_argument("--decimal", default=".")
    parser.add_argument("--worst", type=int, default=5)
    args = parser.parse_args()
    try:
        table = read_series(args.file, args.delimiter, args.decimal, args.time)
        windows = list(score(args.model, table, args.asset))
    except (KeyError, ValueError, OSError) as error:  # no such file or column, or words where numbers should be
        print(f"{args.file}: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(2)
    known = [window for window in windows if not np.isnan(window[1])]
    mean = np.mean([value for _, value in known]) if known else float("nan")
    print(f"{len(windows):,} windows, {len(windows) - len(known):,} without a score; mean score {mean:.6g}")
    for row, value in sorted(known, key=lambda window: -window[1])[: args.worst]:
        print(f"{value:.6g} from {table[args.time][row]}")


if __name__ == "__main__":
    main()
