"""Tables with mistakes in the job, and with broken rows and files: one line, or a reject."""

import gzip

import numpy as np
import pandas as pd
import pytest

from tests.tables import Lake, make_table

PLAIN = {"row": "pass", "amount": "numeric", "kind": "categorical"}


@pytest.fixture
def lake(tmp_path):
    found = Lake(tmp_path)
    found.job["features"] = dict(PLAIN)
    found.job["split"] = {"by": "key", "train": 0.6, "eval": 0.2, "test": 0.2}
    return found


def told(lake, capsys, *overrides, code=2):
    assert lake.preprocess(*overrides) == code
    error = capsys.readouterr().err
    assert "Traceback" not in error
    return error.replace("large_string", "string").splitlines()[-1]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("features={amont: numeric}", "features: no column matches 'amont'; did you mean 'amount'?"),
        ("features={kind: numeric}", "features: column 'kind' is string, a number is needed"),
        ("features={row: date}", "features: column 'row' holds text such as '0-0', which is not a known format"),
        ("features={count: date}", "features: column 'count' is int64, times or dates are needed"),
        ("features={a: {type: numeric, column: b}}", "features.a.column: 'b' is not a column"),
        ("features={x: {type: cross, of: [kind, citi], hash: 9}}", "features.x.of: 'citi' is not a column"),
        ("features={amount: numeric, b: {type: categorical, column: amount}}", "column 'amount' is read as number by"),
        ("features={'a b': {type: numeric, column: count}, a-b: {type: numeric, column: amount}}",
         "features: count and amount would both be called 'a_b'"),
        ("features={label: {type: pass, column: row}}", "two fields would be called 'label'"),
        ("features={amount: {type: numeric, scal: log}}", "features.amount.scal: unknown key; did you mean 'scale'?"),
        ("features={amount: number}", "features.amount: type 'number' is not allowed; did you mean 'numeric'?"),
        ("features={amount: {type: bucket}}", "features.amount: give either 'buckets: 10' or 'edges: [0, 10, 100]'"),
        ("features={amount: {type: bucket, edges: [2, 1]}}", "edges: [2.0, 1.0] do not rise"),
        ("features={kind: {type: categorical, hash: 9, min_count: 2}}", "min_count does not go with hash"),
        ("features={}", "features: is missing"),
        ("source.key=custom", "source.key: 'custom' is not a column; did you mean 'customer'?"),
        ("source.key=null", "split.by: key needs source.key"),
        ("split={by: time, eval_from: soon}", "split.eval_from: 'soon' is not a time"),
        ("split={by: time, train: 0.5, eval: 0.5, test: 0}", "split.by: time of a table needs eval_from or test_from"),
        ("split={by: asset}", "split.by: asset does not go with source.kind: table (allowed: row, key, time, column)"),
        ("split={by: time, train_from: 2024-01-01}", "train_from and gap go with eval_from or test_from"),
        ("label={column: frau}", "label.column: 'frau' is not a column of the files; did you mean 'fraud'?"),
        ("label={column: kind}", "label.column: 'kind' is string; numbers are needed, or classes: auto"),
        ("label={column: fraud, at: any}", "label: at: any is for series"),
        ("label={derive: remaining_life}", "label: derive: remaining_life is for series"),
        ("windows={length: 3}", "windows: does not go with source.kind: table"),
    ],
)  # fmt: skip
def test_mistakes_in_the_job(lake, capsys, override, message):
    lake.write("a.parquet", make_table(50))
    assert message in told(lake, capsys, override)


def test_broken_rows_of_a_csv_are_set_aside_with_their_rows(lake, capsys):
    table = make_table(300).astype({"amount": object, "fraud": object})
    lake.write("a.csv", table)
    lines = (lake.files / "a.csv").read_text().splitlines()
    assert lines[0].startswith("row,amount,count")
    cells = lines[8].split(",")
    lines[8] = ",".join([cells[0], "12,5x", *cells[2:]])
    lines[3] = lines[3] + ",more,and more"
    cells = lines[20].split(",")
    lines[20] = ",".join([cells[0], "many", *cells[2:]])
    cells = lines[30].split(",")
    lines[30] = ",".join([*cells[:-1], "2"])
    (lake.files / "a.csv").write_text("\n".join(lines) + "\n")
    assert lake.preprocess("limits.max_rejected_fraction=0.02") == 0
    found = {reject["place"]: reject["reason"] for reject in lake.rejects()}
    assert set(found) == {"line 4", "line 9", "line 21, column amount", "row 29"}
    assert found["line 4"].startswith("expected 9 columns, got 11")
    assert found["line 9"].startswith("expected 9 columns, got 10")
    assert (
        found["line 21, column amount"]
        == "'many' is not a number; source.csv.null_words names words for missing values"
    )
    assert found["row 29"] == "fraud is '2', which is not in label.classes (0, 1)"
    assert all(reject["file"].endswith("a.csv") for reject in lake.rejects())
    assert lake.manifest["counts"]["rejected_rows"] == 4
    assert lake.manifest["counts"]["rejected_assets"] == 0
    rows = {row for split in ("train", "eval", "test") for row in lake.rows(split)}
    assert rows == set(table["row"]) - {"0-2", "0-7", "0-19", "0-29"}
    assert "1.3% of the rows were rejected, limits.max_rejected_fraction is 1.0%" in told(lake, capsys, code=1)


def test_times_with_and_without_a_zone_do_not_mix(lake):
    table = make_table(100)
    texts = table["when"].dt.strftime("%d/%m/%Y %H:%M").to_numpy(object)
    texts[:80] += "Z"
    lake.write("a.csv", table.assign(when=texts))
    lake.job["features"]["when"] = {"type": "date", "parts": ["weekday"]}
    assert lake.preprocess("limits.max_rejected_fraction=0.5") == 0
    found = {reject["place"]: reject["reason"] for reject in lake.rejects()}
    assert found == {
        f"row {row}": f"when: {texts[row]!r} has no zone, other times of the files have one" for row in range(80, 100)
    }


def test_broken_files_are_set_aside_and_the_job_goes_on(lake):
    for number in range(6):
        lake.write(f"{number}.parquet", make_table(60, number))
    lake.write("text.parquet", make_table(60, 9).astype({"amount": str}))
    lake.write("less.parquet", make_table(60, 10).drop(columns="kind"))
    (lake.files / "cut.parquet").write_bytes((lake.files / "0.parquet").read_bytes()[:-50])
    assert lake.preprocess("limits.max_rejected_fraction=0.5") == 0
    found = {reject["file"].rpartition("/")[2]: (reject["place"], reject["reason"]) for reject in lake.rejects()}
    assert found.keys() == {"text.parquet", "less.parquet", "cut.parquet"}
    assert found["text.parquet"] == ("column amount", "is large_string, a number is needed")
    assert found["less.parquet"][0] == "column kind"
    assert found["less.parquet"][1].startswith("is missing; the file has row, amount")
    rows = [row for split in ("train", "eval", "test") for row in lake.rows(split)]
    assert sorted(rows) == sorted(row for number in range(6) for row in make_table(60, number)["row"])


def test_rows_without_a_label_or_in_no_split_are_counted(lake):
    table = make_table(300)
    table["fraud"] = table["fraud"].astype("Int64")
    table.loc[table.index[:9], "fraud"] = pd.NA
    lake.write("a.parquet", table)
    cuts = "split={by: time, train_from: 2024-02-29, eval_from: 2024-03-02, test_from: 2024-03-02T12:00:00, gap: 12h}"
    assert lake.preprocess(cuts) == 0
    train, evaluate, test = (pd.Timestamp(one) for one in ("2024-02-29", "2024-03-02", "2024-03-02T12:00"))
    there = table.iloc[9:]
    expected = {
        "train": there[(there.when >= train) & (there.when < evaluate - pd.Timedelta("12h"))],
        "eval": there[(there.when >= evaluate) & (there.when < test)],
        "test": there[there.when >= test],
    }
    for name, rows in expected.items():
        assert set(lake.rows(name)) == set(rows["row"])
        assert len(rows)
    used = sum(map(len, expected.values()))
    notes = "\n".join(lake.manifest["notes"])
    unlabelled = table.iloc[:9]
    usable = ((unlabelled.when >= train) & (unlabelled.when < evaluate - pd.Timedelta("12h"))) | (
        unlabelled.when >= evaluate
    )
    assert f"rows without a label, left out: {usable.sum()} in 1 asset" in notes
    assert f"rows in no split, left out: {300 - used - usable.sum()} in 1 asset" in notes


@pytest.mark.slow
def test_required_features_and_keys(lake):
    table = make_table(200)
    table["customer"] = table["customer"].astype("Int64")
    table.loc[table.index[5], "customer"] = pd.NA
    lake.write("a.parquet", table)
    assert lake.preprocess("features.kind={type: categorical, required: true}", "limits.max_rejected_fraction=0.5") == 0
    found = {reject["place"]: reject["reason"] for reject in lake.rejects()}
    missing = {f"row {place}": "kind is missing" for place in np.flatnonzero(table["kind"].isna())}
    assert found == missing | {"row 5": missing.get("row 5", "customer is missing")}


@pytest.mark.slow
def test_a_label_that_cannot_be_learned(lake, capsys):
    table = make_table(300)
    table["fraud"] = [f"class {number % 2}" for number in range(300)]
    cut = "split={by: time, eval_from: 2024-03-02, test_from: 2024-03-02T12:00:00}"
    lake.job["label"] = {"column": "fraud", "classes": "auto"}
    late = table.index[table.when >= "2024-03-02T12:00:00"][0]
    table.loc[late, "fraud"] = "new"
    lake.write("a.parquet", table)
    line = told(lake, capsys, cut, code=1)
    assert "label.column: 'fraud' is 'new' in 1 rows to evaluate or test and in no training row" in line
    assert lake.preprocess(cut, "label.classes=['class 0', 'class 1']") == 0
    assert lake.rejects()[0]["reason"] == "fraud is 'new', which is not in label.classes (class 0, class 1)"
    line = told(lake, capsys, cut, "label.classes=['class 0', 'class 1', 'new', 'never']", code=1)
    assert "has values never seen in training: class 'new'" in line


@pytest.mark.slow
def test_a_vocabulary_that_is_too_large(lake, capsys, monkeypatch):
    from beamfeed.transforms.sources.table import statistics

    monkeypatch.setattr(statistics, "MOST_TERMS", 100)
    lake.write("a.parquet", make_table(300))
    line = told(lake, capsys, "features.row=categorical", code=1)
    assert "features.row: 'row' has more than 100 different values in training rows" in line
    assert "give it 'hash: 100000'" in line
    assert (
        lake.preprocess("features.row={type: categorical, hash: 50}", "features.number={type: pass, column: row}") == 0
    )


@pytest.mark.slow
def test_files_of_all_formats_go_together(lake):
    lake.write("a.parquet", make_table(40, 0))
    lake.write("b.csv", make_table(40, 1))
    lake.write("c.tsv", make_table(40, 2), sep="\t")
    make_table(40, 3).to_json(lake.files / "d.jsonl", orient="records", lines=True, date_format="iso")
    (lake.files / "e.csv.gz").write_bytes(gzip.compress(make_table(40, 4).to_csv(index=False).encode()))
    make_table(40, 5).to_feather(lake.files / "f.feather")
    assert lake.preprocess() == 0
    rows = sorted(row for split in ("train", "eval", "test") for row in lake.rows(split))
    assert rows == sorted(f"{seed}-{number}" for seed in range(6) for number in range(40))
    assert lake.rejects() == []


def test_columns_of_the_path(lake):
    for seed, country in enumerate(["__HIVE_DEFAULT_PARTITION__", "DE", "FR", "C%C3%B4te d%27Ivoire"]):
        lake.write(f"country={country}/a.parquet", make_table(40, seed))
    lake.job["features"] = {"row": "pass", "country": "categorical"}
    assert lake.preprocess("split={by: row, train: 0.7, eval: 0.2, test: 0.1}") == 0
    codes = {}
    for split in ("train", "eval", "test"):
        for row, values in lake.rows(split).items():
            codes.setdefault(row.partition("-")[0], set()).add(int(values["categories"][0]))
    assert codes["0"] == {0}
    assert all(len(found) == 1 for found in codes.values())
    assert len(set.union(*codes.values())) == len(codes)
