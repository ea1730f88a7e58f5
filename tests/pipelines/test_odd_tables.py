"""Tables as people have them: keys and times written in several ways, words for nothing, values that are no text."""

import datetime
import os
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tables import Lake, make_table

BY_ROW = {"by": "row", "train": 0.6, "eval": 0.2, "test": 0.2}
SPLITS = ("train", "eval", "test")


@pytest.fixture
def lake(tmp_path):
    found = Lake(tmp_path)
    found.job["features"] = {"row": "pass", "count": "numeric"}
    found.job["split"] = dict(BY_ROW)
    return found


def all_rows(lake):
    return {row: values for split in SPLITS for row, values in lake.rows(split).items()}


def write(lake, name, **columns):
    """A Parquet file of these columns, beside those that the job names."""
    rows = len(next(iter(columns.values())))
    numbers = list(range(rows))
    table = {"row": [f"{name}-{at}" for at in numbers], "count": numbers, "fraud": [0, 1] * (rows // 2)}
    table |= {"customer": numbers, "when": [datetime.datetime(2024, 1, 1)] * rows}
    path = lake.files / name
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({**table, **columns}), path)


@pytest.mark.slow
def test_a_key_is_one_however_it_is_written(lake):
    for seed, key in enumerate(
        [lambda keys: keys, lambda keys: keys.astype(float), lambda keys: keys.astype(str) + " "]
    ):
        table = make_table(200, seed)
        lake.write(f"{seed}.csv", table.assign(customer=key(table["customer"])))
    lake.write("3.parquet", make_table(200, 3))
    lake.write("4.parquet", make_table(200, 4).astype({"customer": float}))
    assert lake.preprocess("split.by=key") == 0
    customers = pd.concat([make_table(200, seed) for seed in range(5)]).set_index("row")["customer"]
    found = [set(customers.loc[list(lake.rows(split))]) for split in SPLITS]
    assert sum(map(len, found)) == len(set.union(*found)) == customers.nunique()


def test_words_for_nothing_are_no_labels_and_no_keys(lake):
    table = make_table(300)
    table["fraud"] = ["yes", "no", "NA", "none"] * 75
    table["customer"] = [str(one) if one % 7 else "null" for one in table["customer"]]
    lake.write("a.csv", table)
    lake.job["label"] = {"column": "fraud", "classes": "auto"}
    assert lake.preprocess("split.by=key", "limits.max_rejected_fraction=0.5") == 0
    (label,) = [field for field in lake.manifest["fields"] if field["name"] == "label"]
    assert label["classes"] == ["no", "none", "yes"]
    keyless = (table["customer"] == "null").to_numpy()
    assert {reject["reason"] for reject in lake.rejects()} == {"customer is missing"}
    assert len(lake.rejects()) == keyless.sum()
    assert (
        f"rows without a label, left out: {((table['fraud'] == 'NA') & ~keyless).sum()} in" in lake.manifest["notes"][0]
    )


@pytest.mark.slow
def test_an_infinite_label_is_no_label(lake):
    write(lake, "a.parquet", z=[float("inf") if at % 7 == 0 else float(at) for at in range(60)])
    lake.job["label"] = {"column": "z"}
    assert lake.preprocess() == 0
    labels = np.array([values["label"] for values in all_rows(lake).values()])
    assert np.isfinite(labels).all()
    assert len(labels) == 60 - 9


def test_late_labels_and_a_bad_row_are_no_broken_file(lake):
    for seed in range(3):
        lake.write(f"{seed}.csv", make_table(60, seed))
    late = make_table(60, 3).astype({"fraud": object, "count": object})
    late["fraud"] = None
    late.loc[5, "count"] = "oops"
    lake.write("3.csv", late)
    assert lake.preprocess() == 0
    assert [reject["place"] for reject in lake.rejects()] == ["line 7, column count"]
    assert lake.manifest["counts"]["rejected_assets"] == 0


def test_what_is_no_text_is_set_aside_by_itself(lake):
    values = [b"fine"] * 59 + [b"\xff\xfe"]
    write(lake, "a.parquet", kind=pa.array(values, pa.binary()))
    broken = pa.Array.from_buffers(pa.string(), 60, pa.array(values, pa.binary()).buffers())
    write(lake, "b.parquet", kind=broken)
    write(lake, "c.parquet", kind=pa.array(np.arange(60), pa.float16()))
    lake.job["features"]["kind"] = "categorical"
    assert lake.preprocess("limits.max_rejected_fraction=0.1") == 0
    found = {(reject["file"][-9:], reject["place"], reject["reason"]) for reject in lake.rejects()}
    assert found == {(f"{name}.parquet"[-9:], "row 59", "kind is not UTF-8") for name in "ab"}
    assert len(all_rows(lake)) == 178


def test_a_row_without_a_time_is_told_also_where_rows_before_a_time_are_not_used(lake):
    table = make_table(200)
    table.loc[[3, 9], "when"] = pd.NaT
    lake.write("a.parquet", table)
    cuts = "split={by: time, train_from: 2024-02-29, test_from: 2024-03-02}"
    assert lake.preprocess(cuts, "limits.max_rejected_fraction=0.1") == 0
    assert {reject["place"]: reject["reason"] for reject in lake.rejects()} == dict.fromkeys(
        ["row 3", "row 9"], "when is missing"
    )
    used = sum(len(lake.rows(split)) for split in SPLITS)
    assert f"rows in no split, left out: {200 - 2 - used} in" in lake.manifest["notes"][0]


@pytest.mark.slow
def test_true_is_true_however_it_is_written(lake):
    table = make_table(200)
    lake.write("a.parquet", table.assign(flag=table["count"] > 4))
    lake.write("b.csv", make_table(200, 1).assign(flag=make_table(200, 1)["count"] > 4))
    lake.job["features"]["flag"] = "categorical"
    assert lake.preprocess() == 0
    (field,) = [one for one in lake.manifest["fields"] if one["name"] == "categories"]
    assert field["sizes"][0] == 2 + 2
    assert lake.preprocess("features.flag=numeric") == 0
    assert lake.rejects() == []


@pytest.mark.slow
def test_the_last_day_of_all(lake):
    days = [datetime.date(2024, 2, 3)] * 30 + [datetime.date(9999, 12, 31)] * 29 + [None]
    write(lake, "a.parquet", until=pa.array(days, pa.date32()))
    lake.job["features"]["until"] = {"type": "date", "parts": ["month", "day"]}
    assert lake.preprocess() == 0
    found = {tuple(values["categories"]) for values in all_rows(lake).values()}
    assert found == {(2, 3), (12, 31), (0, 0)}


@pytest.mark.slow
def test_values_with_nul_and_line_breaks(lake):
    values = ["a", "\x00", "b\x00c", "d\ne"] * 15
    write(lake, "a.parquet", kind=values, note=values)
    for text in ("{type: text, min_count: 1}", "{type: text, lower: false, split: characters, min_count: 1}"):
        assert lake.preprocess("features.kind=categorical", f"features.note={text}") == 0
        numbers = {}
        for row, found in all_rows(lake).items():
            numbers.setdefault(values[int(row.rpartition("-")[2])], set()).add(int(found["categories"][0]))
        assert numbers["\x00"] == numbers["d\ne"] == {1}
        assert len({*numbers["a"], *numbers["b\x00c"]}) == 2


@pytest.mark.slow
def test_empty_files_come_first(lake):
    header = make_table(0)
    lake.write("0.csv", header)
    lake.write("1.csv", header)
    lake.write("2.csv", make_table(100))
    lake.job["features"]["when"] = "date"
    assert lake.preprocess() == 0
    assert len(all_rows(lake)) == 100


@pytest.mark.slow
def test_a_column_for_two_ends(lake):
    """It is read as numbers for the feature, and as text for the split."""
    table = make_table(300)
    table["year"] = [str(2020 + number % 5) for number in range(300)]
    table.loc[7, "year"] = None
    lake.write("a.csv", table)
    lake.job["features"]["year"] = "numeric"
    years = "split={by: column, column: year, train: [2020, 2021, 2022], eval: [2023], test: [2024]}"
    assert lake.preprocess(years) == 0
    assert len(lake.rows("train")) == 180 - 1
    assert len(lake.rows("test")) == 60


@pytest.mark.slow
def test_long_texts_are_cut_into_parts(lake, monkeypatch):
    from beamfeed.transforms.sources.table import source, statistics

    write(lake, "a.parquet", note=[f"word{at} again " * 20 for at in range(200)])
    lake.job["features"]["note"] = {"type": "text", "length": 64, "min_count": 1}
    assert lake.preprocess() == 0
    before = all_rows(lake)
    monkeypatch.setattr(statistics, "WORD_BYTES", 1000)
    monkeypatch.setattr(source, "PART_BYTES", 1000)
    assert lake.preprocess("output.rows_per_record=7") == 0
    after = all_rows(lake)
    assert before.keys() == after.keys()
    assert all((after[row]["note"] == values["note"]).all() for row, values in before.items())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["split={by: time, eval_from: 2024-03-02, test_from: 2024-03-01}"], "test_from: 2024-03-01 is not after"),
        (["split={by: time, train_from: 2025-01-01, eval_from: 2024-03-02}"], "eval_from: 2024-03-02 is not after"),
        (["label=[{name: a, column: fraud, classes: [0, 1]}, {name: b, column: fraud}]"], "two labels are of the"),
        (["features.fraud=numeric"], "features: 'fraud' reads the label's column 'fraud'"),
        (["features.x={type: cross, of: [kind, fraud], hash: 9}"], "features: 'x' reads the label's column 'fraud'"),
        (["features={when: {type: date, parts: [hour]}, when_hour: {type: categorical, column: kind}}"],
         "features: two columns of 'categories' would be called 'when_hour'"),
        (["features={count: {type: numeric, indicator: true}, count_missing: {type: numeric, column: amount}}"],
         "features: two columns of 'numbers' would be called 'count_missing'"),
    ],
)  # fmt: skip
def test_mistakes_are_told_before_anything_is_read(lake, capsys, overrides, message):
    lake.write("a.parquet", make_table(60))
    assert lake.preprocess(*overrides) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_unlisted_classes_outside_training_are_told_however_many(lake, capsys):
    table = make_table(3000).sort_values("when")
    table["fraud"] = [f"class {at % 4}" if at < 900 else f"late {at}" for at in range(3000)]
    lake.write("a.parquet", table)
    lake.job["label"] = {"column": "fraud", "classes": "auto"}
    cut = str(table["when"].iloc[900].date() + datetime.timedelta(1))
    assert lake.preprocess(f"split={{by: time, test_from: {cut}}}") == 1
    assert "label.column: 'fraud'" in capsys.readouterr().err


def dated(lake, files):
    lake.job["features"] = {"day": "date"}
    del lake.job["source"]["time"]
    for name, days in files.items():
        (lake.files / name).parent.mkdir(exist_ok=True)
        rows = [f"{day},{at % 2},{at}" for at, day in enumerate(days)]
        (lake.files / name).write_text("\n".join(["day,fraud,customer", *rows]) + "\n")


@pytest.mark.parametrize("first", ["05.06.2024", "2024-06-05", "31.01.2024"])
def test_the_order_of_dates_is_that_of_most_files_that_prove_one(lake, first):
    """A point says that the day is first, unless a number says otherwise. One of another order is set aside."""
    days = ["12.31.2024", "02.01.2024"] * 3
    dated(lake, {"a.csv": [first] * 6, "b.csv": days, "c.csv": days})
    assert lake.preprocess("limits.max_rejected_fraction=0.5") == 0
    rejected = {"05.06.2024": [], "2024-06-05": ["a.csv"], "31.01.2024": ["a.csv"]}[first]
    assert [reject["file"].rpartition("/")[2] for reject in lake.rejects()] == rejected


def test_a_single_date_the_other_way_round_is_a_typo(lake):
    dated(lake, {"a.csv": ["31/01/2024", "01/02/2024"] * 30 + ["12/13/2024"] + ["05/06/2024"] * 29})
    assert lake.preprocess("limits.max_rejected_fraction=0.1") == 0
    (reject,) = lake.rejects()
    assert reject["reason"].startswith("day: '12/13/2024' is not a time with ")
    assert "source.time" not in reject["reason"]


def test_a_damaged_file_in_the_sample_is_set_aside(lake):
    dated(lake, {"a.csv": ["31/01/2024"] * 6})
    table = pa.table({"day": ["31/01/2024"] * 6, "fraud": [0] * 6, "customer": [1] * 6})
    pq.write_table(table, lake.files / "b.parquet", compression="none", use_dictionary=False)
    damaged = bytearray((lake.files / "b.parquet").read_bytes())
    damaged[4:60] = b"\xff" * 56  # the first column; the footer is as it was
    (lake.files / "b.parquet").write_bytes(damaged)
    assert lake.preprocess("limits.max_rejected_fraction=0.6") == 0
    (reject,) = lake.rejects()
    assert reject["file"].endswith("b.parquet")


def test_a_file_with_the_month_first_among_others_is_set_aside_whole(lake):
    """Of which the rows whose day is a month too would be read wrongly. The sample has not looked at it."""
    files = {f"{number:02d}.csv": ["31/01/2024", "01/02/2024"] * 3 for number in range(60)}
    dated(lake, files | {"01.csv": ["01/31/2024", "02/01/2024"] * 3})
    assert lake.preprocess("limits.max_rejected_fraction=0.5") == 0
    (reject,) = lake.rejects()
    assert reject["file"].endswith("01.csv")
    assert "'01/31/2024'" in reject["reason"]


def test_values_of_several_lines_are_no_terms_and_a_name_that_is_no_text_is_set_aside(lake):
    table = make_table(100)
    table["place"] = ["Main St 1\nBerlin", "Paris", "Rome", None] * 25
    lake.write("a.csv", table)
    os.rename(lake.files / "a.csv", os.fsencode(lake.files) + b"/caf\xe9.csv")
    lake.write("b.csv", table)
    lake.job["features"]["place"] = "categorical"
    assert lake.preprocess("limits.max_rejected_fraction=0.5") == 0
    (reject,) = lake.rejects()
    assert reject["file"].endswith("caf\\udce9.csv")
    assert (reject["place"], reject["reason"]) == ("file", "its name is not UTF-8")
    lost = re.escape(" training values with a line break left out of the vocabulary; hash takes them")
    assert any(re.fullmatch(rf"features\.place: 1\d{lost}", note) for note in lake.manifest["notes"])


def test_a_column_may_be_called_as_a_question_is(lake):
    table = make_table(100)
    question = "Wenn Sie die Wahl hätten: " + "wären Sie für 温度 oder dagegen, " * 8 + "und warum?"
    table[question] = ["yes", "no"] * 50
    lake.write("a.csv", table)
    lake.job["features"][question] = "categorical"
    assert lake.preprocess() == 0
    (categories,) = (field for field in lake.manifest["fields"] if field["name"] == "categories")
    (name,) = categories["columns"]
    assert len(name.encode()) > 255
    assert categories["sizes"] == [4]  # yes, no, missing and unknown
