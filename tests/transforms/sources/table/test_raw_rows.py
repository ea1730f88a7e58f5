"""Rows of a file as text, and as preprocessing reads them: the description of the dataset makes one of the other."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.trainer.export.raw_text import RawText
from beamfeed.transforms.sources.table.raw_rows import raw_rows_of
from beamfeed.transforms.sources.table.resolve import resolve_schema

NOTHING = "__HIVE_DEFAULT_PARTITION__"


def schema_of(folder: Path, features: dict[str, str], pattern: str):
    job = Job.model_validate({
        "name": "t", "source": {"kind": "table", "files": str(folder / pattern)}, "features": features,
        "output": {"path": "out"},
    })  # fmt: skip
    return resolve_schema(job, sorted(storage.match(str(folder / pattern), ("",)), key=lambda file: file.path))


def read_both(schema) -> RawRows | None:
    """The rows; asserts that the graph reads their texts as preprocessing does."""
    read: dict[str, pa.Array] = {}

    def keep(rows: pa.RecordBatch) -> dict:
        read.update({name: rows.column(name) for name in schema.raw.columns})
        return {}

    rows = raw_rows_of(schema, keep)
    if rows is None:
        return None
    texts = {name: tf.constant(np.array(column.to_pylist(), object)) for name, column in rows.raw.items()}
    found, reasons = RawText(schema.raw).read(texts)
    assert set(reasons.numpy()) == {b""}
    for name, column in read.items():
        if pa.types.is_string(column.type):
            assert [value.decode() for value in found[name].numpy()] == column.fill_null("").to_pylist()
        else:
            values = found[name].numpy()
            values = np.where(np.isfinite(values), values, np.nan) if values.dtype.kind == "f" else values
            np.testing.assert_array_equal(values, column.to_numpy(zero_copy_only=False))
    return rows


def parquet(folder: Path, name: str, **columns: pa.Array) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


TEXTS = pa.array(["1.10", "2.0", "7.0", " a "] * 5)
HALVES = np.arange(20) + 0.5


def only_nulls_in_one_file(folder: Path) -> None:
    for name, column in (("a", TEXTS), ("b", pa.nulls(20)), ("c", TEXTS)):
        parquet(folder, f"{name}.parquet", c=column, x=pa.array(HALVES))


def text_as_bytes(folder: Path) -> None:
    parquet(folder, "a.parquet", c=pa.array([b"1.0", b"2.50", b"1e3", None] * 5), x=pa.array(HALVES))


def a_partition_of_nothing(folder: Path) -> None:
    for country in (NOTHING, "de", "fr"):
        parquet(folder / f"c={country}", "a.parquet", x=pa.array(HALVES))


def a_partition_of_nothing_beside_texts(folder: Path) -> None:
    for country in (NOTHING, "de"):
        (folder / f"c={country}").mkdir()
        (folder / f"c={country}" / "a.csv").write_text("x\n" + "1.5\n" * 20)


@pytest.mark.parametrize(
    ("write", "pattern"),
    [
        (only_nulls_in_one_file, "*.parquet"),
        (text_as_bytes, "*.parquet"),
        (a_partition_of_nothing, "*/*.parquet"),
        (a_partition_of_nothing_beside_texts, "*/*.csv"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_texts_are_read_as_their_rows_were(tmp_path, write: Callable[[Path], None], pattern):
    write(tmp_path)
    rows = read_both(schema_of(tmp_path, {"c": "categorical", "x": "numeric"}, pattern))
    assert rows is not None
    assert len(rows.places) == 16


def test_times_with_zones_nobody_knows_before_1970_and_after_9999(tmp_path):
    micros = pa.array([-1_500_000, -1, 0, 10**12, None, 253_402_300_800_000_000, 5])
    parquet(tmp_path, "a.parquet", when=micros.cast(pa.timestamp("us", "nowhere/city")), x=pa.array(HALVES[:7]))
    rows = read_both(schema_of(tmp_path, {"when": {"type": "date", "parts": ["minute"]}, "x": "numeric"}, "*"))
    assert rows is not None
    assert len(rows.places) == 5  # up to the one of the year 10000
    assert rows.raw["when"][0].as_py().startswith(b"1969-12-31 23:59:58.5")


def test_long_rows_with_line_ends_in_quotes_stay_in_step(tmp_path):
    long = ("<p>" + "word " * 1_400 + "\n") * 10
    lines = (f'{row}.5,k{row % 3},{row % 2},"{long}"\n' for row in range(40))
    (tmp_path / "a.csv").write_text("x,c,y,html\n" + "".join(lines))
    rows = read_both(schema_of(tmp_path, {"c": "categorical", "x": "numeric"}, "*"))
    assert rows is not None
    assert rows.raw["x"].to_pylist() == [f"{row}.5".encode() for row in range(16)]


def test_there_are_none_where_files_differ_are_gone_or_were_changed(tmp_path):
    for name, flag in (("a", [True, False]), ("b", [2, 3])):
        parquet(tmp_path / "differ", f"{name}.parquet", x=pa.array(flag))
    assert schema_of(tmp_path / "differ", {"x": "numeric"}, "*").typical is None
    (tmp_path / "a.csv").write_text("x\n" + "1.5\n" * 9)
    schema = schema_of(tmp_path, {"x": "numeric"}, "*.csv")
    assert read_both(schema) is not None
    for change in (lambda path: path.write_text("x\n" + "2.25\n" * 9), Path.unlink):
        change(tmp_path / "a.csv")
        assert read_both(schema) is None


def test_they_are_few_bytes(tmp_path):
    (tmp_path / "a.csv").write_text("x,c\n" + "".join(f'1.5,"{"y" * 300_000}"\n' for _ in range(16)))
    rows = read_both(schema_of(tmp_path, {"c": "categorical", "x": "numeric"}, "*"))
    assert rows is not None
    assert len(rows.places) == 2
