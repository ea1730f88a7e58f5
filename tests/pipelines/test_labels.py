"""Labelled windows, from the files to the published dataset."""

import gzip
import itertools
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from fleets import make_table
from sampling import sample

pytestmark = pytest.mark.filterwarnings("ignore")
SPLITS = ("train", "eval", "test")
TRAIN = {"train": 1, "eval": 0, "test": 0}


@pytest.fixture
def labelled(fleet):
    """Twelve assets with a number, a fault flag, and a state as text; the job has no section train."""
    rng = np.random.default_rng(3)
    for i in range(12):
        rows = 60 + 5 * i
        y = rng.normal(size=rows).astype("f4")
        y[rng.random(rows) < 0.1] = np.nan
        state = np.array(["idle", "run", "stop"])[rng.integers(0, 3, rows)]
        fault = rng.random(rows) < 0.2
        fleet.write(f"m{i}.parquet", make_table(rows, seed=i, y=y, state=state, fault=fault), row_group_size=16)
    del fleet.job["train"]
    return fleet


def tables(fleet) -> dict[str, pa.Table]:
    import pyarrow.parquet as pq

    return {path.stem: pq.read_table(path) for path in fleet.files.glob("*.parquet")}


def all_labels(fleet, name="label") -> dict[str, dict[int, float]]:
    return {asset: found for split in SPLITS for asset, found in fleet.labels(split, name).items()}


def failure(fleet, capfd, *overrides: str) -> str:
    """The one line of a job that must not publish."""
    assert fleet.preprocess(*overrides) == 1
    (line,) = capfd.readouterr().err.strip().splitlines()
    assert not (fleet.output / "manifest.json").exists()
    return line


def test_labels_of_every_sort_equal_a_plain_loop(labelled):
    labelled.job["label"] = [
        {"name": "now", "column": "y"},
        {"name": "soon", "column": "y", "at": "horizon", "horizon": 5},
        {"name": "most", "column": "y", "at": "any", "cap": 1.5},
        {"name": "left", "derive": "remaining_life", "cap": 40},
        {"name": "state", "column": "state", "classes": "auto"},
        {"name": "fault", "column": "fault", "at": "any", "classes": [False, True]},
        {"name": "weight", "column": "fault", "role": "weight"},
    ]
    assert labelled.preprocess() == 0
    found = {label["name"]: all_labels(labelled, label["name"]) for label in labelled.job["label"]}
    expected: dict = {name: {} for name in found}
    for asset, table in tables(labelled).items():
        y, state, fault = (table[name].to_pylist() for name in ("y", "state", "fault"))
        for first in range(0, len(y) - 8 - 5 + 1, 2):
            last = first + 7
            present = [v for v in y[first : last + 1] if not math.isnan(v)]
            if math.isnan(y[last]) or math.isnan(y[last + 5]) or not present:
                continue
            values = {
                "now": y[last], "soon": y[last + 5], "most": min(max(present), 1.5),
                "left": min(len(y) - 1 - last, 40), "state": ["idle", "run", "stop"].index(state[last]),
                "fault": int(any(fault[first : last + 1])), "weight": float(fault[last]),
            }  # fmt: skip
            for name, value in values.items():
                expected[name].setdefault(asset, {})[first] = value
    assert found == expected

    manifest = labelled.manifest
    fields = {field.name: field for field in manifest.fields}
    assert fields["state"].classes == ["idle", "run", "stop"]
    assert fields["fault"].classes == ["false", "true"]
    assert [fields[name].dtype for name in ("now", "state", "fault", "weight")] == [
        "float32", "int64", "int64", "float32",
    ]  # fmt: skip
    assert fields["weight"].role == "weight"
    assert manifest.features == ["x0", "x1", "x2"]
    for split, info in manifest.splits.items():
        for name in ("now", "left", "weight"):
            told = [value for asset in labelled.labels(split, name).values() for value in asset.values()]
            target = info.targets[name]
            np.testing.assert_allclose(
                [target.mean, target.std, target.min, target.max],
                [np.mean(told), np.std(told), min(told), max(told)], rtol=1e-9, atol=1e-9,
            )  # fmt: skip
        for name in ("state", "fault"):
            told = [value for asset in labelled.labels(split, name).values() for value in asset.values()]
            assert info.targets[name].counts == np.bincount(told, minlength=len(fields[name].classes)).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [["output.records=windows"], ["output.compression=gzip"], ["output.shards=3"]])
def test_labels_do_not_hang_on_how_records_are_written(new_fleet, overrides):
    found = []
    for name, more in (("plain", []), ("other", overrides)):
        fleet = new_fleet(name)
        rng = np.random.default_rng(1)
        for i in range(4):
            fleet.write(
                f"m{i}.parquet", make_table(70, seed=i, y=np.where(rng.random(70) < 0.1, np.nan, np.arange(70)))
            )
        fleet.job["label"] = {"column": "y"}
        del fleet.job["train"]
        assert fleet.preprocess(*more) == 0
        found.append(all_labels(fleet))
        assert all(target.targets["label"].max > 0 for target in fleet.manifest.splits.values())
    assert found[0] == found[1]


@pytest.mark.slow
def test_labels_do_not_hang_on_how_assets_are_cut_into_units_and_blocks(new_fleet, monkeypatch):
    found, records = [], []
    for name in ("whole", "cut"):
        fleet = new_fleet(name)
        rng = np.random.default_rng(5)
        for i in range(2):
            x0, y = rng.normal(size=(2, 900)).astype("f4")
            x0[rng.random(900) < 0.03] = np.nan
            y[rng.random(900) < 0.1] = np.nan
            time = np.cumsum(np.where(rng.random(900) < 0.01, 9, 1))
            fleet.write(f"m{i}.parquet", make_table(900, t=time, x0=x0, y=y), row_group_size=37)
        fleet.job |= {
            "prepare": {"max_gap": 5, "missing": {"fill": "linear", "limit": 1}},
            "split": {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2},
            "label": [
                {"name": "soon", "column": "y", "at": "horizon", "horizon": 9},
                {"name": "most", "column": "y", "at": "any"},
                {"name": "left", "derive": "remaining_life"},
            ],
        }
        del fleet.job["train"]
        assert fleet.preprocess("windows.stride=3") == 0
        found.append([fleet.labels(split, label) for split in SPLITS for label in ("soon", "most", "left")])
        records.append(sum(split.records for split in fleet.manifest.splits.values()))
        series = "beamfeed.transforms.sources.timeseries"
        monkeypatch.setattr(f"{series}.plan.UNIT_BYTES", 12 * 200)
        monkeypatch.setattr(f"{series}.windowing.BLOCK_BYTES", 12 * 100)
        monkeypatch.setattr(f"{series}.windowing.SEGMENT_BYTES", 12 * 20)
    assert found[0] == found[1]
    assert sum(map(len, found[0][0].values())) > 100  # windows that train
    assert records[1] > records[0]


@pytest.mark.slow
def test_shards_with_labels_are_the_same_bytes_with_any_number_of_workers(labelled):
    labelled.job["label"] = [{"name": "state", "column": "state", "classes": "auto"}, {"column": "y", "at": "any"}]
    found = []
    for workers in (1, 2):
        assert (
            labelled.preprocess(f"launch.preprocess.workers={workers}", f"output.path={labelled.folder}/{workers}") == 0
        )
        folder = labelled.folder / str(workers)
        found.append({path.name: path.read_bytes() for path in sorted(folder.glob("data-*/*/*.tfrecord"))})
    assert len(found[0]) >= 3
    assert found[0] == found[1]


def test_remaining_life_is_to_the_end_of_the_asset_also_where_splits_cut_it(fleet):
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(100 + i, seed=i), row_group_size=30)
    fleet.job |= {
        "split": {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2},
        "label": {"derive": "remaining_life"},
    }
    del fleet.job["train"]
    assert fleet.preprocess() == 0
    for split in SPLITS:
        for i in range(3):
            found = fleet.labels(split)[f"m{i}"]
            assert found == {start: 100 + i - 1 - (start + 7) for start in found}
    assert min(fleet.labels("test")["m0"].values()) == 0


def test_a_horizon_stays_in_its_split_and_its_run(fleet):
    time = np.arange(100)
    time[50:] += 100
    x0 = np.arange(100, dtype="f4")
    x0[20] = np.nan  # a dropped row
    fleet.write("m.parquet", make_table(100, t=time, x0=x0, y=np.arange(100, dtype="f4")))
    fleet.job |= {
        "prepare": {"max_gap": 5, "missing": {"fill": "drop"}},
        "label": {"column": "y", "at": "horizon", "horizon": 4},
        "split": {"by": "column", "column": "part", "train": ["a"], "eval": ["b"]},
    }
    part = np.where(np.arange(100) < 80, "a", "b")
    fleet.write("m.parquet", make_table(100, t=time, x0=x0, y=np.arange(100, dtype="f4"), part=part))
    del fleet.job["train"]
    assert fleet.preprocess("windows.stride=1") == 0
    starts = [*range(0, 20 - 11), *range(21, 50 - 11), *range(50, 80 - 11)]
    assert fleet.labels("train")["m"] == {start: start + 11 for start in starts}
    assert fleet.labels("eval")["m"] == {start: start + 11 for start in range(80, 100 - 11)}


def test_labels_on_a_grid_of_time(fleet):
    time = np.delete(np.arange(400), [*range(100, 104)]) * 500  # two rows a second, and a hole of two seconds
    y = np.arange(len(time), dtype="f4")
    fleet.write("m.parquet", make_table(len(time), t=time, y=y), row_group_size=50)
    fleet.job |= {
        "prepare": {"resample": {"every": 1000}, "missing": {"fill": "linear", "limit": 3}},
        "label": [{"column": "y"}, {"name": "left", "derive": "remaining_life"}],
        "split": TRAIN,
    }
    del fleet.job["train"]
    assert fleet.preprocess() == 0
    last = {int(t) // 1000: float(v) for t, v in zip(time, y, strict=True)}
    last |= {50: last[49], 51: last[49]}
    assert fleet.labels("train")["m"] == {start: last[start + 7] for start in range(0, 200 - 7, 2)}
    assert fleet.labels("train", "left")["m"] == {start: 199 - start - 7 for start in range(0, 200 - 7, 2)}


@pytest.mark.slow
def test_unsorted_rows_keep_their_labels(new_fleet):
    found = []
    for name in ("ordered", "shuffled"):
        fleet = new_fleet(name)
        for i in range(3):
            state = np.array(["a", "b"])[np.arange(80) // 10 % 2]
            table = make_table(80, seed=i, y=np.arange(80, dtype="f4"), state=state)
            if name == "shuffled":
                table = table.take(pa.array(np.random.default_rng(i).permutation(80)))
            fleet.write(f"m{i}.parquet", table, row_group_size=16)
        fleet.job["label"] = [{"column": "y"}, {"name": "state", "column": "state", "classes": "auto"}]
        del fleet.job["train"]
        assert fleet.preprocess() == 0
        assert fleet.rejects() == []
        found.append((all_labels(fleet), all_labels(fleet, "state")))
    assert found[0] == found[1]


STATES = {
    "text": (["b", "a", None], ["a", "b"]),
    "integers": ([10, 9, None], ["9", "10"]),
    "bools": ([True, False, None], ["false", "true"]),
    "whole floats": ([2.0, 1.0, None], ["1", "2"]),
    "floats": ([2.5, 1.0, None], ["1", "2.5"]),
    "a dictionary": (pa.array(["b", "a", None]).dictionary_encode(), ["a", "b"]),
    "empty text": (["b", "a", ""], ["a", "b"]),
}


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_values_of_every_type_name_classes(fleet, suffix):
    """In an order that is found, and in one that is listed."""
    place = np.random.default_rng(0).integers(0, 3, 60)
    columns, labels, expected = {}, [], {}
    states = STATES | ({"a word for nothing": (["b", "a", "NA"], ["a", "b"])} if suffix == "csv" else {})
    for (case, (values, classes)), listed in itertools.product(states.items(), (False, True)):
        column = values if isinstance(values, pa.Array) else pa.array(values)
        name = f"{case.replace(' ', '_')}_{'listed' if listed else 'found'}"
        order = classes[::-1] if listed else classes
        given = [{"true": True, "false": False}.get(one, one) for one in order]
        columns[case] = column.take(pa.array(place))
        labels.append({"name": name, "column": case, "classes": given if listed else "auto"})
        # The first value is the last class, the second the first one, and the third is missing.
        numbers = {0: order.index(classes[1]), 1: order.index(classes[0])}
        expected[name] = order, {start: numbers[p] for start, p in enumerate(place.tolist()) if p < 2}
    for i in range(3):
        fleet.write(f"m{i}.{suffix}", make_table(60, seed=i, **columns))
    fleet.job["label"] = labels
    del fleet.job["train"]
    assert fleet.preprocess("windows.length=1", "windows.stride=1") == 0
    for name, (order, values) in expected.items():
        assert fleet.manifest.field(name).classes == order
        assert all_labels(fleet, name) == {f"m{i}": values for i in range(3)}


def test_a_glob_never_takes_a_label_but_a_name_does(new_fleet):
    for name, features in (("glob", ["x*"]), ("named", ["x0", "x1"])):
        fleet = new_fleet(name)
        for i in range(3):
            fleet.write(f"m{i}.csv", make_table(40, seed=i))
        fleet.job["source"]["features"] = features
        fleet.job["label"] = {"column": "x1"}
        del fleet.job["train"]
        assert fleet.preprocess() == 0
        assert fleet.manifest.features == (["x0", "x2"] if name == "glob" else ["x0", "x1"])


MISTAKES = {
    "no such column": (
        {"column": "stat", "classes": "auto"},
        "label.column: 'stat' is not a column of the files; did you mean 'state'? (they have: t, x0, x1, x2, y, state, "
        "fault)",
    ),
    "text without classes": (
        {"column": "state"}, "label.column: 'state' is string; numbers are needed, or classes: auto",
    ),
    "the name of another field": (
        {"name": "values", "column": "y"},
        "label.name: 'values' is a field of every series (taken: asset, first_time, last_time, start, values)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_before_any_work(labelled, capfd, case):
    labelled.job["label"], message = MISTAKES[case]
    assert labelled.preprocess() == 2
    assert capfd.readouterr().err.strip() == message
    assert not labelled.output.exists()


def test_a_label_that_names_the_assets_or_the_splits(fleet, capfd):
    fleet.write("a.csv", make_table(40, who=np.repeat("p", 40), part=np.repeat(["u", "v"], 20)))
    fleet.job["source"]["asset"] = {"column": "who"}
    del fleet.job["train"]
    assert fleet.preprocess("label={column: who, classes: auto}") == 2
    assert capfd.readouterr().err.strip() == "label.column: 'who' is also source.asset.column; it cannot be both"
    split = "split={by: column, column: part, train: [u], eval: [v]}"
    assert fleet.preprocess("label={column: part, classes: auto}", split) == 2
    assert capfd.readouterr().err.strip() == "label.column: 'part' is also split.column; it cannot be both"


def test_a_file_that_may_hold_the_end_of_any_asset_ends_a_job_of_remaining_life(fleet, capfd):
    fleet.write("a.parquet", make_table(60, who=np.repeat(["p", "q"], 30)))
    (fleet.files / "b.parquet").write_bytes(b"no Parquet")
    fleet.job["source"]["asset"] = {"column": "who"}
    fleet.job["label"] = {"derive": "remaining_life"}
    del fleet.job["train"]
    line = failure(fleet, capfd)
    assert "remaining_life needs all rows of each asset, and " in line
    assert "b.parquet may hold the last ones of any" in line
    fleet.job["label"] = {"column": "x0"}
    assert fleet.preprocess("split={train: 1, eval: 0, test: 0}") == 0  # without such a label it is a reject


def test_a_column_of_lists_names_no_classes(labelled, capfd):
    for i in range(12):
        labelled.write(f"m{i}.parquet", make_table(40, seed=i, y=pa.array([[1.0]] * 40)))
    labelled.job["label"] = {"column": "y", "classes": "auto"}
    assert labelled.preprocess() == 2
    line = capfd.readouterr().err.strip()
    assert line == "label.column: 'y' is list<element: double>, text, integers or bools are needed"


BAD = {
    "of a column": ({"column": "y"}, {
        "without": (make_table(40), "column y", "is missing; the file has t, x0, x1, x2"),
        "text": (make_table(40, y=["a"] * 40), "column y", "is string, a number is needed"),
        "unknown": (
            make_table(40, y=np.full(40, np.nan)), "file",
            "has no 8 rows in a row without a gap or a missing value, or with no label that is known",
        ),
    }),
    "of a list of classes": ({"column": "fault", "classes": [False, True]}, {
        "other": (
            make_table(40, fault=["true" if i != 17 else "maybe" for i in range(40)]),
            "row 17", "fault is 'maybe', which is not in label.classes (false, true)",
        ),
    }),
    "at a horizon": ({"column": "y", "at": "horizon", "horizon": 30}, {
        "short": (
            make_table(37, y=np.arange(37.0)), "file",
            "has 37 rows, a window and its label at horizon 30 need 38 (windows.length)",
        ),
    }),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_labels_set_an_asset_aside(labelled, case):
    labelled.job["label"], bad = BAD[case]
    expected = [
        {"asset": name, "file": str(labelled.write(f"{name}.parquet", table)), "place": place, "reason": reason}
        for name, (table, place, reason) in sorted(bad.items())
    ]
    assert labelled.preprocess() == 0
    assert sorted(labelled.rejects(), key=lambda reject: reject["asset"]) == expected
    assert labelled.manifest.counts.rejected_assets == len(bad)


def test_a_class_that_is_in_no_training_row_sets_its_asset_aside_and_what_hangs_on_it(fleet):
    def write(name: str, rows: dict[str, str]) -> None:
        state, part = (np.repeat(list(one), 20) for one in (rows.values(), rows))
        fleet.write(f"{name}.parquet", make_table(len(state), state=state, part=part))

    write("good", {"train": "a", "eval": "b"})
    write("other", {"train": "b", "eval": "a", "none": "z"})  # rows in no split may say what they like
    write("odd", {"train": "c", "eval": "never"})
    write("hangs_on_odd", {"train": "a", "test": "c"})
    fleet.job |= {
        "label": {"column": "state", "classes": "auto"},
        "split": {"by": "column", "column": "part", "train": ["train"], "eval": ["eval"], "test": ["test"]},
    }
    del fleet.job["train"]
    assert fleet.preprocess() == 0
    assert [(r["asset"], r["place"], r["reason"]) for r in fleet.rejects()] == [
        ("hangs_on_odd", "row 20", "state is 'c', which is in no training row"),
        ("odd", "row 20", "state is 'never', which is in no training row"),
    ]
    assert fleet.manifest.field("label").classes == ["a", "b"]
    stats = json.loads((fleet.output / fleet.manifest.data / "stats.json").read_text())
    assert stats["rows"] == 40  # the training rows of the others alone


FAILURES = {
    "constant numbers": (
        {"name": "fault", "column": "zero"},
        "job failed: label 'fault': is 0 in every training window, so there is nothing to learn",
    ),
    "one class alone": (
        {"name": "fault", "column": "zero", "classes": "auto"},
        "job failed: label 'fault': is '0' in every training window, so there is nothing to learn",
    ),
    "a class of the list that never occurs": (
        {"name": "state", "column": "state", "classes": ["idle", "run", "stop", "off"]},
        "job failed: label 'state': class 'off' is in no training window",
    ),
    "a class that only eval and test have": (
        {"name": "state", "column": "late", "classes": ["early", "mid", "late"]},
        "job failed: label 'state': has values never seen in training: class 'late' is in no training window, but in ",
    ),
    "negative weights": (
        [{"column": "y"}, {"name": "w", "column": "minus", "role": "weight"}],
        "job failed: weight 'w': is -2 in one window, a weight must not be negative",
    ),
    "weights that are zero": (
        [{"column": "y"}, {"name": "w", "column": "zero", "role": "weight"}],
        "job failed: weight 'w': is 0 in every training window, so none of them counts",
    ),
    "more classes than are supported": (
        {"column": "number", "classes": "auto"},
        "job failed: label.column: 'number' has more than 1000 values in training rows, classes: auto takes at most "
        "1000; for numbers leave 'classes' out",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", sample(FAILURES, ["one class alone", "a class that only eval and test have"]))
def test_what_nothing_can_be_learned_from_is_one_line(fleet, capfd, case):
    rng = np.random.default_rng(0)
    for i in range(8):
        state = np.array(["idle", "run", "stop"])[rng.integers(0, 3, 600)]
        late = np.where(np.arange(600) < 300, "early", np.where(np.arange(600) < 540, "mid", "late"))
        minus, number = np.where(np.arange(600) == 100, -2, 1), np.arange(600) + 600 * i
        table = make_table(600, y=rng.normal(size=600), state=state, late=late, minus=minus, number=number)
        fleet.write(f"m{i}.parquet", table.append_column("zero", pa.array([0] * 600)))
    fleet.job |= {"split": {"by": "time", "train": 0.8, "eval": 0.1, "test": 0.1}} if "eval" in case else {}
    fleet.job["label"], message = FAILURES[case]
    del fleet.job["train"]
    assert failure(fleet, capfd, "windows.stride=1", "windows.length=1").startswith(message)


def test_a_horizon_longer_than_every_asset(labelled, capfd):
    labelled.job["label"] = {"column": "y", "at": "horizon", "horizon": 500}
    line = failure(labelled, capfd)
    assert line.startswith("job failed: 100.0% of the assets were rejected")
    assert "has 60 rows, a window and its label at horizon 500 need 508" in line


def test_a_horizon_longer_than_every_asset_on_a_grid(labelled, capfd):
    labelled.job |= {
        "label": {"column": "y", "at": "horizon", "horizon": 500}, "prepare": {"resample": {"every": 1}},
    }  # fmt: skip
    line = failure(labelled, capfd)
    assert line.startswith("job failed: 100.0% of the assets were rejected")
    assert "has no 508 rows in a row without a gap or a missing value (a window and its label at horizon 500)" in line


def test_a_csv_value_that_no_other_file_has_is_told_with_its_line(fleet):
    for i in range(4):
        fleet.write(f"m{i}.csv", make_table(40, seed=i, state=np.arange(40) // 3 % 2))
    lines = ["t,x0,x1,x2,state", *(f"{i},1,2,3,{'x' if i == 11 else i // 3 % 2}" for i in range(40))]
    (fleet.files / "odd.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    fleet.job["label"] = {"column": "state", "classes": [0, 1]}
    del fleet.job["train"]
    assert fleet.preprocess() == 0
    (reject,) = fleet.rejects()
    assert (reject["asset"], reject["place"]) == ("odd", "line 13, column state")
    assert reject["reason"].startswith("'x' is not a whole number")
