"""The comparison is fair: every alternative really runs, and writes the windows that ours writes."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fleets import read_windows
from sampling import sample

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))  # the scripts import each other as siblings
alternatives = importlib.import_module("alternatives")
make_fleet = importlib.import_module("fleet").make_fleet

LENGTH, STRIDE, SENSORS = 64, 16, 8
ASSETS, ROWS = 3, 3_001  # the last rows are in no window
BY_NAME = {a.name: a for a in alternatives.ALTERNATIVES}
OTHERS = [name for name in BY_NAME if name != alternatives.OURS]


def run(name, files, folder):
    """Runs an alternative as the benchmark does; returns its output folder."""
    output = folder / "output"
    command = BY_NAME[name].command(files, output, folder, 2)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return output


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    make_fleet(str(folder), ASSETS, ROWS)
    return folder


@pytest.fixture(scope="module")
def expected(files, tmp_path_factory):
    """Our windows, [windows, length * sensors]."""
    output = run(alternatives.OURS, files, tmp_path_factory.mktemp("ours"))
    by_asset = read_windows(output, "train")
    assert len(by_asset) == ASSETS
    return np.stack([window.ravel() for windows in by_asset.values() for window in windows.values()])


def read_examples(output):
    """The windows of Examples with one float list, in whatever files."""
    import tensorflow as tf

    found = []
    for path in sorted(p for p in output.rglob("*") if ".tfrecord" in p.name):
        for raw in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            found.append(tf.train.Example.FromString(raw).features.feature["values"].float_list.value)
    return np.array(found, np.float32)


def read_bound(output):
    """The windows of runs of bare floats."""
    import tensorflow as tf

    found = []
    for raw in tf.data.TFRecordDataset(str(output / "data.tfrecord")).as_numpy_iterator():
        rows = np.frombuffer(raw, "<f4").reshape(-1, SENSORS)
        assert (len(rows) - LENGTH) % STRIDE == 0
        found.extend(rows[at : at + LENGTH].ravel() for at in range(0, len(rows) - LENGTH + 1, STRIDE))
    return np.array(found)


def assert_same_windows(found, expected):
    """Each of ours has one counterpart, in any order."""
    assert found.shape == expected.shape
    nearest = [int(np.abs(found - window).max(axis=1).argmin()) for window in expected]
    assert len(set(nearest)) == len(expected)
    np.testing.assert_allclose(found[nearest], expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_ours_writes_every_window_standardized(expected):
    assert expected.shape == (ASSETS * ((ROWS - LENGTH) // STRIDE + 1), LENGTH * SENSORS)
    values = expected.reshape(-1, SENSORS)
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(values.std(axis=0), 1, atol=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", sample(OTHERS, [name for name in OTHERS if name != "Beam, processes"]))
def test_an_alternative_writes_the_same_windows(name, files, expected, tmp_path):
    if BY_NAME[name].needs:
        pytest.importorskip(BY_NAME[name].needs, reason="only for benchmarks: make bench installs it")
    output = run(name, files, tmp_path)
    assert_same_windows(read_bound(output) if name == "bound" else read_examples(output), expected)


def test_a_fleet_is_the_same_for_a_seed_and_its_assets_differ(tmp_path):
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        make_fleet(str(tmp_path / name), 2, 100, seed)
    first, second = (tmp_path / "one" / f"asset-000{i}.parquet" for i in (0, 1))
    assert first.read_bytes() == (tmp_path / "two" / first.name).read_bytes()
    assert first.read_bytes() != (tmp_path / "three" / first.name).read_bytes()
    assert first.read_bytes() != second.read_bytes()
