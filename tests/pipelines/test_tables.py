"""Tables through the whole pipeline, against what pandas and plain Python make of the same rows."""

import collections
import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from sampling import sample

from tests.tables import FEATURES, Lake, make_table


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Three days of rows, in folders of Hive."""
    found = Lake(tmp_path_factory.mktemp("lake"))
    for day in range(3):
        found.write(f"day={day}/part-0.parquet", make_table(300, day), row_group_size=70)
    assert found.preprocess() == 0
    found.table = pd.concat([make_table(300, day) for day in range(3)]).set_index("row")
    return found


@pytest.fixture(scope="module")
def splits(lake):
    return {name: lake.rows(name) for name in ("train", "eval", "test")}


@pytest.fixture(scope="module")
def train(lake, splits):
    return lake.table.loc[list(splits["train"])]


def column(lake, splits, field, name):
    """The values of a column of a field, by row."""
    (columns,) = [one["columns"] for one in lake.manifest["fields"] if one["name"] == field]
    at = columns.index(name)
    rows = {row: values for split in splits.values() for row, values in split.items()}
    return pd.Series({row: values[field][at] for row, values in rows.items()}).loc[lake.table.index]


def test_each_row_is_there_once_and_a_customer_in_one_split(lake, splits):
    rows = [row for split in splits.values() for row in split]
    assert sorted(rows) == sorted(lake.table.index)
    customers = [set(lake.table.loc[list(split)]["customer"]) for split in splits.values()]
    assert sum(map(len, customers)) == len(set.union(*customers))
    assert all(customers)


@pytest.mark.parametrize("split", [{"by": "row"}, {"by": "row", "stratify": True}])
def test_a_folder_that_is_moved_deals_the_same_rows(tmp_path, split):
    found = []
    for place in ("here", "far/away"):
        lake = Lake(tmp_path / place)
        for day in range(2):
            lake.write(f"day={day}/part-0.parquet", make_table(200, day), row_group_size=70)
        lake.job["features"] = {"row": FEATURES["row"], "amount": {"type": "numeric", "scale": "robust"}}
        lake.job["split"] |= split
        assert lake.preprocess() == 0
        rows = {name: lake.rows(name) for name in ("train", "eval", "test")}
        found.append(
            {(name, row): one["numbers"].tobytes() for name, some in rows.items() for row, one in some.items()}
        )
    assert found[0] == found[1]


def test_labels_are_the_files(lake, splits):
    for split in splits.values():
        for row, values in split.items():
            assert values["label"] == lake.table.loc[row]["fraud"]
    counts = {name: info["targets"]["label"]["counts"] for name, info in lake.manifest["splits"].items()}
    found = {name: [sum(one["label"] == k for one in split.values()) for k in (0, 1)] for name, split in splits.items()}
    assert counts == found


def test_numbers_are_scaled_by_training_rows(lake, splits, train):
    counts = train["count"].astype(float)
    expected = (lake.table["count"] - counts.mean()) / counts.std(ddof=0)
    np.testing.assert_allclose(column(lake, splits, "numbers", "count"), expected, atol=2e-6)
    logs, all_logs = np.log1p(train["amount"].astype(float)), np.log1p(lake.table["amount"].astype(float))
    expected = ((all_logs - logs.mean()) / logs.std(ddof=0)).fillna(0)
    np.testing.assert_allclose(column(lake, splits, "numbers", "amount"), expected, atol=2e-5)
    missing = column(lake, splits, "numbers", "amount_missing")
    assert (missing == lake.table["amount"].isna()).all()


def test_categories_are_numbered_by_frequency_in_training(lake, splits, train):
    kinds = collections.Counter(train["kind"].dropna())
    order = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
    expected = lake.table["kind"].map({kind: place + 2 for place, kind in enumerate(order)}).fillna(0)
    assert (column(lake, splits, "categories", "kind") == expected).all()
    cities = collections.Counter(train["city"])
    order = sorted((city for city in cities if cities[city] >= 5), key=lambda city: (-cities[city], city))
    found = column(lake, splits, "categories", "city")
    unseen = ~lake.table["city"].isin(order)
    assert (found[~unseen] == lake.table["city"][~unseen].map({c: p + 4 for p, c in enumerate(order)})).all()
    hashes = 1 + tf.strings.to_hash_bucket_fast(lake.table["city"][unseen].tolist(), 3).numpy()
    assert (found[unseen] == hashes).all()
    assert found[unseen].nunique() == 3
    hashes = 1 + tf.strings.to_hash_bucket_fast(lake.table["city"].tolist(), 11).numpy()
    assert (column(lake, splits, "categories", "city_hash") == hashes).all()
    (field,) = [one for one in lake.manifest["fields"] if one["name"] == "categories"]
    sizes = dict(zip(field["columns"], field["sizes"], strict=True))
    assert sizes["kind"] == 2 + len(kinds)
    assert sizes["city"] == 4 + len(order)
    assert (sizes["city_hash"], sizes["count_bucket"], sizes["when_hour"], sizes["both"]) == (12, 4, 25, 17)


def test_buckets(lake, splits, train):
    expected = 1 + np.searchsorted([2, 5], lake.table["count"], side="right")
    assert (column(lake, splits, "categories", "count_bucket") == expected).all()
    amounts = lake.table["amount"]
    edges = np.quantile(train["amount"].dropna().astype(float), [0.25, 0.5, 0.75]).astype("f4")
    expected = np.where(amounts.isna(), 0, 1 + np.searchsorted(edges, amounts, side="right"))
    assert (column(lake, splits, "categories", "amount_bucket") == expected).all()


def test_dates_and_crosses(lake, splits):
    when = lake.table["when"].dt
    for part, values in {
        "hour": when.hour,
        "weekday": when.weekday,
        "day": when.day - 1,
        "month": when.month - 1,
    }.items():
        assert (column(lake, splits, "categories", f"when_{part}") == values + 1).all()
    angle = 2 * math.pi * when.hour / 24
    np.testing.assert_allclose(column(lake, splits, "numbers", "clock_hour_sin"), np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(column(lake, splits, "numbers", "clock_hour_cos"), np.cos(angle), atol=1e-6)
    joined = (lake.table["kind"].fillna("") + "\x1f" + lake.table["city"]).tolist()
    expected = tf.strings.to_hash_bucket_fast(joined, 17).numpy()
    assert (column(lake, splits, "categories", "both") == expected).all()


def test_texts_are_numbers_of_their_words(lake, splits, train):
    def words(text):
        return re.findall(r"[\w']+|[^\w\s]", text.lower() if isinstance(text, str) else "")

    counts = collections.Counter(word for text in train["note"] for word in words(text))
    order = sorted((word for word in counts if counts[word] >= 2), key=lambda word: (-counts[word], word.encode()))
    number = {word: place + 2 for place, word in enumerate(order)}
    for split in splits.values():
        for row, values in split.items():
            expected = [number.get(word, 1) for word in words(lake.table.loc[row]["note"])][:5]
            assert values["note"].tolist() == expected + [0] * (5 - len(expected))


@pytest.mark.slow
def test_a_csv_of_the_same_rows_gives_the_same_fields(lake, splits, tmp_path):
    other = Lake(tmp_path)
    for day in range(3):
        other.write(f"day={day}/part-0.csv", make_table(300, day))
    assert other.preprocess() == 0
    for name, split in splits.items():
        found = other.rows(name)
        assert set(found) == set(split)
        for row, values in split.items():
            for field, value in values.items():
                if field == "numbers":  # a logarithm may differ in its last bit with the place of a value in its batch
                    np.testing.assert_allclose(found[row][field], value, atol=1e-6)
                else:
                    np.testing.assert_array_equal(found[row][field], value)


@pytest.mark.slow
@pytest.mark.parametrize("workers", sample([2, 3], [3]))
def test_any_number_of_workers_gives_the_same_bytes(lake, tmp_path, workers):
    before, output = lake.shards(), lake.output
    lake.output = tmp_path / "data"
    try:
        assert lake.preprocess(f"output.path={lake.output}", f"launch.preprocess.workers={workers}") == 0
        assert lake.shards() == before
    finally:
        lake.output = output


@pytest.mark.slow
def test_units_make_no_difference_to_rows(lake, splits, tmp_path, monkeypatch):
    """One unit a group of rows: the same rows with the same values, in another order."""
    from beamfeed.transforms.sources.table import plan

    monkeypatch.setattr(plan, "UNIT_BYTES", 1)
    output = lake.output
    lake.output = tmp_path / "data"
    try:
        assert lake.preprocess(f"output.path={lake.output}") == 0
        for name, split in splits.items():
            found = lake.rows(name)
            assert set(found) == set(split)
            for row, values in split.items():
                for field, value in values.items():
                    np.testing.assert_array_equal(found[row][field], value)
    finally:
        lake.output = output


@pytest.mark.slow
def test_a_table_that_grows_moves_no_row(lake, splits, tmp_path):
    for by in ("key", "row"):
        found = []
        for days in (2, 3):
            other = Lake(tmp_path / f"{by}{days}")
            shutil.rmtree(other.files)
            other.files = lake.files
            other.job["source"]["files"] = [str(lake.files / f"day={day}") for day in range(days)]
            other.job["features"] = {"row": FEATURES["row"], "count": "numeric"}
            assert other.preprocess(f"split.by={by}") == 0
            found.append({row: name for name in splits for row in other.rows(name)})
        assert found[0].items() <= found[1].items()
        assert len(found[0]) == 600
