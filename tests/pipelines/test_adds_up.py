"""What `beamfeed check` and the manifest say of odd tables, and of series, is what counting their rows gives."""

import csv
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from fleets import make_table

from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.manifest import read_manifest
from beamfeed.pipelines import preprocess
from beamfeed.pipelines.job_check import check_job

CLASSES = ["ok", "worn", "kaputt"]
PLACES = {"train": ["train", "früh"], "eval": ["eval"], "test": ["test"]}
PARTS = ["train", "früh", "eval", "test", "später"]
WORDS = ["", "NA", "nan", "null", "N/A"]  # for nothing, in a text
BAD_NUMBER, BAD_CLASS = "abc", "unheard of"
NAMES = ["Kühl, Haus", 'the "big" one', "two\nlines", "温度", " padded ", "a;b\tc", "plain", "rare"]
FEATURES = {
    "num": "numeric",
    "flag": "numeric",
    "day": "date",
    "name": "categorical",
    "code": {"type": "categorical", "hash": 16},
    "level": {"type": "bucket", "edges": [0, 10]},
}


def make_rows(seed: int) -> list[dict[str, str | None]]:
    """Rows as texts; None is nothing."""
    rng = np.random.default_rng(seed)
    rows = []
    empty = rng.random(len(FEATURES)) * rng.integers(0, 2)  # of some tables nothing is missing
    for number in range(int(rng.integers(60, 300))):
        values = {
            "num": f"{rng.normal():.4g}",
            "flag": str(rng.choice(["true", "false"])),
            "day": f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}",
            "name": NAMES[min(int(rng.exponential(2)), len(NAMES) - 1)],
            "code": f"{rng.integers(0, 40):03d}",
            "level": str(rng.integers(-5, 30)),
        }
        gone = dict(zip(values, rng.random(len(values)) < empty, strict=True))
        row = {key: None if gone[key] else value for key, value in values.items()}
        row["label"] = CLASSES[number % 3] if rng.random() < 0.95 else None
        row["part"] = rng.choice([*PARTS, None], p=[0.5, 0.1, 0.1, 0.1, 0.1, 0.1])
        row["id"] = str(number)
        if seed % 3 == 0 and rng.random() < 0.02:
            row["label"] = BAD_CLASS
        rows.append(row)
    return rows + [dict(row) for row in rows[: len(rows) // 10]]  # duplicates


def write_rows(rows: list[dict[str, str | None]], path: Path, seed: int) -> None:
    types = {"num": float, "level": int, "flag": lambda text: text == "true"}
    if path.suffix != ".csv":
        typed = [
            {key: None if value is None else types.get(key, str)(value) for key, value in row.items()} for row in rows
        ]
        if path.suffix == ".parquet":
            pq.write_table(pa.Table.from_pylist(typed), path, row_group_size=50)
        else:
            path.write_text("".join(json.dumps(row, ensure_ascii=bool(seed % 2)) + "\n" for row in typed))
        return
    with path.open("w", newline="", encoding="utf-8-sig" if seed % 2 else "utf-8") as file:
        quoting = csv.QUOTE_ALL if seed % 5 == 0 else csv.QUOTE_MINIMAL
        writer = csv.writer(file, delimiter=",;\t"[seed % 3], quoting=quoting)
        writer.writerow(rows[0])
        word = WORDS[seed % len(WORDS)]
        for number, row in enumerate(rows):
            values = dict(row)
            if seed % 4 == 1 and number % 41 == 7:
                row["num"] = values["num"] = BAD_NUMBER
            writer.writerow([word if value is None else value for value in values.values()])


@dataclass
class Told:
    """What counting the rows gives, without any code of the project."""

    rows: int
    rejected: int
    unused: int
    unlabelled: int
    splits: dict[str, int]
    missing: dict[str, int]
    classes: dict[str, list[int]]


def count(rows: list[dict[str, str | None]]) -> Told:
    place = {value: name for name, values in PLACES.items() for value in values}
    right = [row for row in rows if row["num"] != BAD_NUMBER and row["label"] != BAD_CLASS]
    used = [row for row in right if row["part"] in place]
    labelled = [row for row in used if row["label"] is not None]
    by_split = {name: [row for row in labelled if place[row["part"]] == name] for name in SPLITS}
    seen = {name: Counter(row["label"] for row in some) for name, some in by_split.items()}
    return Told(
        len(rows),
        len(rows) - len(right),
        len(right) - len(used),
        len(used) - len(labelled),
        {name: len(some) for name, some in by_split.items()},
        {key: sum(row[key] is None for row in by_split["train"]) for key in FEATURES},
        {name: [counts[one] for one in CLASSES] for name, counts in seen.items()},
    )


def write_job(folder: Path, seed: int) -> tuple[str, Told]:
    """A job on one to three files of odd rows."""
    (folder / "files").mkdir()
    every = []
    for number in range(1 + seed % 3):
        rows = make_rows(100 * seed + number)
        write_rows(rows, folder / "files" / f"t{number}.{('csv', 'csv', 'parquet', 'jsonl')[seed % 4]}", seed)
        every += rows
    job = {
        "name": "odd",
        "source": {"kind": "table", "files": str(folder / "files")},
        "features": FEATURES,
        "label": {"column": "label", "classes": CLASSES},
        "split": {"by": "column", "column": "part", **PLACES},
        "limits": {"max_rejected_fraction": 0.5},
        "output": {"path": str(folder / "data")},
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job, allow_unicode=True))
    return str(folder / "job.yaml"), count(every)


def counted(notes: list[str], what: str) -> int:
    """The number in the note of some words."""
    found = [re.search(r": ([\d,]+) in \d+ asset", note)[1] for note in notes if note.startswith(what)]
    return sum(int(number.replace(",", "")) for number in found)


@pytest.mark.parametrize("seed", range(24))
def test_what_is_said_of_an_odd_table_is_what_is_in_it(tmp_path, seed):
    job, told = write_job(tmp_path, seed)
    checked = check_job(load_job(job))
    assert not checked.problems
    assert len(checked.rehearsal.rejects) == told.rejected, checked.rehearsal.rejects[:3]
    manifest, notes = checked.manifest, checked.rehearsal.notes
    assert (manifest.counts.rows_read, manifest.counts.rejected_rows) == (told.rows, told.rejected)
    assert {name: split.windows for name, split in manifest.splits.items()} == told.splits
    assert {one.name: one.missing for one in checked.rehearsal.overview.missing} == told.missing
    assert {one.values for one in checked.rehearsal.overview.missing} == {told.splits["train"]}
    assert {name: split.targets["label"].counts for name, split in manifest.splits.items()} == told.classes
    assert counted(notes, "rows in no split, left out") == told.unused
    assert counted(notes, "rows without a label, left out") == told.unlabelled
    rows = checked.rows
    assert (rows.rows, rows.splits, rows.set_aside) == (told.rows, told.splits, told.rejected)
    assert rows.left_out == told.unused + told.unlabelled
    assert len(checked.rehearsal.rejects) == told.rejected
    if seed < 2:
        run_as_foretold(job, checked, told)


def run_as_foretold(job: str, checked, message: Told) -> None:
    """The run publishes the same counts, and says the same of missing values."""
    assert preprocess.main(["--job", job]) == 0
    manifest = read_manifest(checked.job.output.path)
    assert manifest.counts == checked.manifest.counts
    assert manifest.notes == checked.manifest.notes
    for name, split in manifest.splits.items():
        assert (split.windows, split.targets) == (message.splits[name], checked.manifest.splits[name].targets)
    stats = json.loads(Path(manifest.data_layout(checked.job.output.path).stats).read_text())["features"]
    assert {name: one["missing"] for name, one in stats.items()} == message.missing
    assert {one["count"] + one["missing"] for one in stats.values()} == {message.splits["train"]}


def test_rows_of_series_that_no_split_takes_are_told(fleet):
    fleet.write("long.parquet", make_table(100, x1=np.where(np.arange(100) < 7, np.nan, 1.0)))
    fleet.write("twice.parquet", make_table(100, t=np.repeat(np.arange(50), 2)))
    fleet.write("short.parquet", make_table(5))
    fleet.job |= {"split": {"by": "rows", "train": 30, "eval": 12, "test": 12}, "train": None}
    checked = check_job(load_job(str(fleet.write_job())))
    rows = checked.rows
    assert (rows.rows, rows.splits, rows.set_aside) == (205, {"train": 60, "eval": 24, "test": 20}, 5)
    assert rows.left_out == 46 + 50  # behind the last split, and of times that come twice
    assert "rows in no split, left out: 46 in 1 asset (long)" in checked.rehearsal.notes
    assert counted(checked.rehearsal.notes, "rows of a time that another row has") == 50
    assert {one.name: one.missing for one in checked.rehearsal.overview.missing}["x1"] == 7
    assert fleet.preprocess() == 0
    assert fleet.manifest.notes == checked.manifest.notes


@pytest.mark.parametrize(("by", "left_out"), [("time", 0), ("rows", 3 * 13)])
def test_a_row_that_is_set_aside_is_told_once(tmp_path, by, left_out):
    """Not also as one in no split."""
    for name, bad in (("a", 52), ("b", None), ("c", None)):
        rows = (f"{i},{'oops' if i == bad else i + 0.5}\n" for i in range(100))
        (tmp_path / f"{name}.csv").write_text("t,x\n" + "".join(rows))
    parts = {"train": 0.6, "eval": 0.2, "test": 0.2} if by == "time" else {"train": 56, "eval": 16, "test": 15}
    job = {
        "name": "once",
        "source": {
            "kind": "timeseries", "files": str(tmp_path / "*.csv"), "asset": {"from": "path"},
            "time": {"column": "t"}, "features": ["x"],
        },
        "windows": {"length": 5, "stride": 5},
        "split": {"by": by, **parts},
        "output": {"path": str(tmp_path / "data")},
    }  # fmt: skip
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    checked = check_job(load_job(str(path)))
    rows, notes = checked.rows, checked.rehearsal.notes
    assert rows.set_aside == 1
    assert counted(notes, "rows in no split, left out") == rows.left_out
    assert sum(rows.splits.values()) + rows.set_aside + rows.left_out == rows.rows == 300
    assert rows.left_out == left_out
    assert preprocess.main(["--job", str(path)]) == 0
    assert list(read_manifest(job["output"]["path"]).notes) == list(notes)
