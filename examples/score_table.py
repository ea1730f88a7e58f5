"""Scores the rows of a new file with the exported model of a table: the file's columns in, predictions of each row out.

    python examples/score_table.py --model out/census/model --file new.csv --out scored.csv
    python examples/score_table.py --model out/fraud/model --file new.parquet --out scored.csv

The file is a CSV (UTF-8; --delimiter, and --names where no line names the columns) or Parquet. Its values go in as
they stand: the model knows which words stand for nothing, how numbers are written and dates. Of a row that
preprocessing would set aside `reason` says why, and its predictions are empty. Rows are scored some at a time, so that
the file may be of any size. Needs TensorFlow, and for Parquet pyarrow.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import tensorflow as tf

ROWS = 4096  # that are scored at a time


def read_csv(path: Path, delimiter: str, quotes: bool, names: list[str]) -> Iterator[dict[str, list[str]]]:
    """Columns of text, some rows at a time."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        quoting = csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE
        lines = csv.reader(file, delimiter=delimiter, quoting=quoting)
        names = names or [name.strip() for name in next(lines, [])]
        if not names:
            raise ValueError("is empty")
        while some := list(islice(lines, ROWS)):
            rows = [row for row in some if len(row) == len(names)]
            if lost := sum(bool(row) for row in some) - len(rows):
                print(f"{path}: {lost} rows up to line {lines.line_num} have too many or too few values, left out")
            yield {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def read_parquet(path: Path) -> Iterator[dict[str, list[str]]]:
    """The same of Parquet; a missing value is an empty text, and columns of bytes, lists and the like are left out."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    fields = [
        field for field in file.schema_arrow if not (pa.types.is_nested(field.type) or "binary" in str(field.type))
    ]
    for batch in file.iter_batches(ROWS, columns=[field.name for field in fields]):
        yield {name: batch[name].cast(pa.string()).fill_null("").to_pylist() for name in batch.schema.names}


def score(model: Path, batches: Iterator[dict[str, list[str]]]) -> Iterator[tuple[dict[str, list[str]], dict]]:
    """The columns of each batch, and its predictions by name, `[rows]` each."""
    signatures = tf.saved_model.load(str(model / "saved_model")).signatures
    told = {name: [one.decode() for one in value.numpy().ravel()] for name, value in signatures["columns"]().items()
            if value.dtype == tf.string}  # fmt: skip
    for columns in batches:
        if absent := [name for name in told["columns"] if name not in columns]:
            raise ValueError(f"has no column {absent[0]!r}, which the model needs (it has: {', '.join(columns)})")
        given = {argument: tf.constant(columns[column])
                 for column, argument in zip(told["columns"], told["arguments"], strict=True)}  # fmt: skip
        found = {}
        for name, values in signatures["rows_of_text"](**given).items():
            if values.shape.rank == 1:
                found[name] = values.numpy()
            else:  # of classes: a column for each
                classes = told.get(name.replace("probabilities", "classes"), range(values.shape[1]))
                found |= {f"{name}[{one}]": values[:, place].numpy() for place, one in enumerate(classes)}
        yield columns, found


def write(path: Path, scored: Iterator[tuple[dict[str, list[str]], dict]]) -> None:
    """A CSV of the columns of the file and the predictions."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        for number, (columns, found) in enumerate(scored):
            if number == 0:
                rows.writerow([*columns, *found])
            texts = [[one.decode() if isinstance(one, bytes) else one for one in values] for values in found.values()]
            rows.writerows(zip(*columns.values(), *texts, strict=True))


def main() -> None:
    """Reads the command line, and scores the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="train.workdir of the job")
    parser.add_argument("--file", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a CSV")
    parser.add_argument("--delimiter", default=",")
    parser.add_argument("--no-quotes", action="store_true", help="a quote is a character of the text")
    parser.add_argument("--names", nargs="+", default=[], help="of the columns")
    args = parser.parse_args()
    if args.file.suffix == ".parquet":
        batches = read_parquet(args.file)
    else:
        batches = read_csv(args.file, args.delimiter, not args.no_quotes, args.names)
    try:
        write(args.out, score(args.model, batches))
    except (ValueError, OSError) as error:  # no such file or column, or it is written in another way
        print(f"{args.file}: {str(error).splitlines()[0]}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
