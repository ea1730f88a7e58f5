"""The simulated fleet: the same bytes for a seed, and everything in it that a real one would have."""

import filecmp
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "make_fleet.py")
ROWS = 20_000


def make(out, *options):
    command = [sys.executable, SCRIPT, "--out", str(out), "--seed", "7", *map(str, options)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return sorted(os.listdir(out))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    out = tmp_path_factory.mktemp("fleet")
    make(out, "--assets", 4, "--rows", ROWS)
    return out


def columns(path):
    table = pq.read_table(path)
    return {name: table[name].to_numpy() for name in table.column_names}


def test_one_file_per_pump_of_several_row_groups(fleet):
    names = [f"asset-{i:03d}.parquet" for i in range(4)]
    assert sorted(os.listdir(fleet)) == [*names, "faults.json"]
    for name in names:
        file = pq.ParquetFile(fleet / name)
        assert file.metadata.num_rows == ROWS
        assert file.num_row_groups >= 3
        assert [str(field.type) for field in file.schema_arrow] == ["timestamp[ms]", *["float"] * 8, "bool"]


def test_the_same_seed_writes_the_same_bytes(fleet, tmp_path):
    names = make(tmp_path, "--assets", 4, "--rows", ROWS)
    same, _, _ = filecmp.cmpfiles(fleet, tmp_path, names, shallow=False)
    assert sorted(same) == names


def test_another_seed_and_another_pump_differ(fleet, tmp_path):
    make(tmp_path, "--assets", 1, "--rows", ROWS, "--seed", 8)
    assert not filecmp.cmp(fleet / "asset-000.parquet", tmp_path / "asset-000.parquet", shallow=False)
    assert not filecmp.cmp(fleet / "asset-000.parquet", fleet / "asset-001.parquet", shallow=False)


def test_time_runs_at_one_hertz_with_short_and_long_pauses(fleet):
    steps = np.diff(columns(fleet / "asset-000.parquet")["timestamp"]) / np.timedelta64(1, "s")
    assert steps.min() == 1
    assert (steps == 1).mean() > 0.99
    assert ((steps > 1) & (steps < 5)).any()
    assert (steps > 5).any()


def test_values_are_missing_in_runs_of_one_to_eight(fleet):
    values = columns(fleet / "asset-000.parquet")["flow_m3h"]
    edges = np.diff(np.concatenate([[0], np.isnan(values).astype(int), [0]]))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    assert set(lengths) == set(range(1, 9))


def test_one_sensor_never_moves_and_the_others_go_together(fleet):
    sensors = columns(fleet / "asset-000.parquet")
    assert np.nanmin(sensors["valve_pct"]) == np.nanmax(sensors["valve_pct"]) == 100
    both = ~np.isnan(sensors["flow_m3h"]) & ~np.isnan(sensors["power_kw"])
    assert np.corrcoef(sensors["flow_m3h"][both], sensors["power_kw"][both])[0, 1] > 0.9


def test_the_fault_shows_where_faults_json_says(fleet):
    faults = json.loads((fleet / "faults.json").read_text())
    assert faults == {"asset-003.parquet": {"fault": "bearing", "from_row": 18_000}}
    assert (columns(fleet / "asset-003.parquet")["fault"] == (np.arange(ROWS) >= 18_000)).all()
    assert not columns(fleet / "asset-002.parquet")["fault"].any()
    vibration = columns(fleet / "asset-003.parquet")["vibration_mm_s"]
    assert np.nanmax(vibration[18_000:]) > np.nanmax(vibration[:18_000]) + 2


def test_a_smaller_fleet_replaces_a_larger_and_leaves_other_files(tmp_path):
    make(tmp_path, "--assets", 3, "--rows", 500)
    (tmp_path / "notes.txt").write_text("mine")
    before = os.stat(tmp_path / "asset-000.parquet").st_mtime_ns
    assert make(tmp_path, "--assets", 2, "--rows", 500) == [
        "asset-000.parquet",
        "asset-001.parquet",
        "faults.json",
        "notes.txt",
    ]
    assert os.stat(tmp_path / "asset-000.parquet").st_mtime_ns == before  # the same bytes are left alone


def test_csv_holds_the_same_values(fleet, tmp_path):
    make(tmp_path, "--assets", 1, "--rows", ROWS, "--format", "csv")
    table = pyarrow.csv.read_csv(tmp_path / "asset-000.csv")
    expected = columns(fleet / "asset-000.parquet")
    assert table.column_names == list(expected)
    flow = table["flow_m3h"].to_numpy()
    np.testing.assert_allclose(flow.astype(np.float32), expected["flow_m3h"])
