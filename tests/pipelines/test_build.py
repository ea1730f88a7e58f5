"""Whole preprocessing runs, compared with plain loops over the raw files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from fleets import Fleet, files_of, make_table, split_of

from beamfeed.transforms.suggest.job_file import suggest

pytestmark = pytest.mark.filterwarnings("ignore")
SPLITS = ("train", "eval", "test")


def plain_windows(values: np.ndarray, length: int, stride: int) -> dict[int, np.ndarray]:
    return {at: values[at : at + length] for at in range(0, len(values) - length + 1, stride)}


def all_windows(fleet) -> dict[str, dict[int, np.ndarray]]:
    return {asset: windows for split in SPLITS for asset, windows in fleet.windows(split).items()}


def assert_same_windows(found: dict, expected: dict, **tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for asset, windows in expected.items():
        assert found[asset].keys() == windows.keys(), asset
        for start, window in windows.items():
            np.testing.assert_allclose(found[asset][start], window, **tolerance)


def test_windows_equal_a_plain_loop_with_statistics_of_the_training_rows(fleet):
    raw = {f"m{i}": make_table(50 + 7 * i, seed=i) for i in range(12)}
    for name, table in raw.items():
        fleet.write(f"{name}.parquet", table, row_group_size=20)
    assert fleet.preprocess() == 0

    values = {name: np.stack([table[f"x{i}"] for i in range(3)], 1) for name, table in raw.items()}
    training = np.concatenate([values[name] for name in fleet.windows("train")]).astype("f8")
    scaled = {n: ((v - training.mean(0)) / training.std(0)).astype("f4") for n, v in values.items()}
    expected = {name: plain_windows(v, 8, 2) for name, v in scaled.items()}
    assert_same_windows(all_windows(fleet), expected, atol=1e-5)

    manifest = fleet.manifest
    assert manifest.features == ["x0", "x1", "x2"]
    assert manifest.counts.rows_read == sum(table.num_rows for table in raw.values())
    assert sum(s.windows for s in manifest.splits.values()) == sum(len(w) for w in expected.values())
    assert sum(s.assets for s in manifest.splits.values()) == 12
    assert all(manifest.splits[name].windows > 0 for name in SPLITS)
    stats = json.loads((fleet.output / manifest.data / "stats.json").read_text())
    assert stats["rows"] == len(training)
    np.testing.assert_allclose([stats["features"][n]["mean"] for n in manifest.features], training.mean(0))
    np.testing.assert_allclose([stats["features"][n]["std"] for n in manifest.features], training.std(0))


def test_golden_folder(fleet):
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(30, seed=i))
    fleet.job["output"]["shards"] = 1
    assert fleet.preprocess() == 0
    manifest = fleet.manifest
    found = sorted(str(path.relative_to(fleet.output)) for path in fleet.output.rglob("*") if path.is_file())
    assert found == [
        f"{manifest.data}/{name}"
        for name in [
            "eval/blocks.parquet",
            "eval/part-00000-of-00001.tfrecord",
            "schema.pbtxt",
            "stats.json",
            "test/blocks.parquet",
            "test/part-00000-of-00001.tfrecord",
            "train/blocks.parquet",
            "train/part-00000-of-00001.tfrecord",
            "transform_fn/saved_model.pb",
            "transform_fn/variables/variables.data-00000-of-00001",
            "transform_fn/variables/variables.index",
            "transformed_metadata/schema.pbtxt",
        ]
    ] + ["manifest.json"]
    written = json.loads((fleet.output / "manifest.json").read_text())
    assert written["counts"] == {
        "files": 3, "assets": 3, "rejected_assets": 0, "rejected_files": 0, "rows_read": 90,
        "rejected_rows": 0,
    }  # fmt: skip
    for name in SPLITS:
        shards = written["splits"][name]["shards"]
        assert (shards["records"], shards["windows"], shards["rows"]) == ([1], [12], [30])
        size = (fleet.output / manifest.data / name / "part-00000-of-00001.tfrecord").stat().st_size
        assert shards["bytes"] == [size]
        assert pq.read_table(fleet.output / manifest.data / name / "blocks.parquet").to_pylist() == [
            {"shard": 0, "records": 1, "windows": 12, "bytes": size}
        ]


def test_shards_are_the_same_bytes_in_every_run_and_with_any_number_of_workers(new_fleet):
    found = []
    for name, workers in (("one", 1), ("two", 2)):
        fleet = new_fleet(name)
        for i in range(9):
            table = make_table(400, seed=i)
            fleet.write(f"m{i}.parquet", table, row_group_size=64)
        assert fleet.preprocess(f"launch.preprocess.workers={workers}") == 0
        found.append(fleet.shard_bytes())
    assert len(found[0]) >= 3
    assert found[0] == found[1]


def test_rejected_assets_leave_no_trace_in_the_others(new_fleet):
    clean, dirty = new_fleet("clean"), new_fleet("dirty")
    for i in range(12):
        for fleet in (clean, dirty):
            fleet.write(f"m{i}.parquet", make_table(60, seed=i))
    time = np.r_[0:30, 29:59]
    dirty.write("twice.parquet", make_table(60, seed=99, t=time, x0=np.full(60, 1e6, "f4")))
    for fleet in (clean, dirty):
        fleet.job |= {"prepare": {"duplicates": "reject"}, "split": split_of(f"m{i}" for i in range(12))}
        assert fleet.preprocess() == 0
    assert [r["asset"] for r in dirty.rejects()] == ["twice"]
    assert clean.shard_bytes() == dirty.shard_bytes()


def files_in(output: Path, data: str) -> dict[str, bytes]:
    """What `files_of` gives of one data folder."""
    every = files_of(output).items()
    return {name.removeprefix(f"{data}/"): content for name, content in every if name.startswith(f"{data}/")}


def test_second_run_does_nothing_and_a_changed_job_swaps(fleet, capfd):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    assert fleet.preprocess() == 0
    first = fleet.manifest
    before = {p: p.stat().st_mtime_ns for p in fleet.output.rglob("*")}
    assert fleet.preprocess() == 0
    assert "Nothing to do" in capfd.readouterr().out
    assert before == {p: p.stat().st_mtime_ns for p in fleet.output.rglob("*")}

    assert fleet.preprocess("windows.stride=4") == 0
    second = fleet.manifest
    assert second.data != first.data
    paths = first.shard_paths(str(fleet.output), "train")  # a trainer that started before still has its shards
    assert [Path(path).stat().st_size for path in paths] == [shard.bytes for shard in first.splits["train"].shards]
    assert fleet.preprocess("windows.stride=8") == 0
    folders = {path.name for path in fleet.output.iterdir() if path.is_dir()}
    assert folders == {second.data, fleet.manifest.data}

    third = fleet.manifest
    whole = files_in(fleet.output, third.data)
    shard = Path(third.shard_paths(str(fleet.output), "train")[0])
    shard.unlink()  # a dataset with a hole is not complete
    left = files_in(fleet.output, third.data)
    assert fleet.preprocess("windows.stride=8") == 0
    assert files_in(fleet.output, fleet.manifest.data) == whole  # its transform graph, too
    assert fleet.manifest.previous == third.data
    assert files_in(fleet.output, third.data) == left  # as it would be if the repair had died


def test_a_dataset_of_an_earlier_version_is_replaced_and_kept_for_who_reads_it(fleet, capfd):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    old = fleet.output / "data-0123"
    old.mkdir(parents=True)
    (old / "shard").write_bytes(b"of old")
    (fleet.output / "manifest.json").write_text(json.dumps({"format": 2, "data": old.name, "anything": "else"}))
    assert fleet.preprocess() == 0
    assert fleet.manifest.previous == old.name
    assert (old / "shard").read_bytes() == b"of old"
    assert fleet.preprocess("windows.stride=4") == 0
    assert not old.exists()


def test_a_failed_run_leaves_the_published_data_alone(fleet, capfd):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    assert fleet.preprocess() == 0
    published, shards = fleet.manifest, fleet.shard_bytes()
    fleet.write("m0.parquet", make_table(3))
    assert fleet.preprocess("limits.max_rejected_fraction=0.1") == 1
    error = capfd.readouterr().err
    assert "25.0% of the assets were rejected, limits.max_rejected_fraction is 10.0%" in error
    assert "has 3 rows, a window needs 8" in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1
    assert fleet.manifest == published
    assert fleet.shard_bytes() == shards


TABLES = {f"m{i}": make_table(90, seed=i) for i in range(5)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Fleet:
    """Five assets of which each is a file of Parquet."""
    fleet = Fleet(tmp_path_factory.mktemp("whole"))
    for name, table in TABLES.items():
        fleet.write(f"{name}.parquet", table)
    assert fleet.preprocess() == 0
    return fleet


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_csv_and_gzip_give_the_windows_of_parquet(whole, fleet, suffix):
    for name, table in TABLES.items():
        fleet.write(f"{name}.{suffix}", table)
    assert fleet.preprocess() == 0
    assert_same_windows(all_windows(fleet), all_windows(whole), rtol=0)


def test_an_asset_may_be_several_files_in_any_order(whole, new_fleet):
    split = new_fleet("split")
    for i, table in enumerate(TABLES.values()):
        for part, (low, high) in {"c": (0, 20), "a": (20, 65), "b": (65, 90)}.items():
            split.write(f"m{i}/{part}.parquet", table.slice(low, high - low))
    split.job["source"]["asset"] = {"from": "path", "pattern": r"(?P<asset>m\d+)/"}
    split.job["split"] = split_of(TABLES)
    assert split.preprocess() == 0
    assert whole.shard_bytes() == split.shard_bytes()


@pytest.mark.parametrize("layout", ["sorted by asset", "interleaved", "csv"])
def test_a_file_may_hold_several_assets(whole, new_fleet, layout):
    mixed = new_fleet("mixed")
    frames = [table.to_pandas().assign(machine=name) for name, table in TABLES.items()]
    both = pd.concat(frames)
    if layout != "sorted by asset":
        both = both.sort_values(["t", "machine"])
    half = len(both) // 2
    for name, part in {"one": both[:half], "two": both[half:]}.items():
        suffix = "csv" if layout == "csv" else "parquet"
        table = pa.Table.from_pandas(part, preserve_index=False)
        mixed.write(f"{name}.{suffix}", table, **({} if layout == "csv" else {"row_group_size": 37}))
    mixed.job |= {"source": mixed.job["source"] | {"asset": {"column": "machine"}}, "split": split_of(TABLES)}
    assert mixed.preprocess() == 0
    assert_same_windows(all_windows(mixed), all_windows(whole), rtol=0)


def test_unsorted_rows_are_sorted_and_give_the_same_windows(whole, new_fleet):
    shuffled = new_fleet("shuffled")
    for i, table in enumerate(TABLES.values()):
        order = np.random.default_rng(i).permutation(90)
        shuffled.write(f"m{i}.parquet", table.take(pa.array(order)), row_group_size=16)
    assert shuffled.preprocess() == 0
    assert shuffled.rejects() == []
    assert_same_windows(all_windows(shuffled), all_windows(whole), atol=1e-6)


def test_number_types(fleet):
    rows = 40
    base = np.random.default_rng(0).integers(0, 9, rows)
    table = pa.table({
        "t": pa.array(np.arange(rows), pa.timestamp("ms", "UTC")),
        "x_int8": pa.array(base, pa.int8()),
        "x_uint64": pa.array(base, pa.uint64()),
        "x_bool": pa.array(base > 4),
        "x_half": pa.array(base.astype("f2")),
        "x_double": pa.array(base.astype("f8")),
        "x_decimal": pa.array([None if b == 8 else int(b) for b in base], pa.decimal128(10, 2)),
        "x_dictionary": pa.array(base, pa.int32()).dictionary_encode(),
    })  # fmt: skip
    for i in range(3):
        fleet.write(f"m{i}.parquet", table)
    fleet.job["prepare"] = {"scale": {"how": "none"}, "missing": {"fill": "constant", "value": 8}}
    assert fleet.preprocess("windows.stride=8") == 0
    found = np.concatenate([*fleet.windows("train").popitem()[1].values()])
    expected = np.stack([base, base, base > 4, base, base, base, base], 1).astype("f4")
    np.testing.assert_array_equal(found, expected)


def test_constant_columns_become_zero(fleet):
    for i in range(4):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i, x1=np.full(40, 518.67, "f4")))
    assert fleet.preprocess() == 0
    for windows in all_windows(fleet).values():
        for window in windows.values():
            assert np.isfinite(window).all()
            assert (window[:, 1] == 0).all()


def test_scale_per_asset(fleet):
    raw = {f"m{i}": make_table(50, seed=i) for i in range(6)}
    for name, table in raw.items():
        fleet.write(f"{name}.parquet", table)
    fleet.job["prepare"] = {"scale": {"how": "minmax", "per": "asset"}}
    assert fleet.preprocess() == 0
    values = {name: np.stack([table[f"x{i}"] for i in range(3)], 1) for name, table in raw.items()}
    scaled = {name: (v - v.min(0)) / (v.max(0) - v.min(0)) for name, v in values.items()}
    expected = {name: plain_windows(v, 8, 2) for name, v in scaled.items()}
    assert_same_windows(all_windows(fleet), expected, atol=1e-6)

    import tensorflow as tf

    graph = tf.saved_model.load(str(fleet.output / fleet.manifest.data / "transform_fn"))
    given = tf.constant(values["m3"])
    known = graph.transform_fn({"values": given, "asset": tf.fill([50], "m3")})["values"]
    np.testing.assert_allclose(known, scaled["m3"], atol=1e-6)
    unknown = graph.transform_fn({"values": given, "asset": tf.fill([50], "never seen")})["values"]
    training = np.concatenate([values[name] for name in fleet.windows("train")])
    low, high = training.min(0), training.max(0)
    np.testing.assert_allclose(unknown, (values["m3"] - low) / (high - low), atol=1e-6)


def test_no_window_crosses_a_gap_and_missing_values_follow_the_rules(fleet):
    rows = 200
    time = np.arange(rows)
    time[70:] += 4  # within max_gap
    time[120:] += 50  # over it
    x0 = np.arange(rows, dtype="f4")
    x0[[10, 11]] = np.nan  # filled
    x0[40:60] = np.inf  # too long: the first three are filled, the rest dropped
    fleet.write("m.parquet", make_table(rows, t=time, x0=x0), row_group_size=50)
    fleet.job["prepare"] = {
        "scale": {"how": "none"}, "max_gap": 5, "missing": {"fill": "forward", "limit": 3},
    }  # fmt: skip
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    assert fleet.preprocess("windows.stride=1") == 0
    starts = sorted(fleet.windows("train")["m"])
    assert starts == [*range(0, 43 - 7), *range(60, 120 - 7), *range(120, 200 - 7)]
    window = fleet.windows("train")["m"][9]
    np.testing.assert_array_equal(window[:4, 0], [9, 9, 9, 12])


def test_split_by_time_and_no_window_in_two_splits(fleet):
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(100, seed=i), row_group_size=30)
    fleet.job["split"] = {"by": "time", "train": 0.6, "eval": 0.2, "test": 0.2}
    assert fleet.preprocess("windows.stride=1") == 0
    for name in ("m0", "m1", "m2"):
        assert sorted(fleet.windows("train")[name]) == [*range(0, 60 - 7)]
        assert sorted(fleet.windows("eval")[name]) == [*range(60, 80 - 7)]
        assert sorted(fleet.windows("test")[name]) == [*range(80, 100 - 7)]
    stats = json.loads((fleet.output / fleet.manifest.data / "stats.json").read_text())
    assert stats["rows"] == 180  # training rows alone


def test_split_by_column_of_the_file(fleet):
    phase = np.repeat(["warm", "run", "cool", "off"], 25)
    for i in range(3):
        fleet.write(f"m{i}.parquet", make_table(100, seed=i, phase=phase))
    fleet.job["split"] = {"by": "column", "column": "phase", "train": ["run", "off"], "test": ["cool"]}
    assert fleet.preprocess("windows.stride=1") == 0
    assert sorted(fleet.windows("train")["m0"]) == [*range(25, 50 - 7), *range(75, 100 - 7)]
    assert sorted(fleet.windows("test")["m0"]) == [*range(50, 75 - 7)]
    assert fleet.windows("eval") == {}


def test_split_by_column_of_the_path(fleet):
    for i, site in enumerate(["north", "north", "south", "west"]):
        fleet.write(f"{site}/m{i}.parquet", make_table(50, seed=i))
    fleet.job["source"]["asset"] = {"from": "path", "pattern": r"(?P<site>\w+)/(?P<asset>m\d+)\."}
    fleet.job["split"] = {"by": "column", "column": "site", "train": ["north"], "eval": ["south"]}
    assert fleet.preprocess() == 0
    assert fleet.windows("train").keys() == {"m0", "m1"}
    assert fleet.windows("eval").keys() == {"m2"}
    assert fleet.windows("test") == {}


def test_resampling_onto_a_grid(fleet):
    rng = np.random.default_rng(0)
    seconds = np.sort(rng.choice(np.arange(0, 400_000, 10), 1500, replace=False)) / 1000
    seconds = seconds[(seconds < 100) | (seconds > 160)]  # a hole of a minute
    x = rng.normal(size=len(seconds)).astype("f4")
    time = pa.array((seconds * 1e9).astype("i8"), pa.timestamp("ns"))
    table = pa.table({"t": time, "x0": x})
    fleet.write("m.parquet", table, row_group_size=200)
    fleet.job["prepare"] = {
        "scale": {"how": "none"}, "resample": {"every": "1s", "how": "mean"}, "missing": {"fill": "linear", "limit": 2},
    }  # fmt: skip
    fleet.job["split"] = {"train": 1, "eval": 0, "test": 0}
    assert fleet.preprocess("windows.stride=1") == 0
    series = pd.Series(x.astype("f8"), index=pd.to_datetime((seconds * 1e9).astype("i8")))
    grid = series.resample("1s").mean()
    filled = grid.interpolate(limit_area="inside")
    hole = grid.isna().groupby((~grid.isna()).cumsum()).transform("sum")
    filled[(hole > 2) & grid.isna()] = np.nan
    expected = {
        at: filled.to_numpy()[at : at + 8, None]
        for at in range(len(filled) - 7)
        if not filled.iloc[at : at + 8].isna().any()
    }
    first = int(seconds[0])
    found = {start - first: window for start, window in fleet.windows("train")["m"].items()}
    assert found.keys() == expected.keys()
    for at, window in expected.items():
        np.testing.assert_allclose(found[at], window, atol=1e-6)


@pytest.mark.parametrize(("override", "records"), [("records=windows", 5 * 42), ("compression=gzip", 5)])
def test_records_as_windows_and_gzip_hold_the_same_windows(whole, fleet, override, records):
    for name, table in TABLES.items():
        fleet.write(f"{name}.parquet", table)
    assert fleet.preprocess(f"output.{override}") == 0
    assert_same_windows(all_windows(fleet), all_windows(whole), rtol=0)
    assert sum(split.records for split in fleet.manifest.splits.values()) == records
    assert sum(split.records for split in whole.manifest.splits.values()) == 5


def test_max_assets_takes_the_first_assets_and_one_of_each_split(fleet):
    for i in range(8):
        fleet.write(f"m{i}.parquet", make_table(40, seed=i))
    assert fleet.preprocess("source.max_assets=3") == 0
    assert len(all_windows(fleet)) == 3
    assert [info.assets for info in fleet.manifest.splits.values()] == [1, 1, 1]


def test_turbofan_counts_equal_an_independent_count(new_fleet, data):
    found, shards = [], []
    names = [f"engine-{i:03d}" for i in range(1, 21)]
    for files in (data / "turbofan", data / "turbofan_csv"):
        fleet = new_fleet(files.name)
        fleet.job["source"] |= {
            "files": str(files), "time": {"column": "cycle"}, "features": ["sensor_*", "setting_1"], "max_assets": 20,
        }  # fmt: skip
        fleet.job["windows"] = {"length": 30, "stride": 1}
        assert fleet.preprocess() == 0
        rows = [pq.read_metadata(data / "turbofan" / f"{name}.parquet").num_rows for name in names]
        assert fleet.manifest.counts.rows_read == sum(rows)
        assert sum(s.windows for s in fleet.manifest.splits.values()) == sum(r - 29 for r in rows)
        found.append(all_windows(fleet))
        shards.append(fleet.shard_bytes())
    assert_same_windows(found[1], found[0], rtol=0)
    assert shards[0] == shards[1]
    assert all(np.isfinite(w).all() for windows in found[0].values() for w in windows.values())


def test_the_first_job_file_reads_dates_whose_year_has_two_digits_and_comes_first(fleet, monkeypatch):
    days = np.datetime64("2024-01-01") + np.arange(200)
    price = np.random.default_rng(0).normal(50, 9, 200).astype("f4")
    fleet.write("a.csv", pa.table({"when": [str(day)[2:] for day in days], "price": price}))
    monkeypatch.chdir(fleet.folder)
    fleet.job = yaml.safe_load(suggest("fleet/a.csv").text)
    fleet.job["prepare"]["scale"] = {"how": "none"}
    fleet.output = fleet.folder / fleet.job["output"]["path"]
    assert fleet.preprocess() == 0
    length, windows = fleet.job["windows"]["length"], all_windows(fleet)
    assert sum(map(len, windows.values())) > 0
    for start, window in windows["a"].items():
        np.testing.assert_array_equal(window[:, 0], price[start : start + length])
