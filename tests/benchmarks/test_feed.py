"""The readers that are compared give the same windows, and the mixing is measured right. No test looks at a time."""

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.trainer.tools.verify_dataset import verify

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))  # the scripts import each other as siblings
feed = importlib.import_module("feed")
feed_data = importlib.import_module("feed_data")
feed_mixing = importlib.import_module("feed_mixing")
feed_readers = importlib.import_module("feed_readers")
turns = importlib.import_module("turns")

SIZES = feed_data.Sizes(assets=6, rows=200, length=16, stride=8, shards=2, segment_bytes=2048)


def installed(name):
    needed = feed_readers.NEEDS.get(name)
    return needed is None or importlib.util.find_spec(needed) is not None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("feed"))
    feed.write_inputs(folder, SIZES, [name for name in feed_readers.READERS if installed(name)])
    return folder


@pytest.mark.parametrize("name", [name for name in feed_readers.READERS if name != "Grain, processes"])
def test_a_reader_gives_every_window_once_an_epoch(folder, name):
    if not installed(name):
        pytest.skip(f"{feed_readers.NEEDS[name]} is not installed")
    batches = feed_readers.READERS[name](folder, SIZES, 8, 32)
    assert SIZES.windows == 6 * 24
    windows = np.concatenate([np.asarray(next(batches)) for _ in range(SIZES.windows // 8)])
    expected = np.concatenate([feed_data.frame(feed_data.asset_values(SIZES, asset), SIZES) for asset in range(6)])
    assert sorted(window.tobytes() for window in windows) == sorted(window.tobytes() for window in expected)
    assert not np.array_equal(windows, expected)


def test_the_manifest_holds_what_was_written(folder):
    for records in (feed_readers.SEGMENTS, feed_readers.WINDOWS):
        output = f"{folder}/{records}"
        read = find_manifest(output)
        # It holds no checksums.
        assert [line for line in verify(read, output) if ": crc32c " not in line] == []
        assert read.splits["train"].windows == SIZES.windows


def test_a_full_shuffle_is_mixed_and_no_shuffle_is_not():
    asset, time = (column.ravel() for column in np.mgrid[0:20, 0:500])
    order = np.random.default_rng(1).permutation(len(asset))
    full = feed_mixing.measure(asset[order], time[order], batch=100)
    assert full.neighbours == pytest.approx(1, abs=0.1)
    assert full.spread == pytest.approx(1, abs=0.1)
    assert full.order < 0.1
    assert abs(full.carry_over) < 0.1
    none = feed_mixing.measure(asset, time, batch=100)
    assert none.neighbours == pytest.approx(20, rel=0.01)
    assert none.order == pytest.approx(1)
    assert none.spread == pytest.approx(100, rel=0.05)
    assert none.carry_over > 0.7


def test_assets_in_turns_are_spread_evenly_but_in_order():
    time, asset = (column.ravel() for column in np.mgrid[0:500, 0:20])
    turns = feed_mixing.measure(asset, time, batch=100)
    assert (turns.neighbours, turns.spread) == (0, 0)
    assert turns.order == pytest.approx(1)


def test_shuffling_mixes(tmp_path):
    """Everything fits into one round here, so however little is asked for, the whole is mixed."""
    manifest = feed_data.write_segments(str(tmp_path), feed_data.Sizes(20, 2_000, segment_bytes=8192, shards=4))
    found = feed_mixing.compare(manifest, str(tmp_path), batch=32, shuffle=160)
    assert list(found) == ["full shuffle", "shuffle 1,280", "shuffle 160", "shuffle 20", "no shuffle"]
    full, *shuffled, none = found.values()
    assert full.spread == pytest.approx(1, abs=0.1)
    for mixing in shuffled:  # a batch holds as many windows of each asset as by chance, or even closer to its share
        assert mixing.spread < 1.1
        assert abs(mixing.carry_over) < 0.3
        assert mixing.order < 0.2
    assert none.spread > 5
    # Windows beside each other in a batch come from one lane; in which row of a batch a window is does not matter.
    assert all(mixing.neighbours < none.neighbours / 2 for mixing in shuffled)
    assert len(list(feed_mixing.describe(found))) == 6


def test_medians_and_ratios_of_turns():
    pairs = {"ours": iter([(10, 5), (30, 7), (20, 6)]), "other": iter([(1, 1), (2, 2), (9, 3)])}
    result = turns.compare(list(pairs), lambda name: next(pairs[name]), 3)
    turns.add_ratio(result, "ours")
    assert result["ours"] == {"windows_per_second": 20, "peak_rss_mb": 6, "ours_is_faster": 1}
    assert result["other"] == {"windows_per_second": 2, "peak_rss_mb": 2, "ours_is_faster": 10}


@pytest.mark.slow
def test_the_command_compares_and_writes_json(tmp_path):
    out = tmp_path / "feed.json"
    sizes = "--assets 6 --rows 200 --length 16 --stride 8 --shards 2 --batch 8 --shuffle 32 --seconds 0.2 --repeats 1"
    command = [sys.executable, str(ROOT / "benchmarks" / "feed.py"), *sizes.split(), "--json", str(out)]
    done = subprocess.run(
        [*command, "--only", feed_readers.OURS, "NumPy in memory"],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(out.read_text()) == json.loads(done.stdout)
    found = json.loads(out.read_text())["results"]
    assert list(found) == [feed_readers.OURS, "NumPy in memory"]
    assert all(row["windows_per_second"] > 0 and row["peak_rss_mb"] > 10 for row in found.values())


@pytest.mark.slow
def test_grain_in_processes_reads(folder):
    if not installed("Grain, processes"):
        pytest.skip("grain is not installed")
    code = (
        "import sys; sys.path.insert(0, 'benchmarks'); import feed_data, feed_readers\n"
        "if __name__ == '__main__':\n"
        "    sizes = feed_data.Sizes(assets=6, rows=200, length=16, stride=8, shards=2, segment_bytes=2048)\n"
        f"    print(next(feed_readers.grain_processes({folder!r}, sizes, 8, 32)).shape)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "(8, 16, 8)" in done.stdout, done.stderr
