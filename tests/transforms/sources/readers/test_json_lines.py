"""JSON lines: what a job does not ask for does not matter, and no value becomes another one."""

import json

import numpy as np
import pytest
from fleets import Fleet
from series import read_file, schema_of

from beamfeed.transforms.rejects import BadInput


def lines(rows: list[dict]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


GOOD = [{"t": i, "x0": i + 0.5} for i in range(20)]


@pytest.mark.parametrize(
    "text",
    [
        lines([{**row, "note": 5 if i % 2 else "five"} for i, row in enumerate(GOOD)]),
        lines([{**row, "note": {"a": [1]} if i % 2 else None} for i, row in enumerate(GOOD)]),
        lines(GOOD).replace("}\n", ', "n": 1, "n": "two"}\n'),
    ],
    ids=["of two types", "objects", "twice"],
)
def test_keys_that_nobody_asks_for_do_not_matter(tmp_path, text):
    (tmp_path / "a.jsonl").write_text(lines(GOOD))
    schema = schema_of(tmp_path / "a.jsonl", "t", features=["x0"])
    (tmp_path / "b.jsonl").write_text(text)
    values = read_file(tmp_path / "b.jsonl", "t", schema).values
    np.testing.assert_array_equal(values[:, 0], np.arange(20) + 0.5)


def test_half_a_character_that_nobody_asks_for_does_not_matter(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines([{**row, "note": "\ud800", "\udfff": 1} for row in GOOD]))
    assert len(read_file(tmp_path / "a.jsonl", "t", features=["x0"]).ticks) == 20


@pytest.mark.parametrize(("name", "escaped"), [("x1", True), ("température", True), ("température", False)])
def test_a_key_that_comes_late_is_there(tmp_path, name, escaped):
    (tmp_path / "a.jsonl").write_text(lines([{**row, name: 1.5} for row in GOOD]))
    schema = schema_of(tmp_path / "a.jsonl", "t", features=["x0", name])
    late = [{"t": i, "x0": 1.0, "pad": "p" * 90, "in": {name: 3}} for i in range(15_000)]
    (tmp_path / "b.jsonl").write_text(lines(late))
    with pytest.raises(BadInput, match=f"column {name}: is missing"):
        read_file(tmp_path / "b.jsonl", "t", schema)
    rows = [*late, {"t": 15_000, "x0": 2.0, name: 7.0}]
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row, ensure_ascii=escaped) + "\n" for row in rows))
    values = read_file(tmp_path / "b.jsonl", "t", schema).values
    assert np.isnan(values[:-1, 1]).all()
    assert values[-1].tolist() == [2, 7]


def test_numbers_are_no_bools(tmp_path):
    (tmp_path / "a.jsonl").write_text(lines([{"t": i, "x0": i % 2 == 0} for i in range(6)]))
    schema = schema_of(tmp_path / "a.jsonl", "t", features=["x0"])
    (tmp_path / "b.jsonl").write_text(lines([{"t": i, "x0": [1, 0, None][i % 3]} for i in range(6)]))
    values = read_file(tmp_path / "b.jsonl", "t", schema).values
    np.testing.assert_array_equal(values[:, 0], [1, 0, np.nan, 1, 0, np.nan])
    (tmp_path / "b.jsonl").write_text(lines([{"t": i, "x0": i} for i in range(6)]))
    with pytest.raises(BadInput, match="line 3, column x0: '2' is neither true nor false"):
        read_file(tmp_path / "b.jsonl", "t", schema)


def test_names_of_classes_in_quotes_stay_as_they_are_and_a_file_of_no_bytes_holds_no_rows(fleet: Fleet):
    rows = [{"t": i, "x0": str(i / 2), "state": ["01", "1", "2"][i // 8 % 3]} for i in range(96)]
    for k in range(3):
        (fleet.files / f"m{k}").mkdir()
        (fleet.files / f"m{k}" / "1.jsonl").write_text(lines(rows))
        (fleet.files / f"m{k}" / "2.jsonl").write_text("")
    fleet.job["source"] |= {"features": ["x0"], "asset": {"from": "path", "pattern": r"(?P<asset>m\d)/"}}
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    fleet.job |= {"label": {"column": "state", "classes": "auto"}}
    fleet.job["train"]["task"] = {"name": "classify"}
    assert fleet.preprocess() == 0
    (label,) = [field for field in fleet.manifest.fields if field.role == "target"]
    assert label.classes == ["01", "1", "2"]
    assert fleet.rejects() == []
    assert set(fleet.windows("train")) == {"m0", "m1", "m2"}
