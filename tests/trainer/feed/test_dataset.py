"""The feed against plain NumPy loops: every window, once, in an order that the seed decides."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from feeds import arguments, flip
from hypothesis import given, settings
from hypothesis import strategies as st

from beamfeed.contract.dataset.blocks import SCHEMA, read_blocks, write_blocks
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed import batching, cache, dataset
from beamfeed.trainer.feed.cache import remove_copies
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import CutOff, Tuning
from beamfeed.trainer.feed.read_errors import explained
from beamfeed.trainer.feed.sharding import Distribution


def load(written, split="train", *, worker=0, workers=1, replicas=1, cache="none", tuning=Tuning(), **options):
    """The feed under test, with batches of 8."""
    tuning, distribution = replace(tuning, cache=cache), Distribution(worker, workers, replicas)
    given = {"batch_size": 8, **options, "distribution": distribution, "tuning": tuning}
    return load_dataset(written.output, split, **arguments(**given))


def read(written, split="train", **options):
    """The values of batches as NumPy arrays, with the weights of padded ones."""
    return [
        (batch[0]["values"].numpy(), batch[1].numpy()) if isinstance(batch, tuple) else batch["values"].numpy()
        for batch in load(written, split, **options)
    ]


def keys(windows) -> list[bytes]:
    return sorted(window.tobytes() for window in windows)


def real(batches) -> np.ndarray:
    """The windows of padded batches that are not padding."""
    return np.concatenate([windows[weights > 0] for windows, weights in batches])


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_framing_equals_a_plain_loop(helpers_module, data):
    length = data.draw(st.integers(1, 9))
    stride = data.draw(st.integers(1, 5))
    features = data.draw(st.integers(1, 3))
    rows = data.draw(st.lists(st.integers(length, length + 20), min_size=1, max_size=7))
    batch = data.draw(st.integers(1, 12))
    workers = data.draw(st.integers(1, min(3, batch)))
    with tempfile.TemporaryDirectory() as folder:
        segments = {"eval": helpers_module.segments_of(rows, features)}
        written = helpers_module.write_dataset(
            folder, segments, length=length, stride=stride, shards=data.draw(st.integers(1, 3))
        )
        parts = [
            read(written, "eval", batch_size=batch, remainder="pad", worker=i, workers=workers) for i in range(workers)
        ]
    whole = np.concatenate([real(part) for part in parts])
    assert whole.shape[1:] == ((length, features) if length > 1 else (features,))
    assert keys(whole) == keys(written.windows["eval"])
    assert len({len(part) for part in parts}) == 1  # the same number of steps


def test_workers_share_the_same_global_batches(written):
    options = {"batch_size": 10, "shuffle": 16, "epochs": 2}
    alone = read(written, **options)
    assert len(alone) == 2 * (len(written.windows["train"]) // 10)
    for workers, replicas in ((1, 2), (3, 2)):
        parts = [read(written, worker=i, workers=workers, replicas=replicas, **options) for i in range(workers)]
        steps = [
            np.concatenate([batch for part in parts for batch in part[step * replicas : (step + 1) * replicas]])
            for step in range(len(alone))
        ]
        np.testing.assert_array_equal(steps, alone)


@pytest.mark.parametrize("workers", [1, 3])
def test_evaluation_counts_each_window_once(written, workers):
    parts = [read(written, "eval", remainder="pad", worker=i, workers=workers) for i in range(workers)]
    assert keys(np.concatenate([real(part) for part in parts])) == keys(written.windows["eval"])
    assert {len(part) for part in parts} == {2}
    assert all(not windows[weights == 0].any() for part in parts for windows, weights in part)


def test_training_reads_no_window_twice_and_leaves_out_less_than_a_batch(written):
    windows = np.concatenate(read(written, batch_size=7, shuffle=20))
    assert len(windows) == len(written.windows["train"]) // 7 * 7
    assert len(set(keys(windows))) == len(windows)
    assert set(keys(windows)) <= set(keys(written.windows["train"]))


def test_order_repeats_with_the_seed_and_differs_among_epochs_and_seeds(written):
    def epoch(**options):
        return np.concatenate(read(written, shuffle=16, **options))

    both = epoch(epochs=2)
    first, second = np.split(both, 2)
    np.testing.assert_array_equal(both, epoch(epochs=2))
    np.testing.assert_array_equal(second, epoch(start=(1, 0)))  # as a resumed run reads it
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, epoch(seed=8))


@pytest.mark.parametrize("cache", ["none", "memory"])
def test_the_order_does_not_depend_on_the_seed_of_tensorflow(written, cache):
    orders = []
    for seed in (1, 2):
        tf.random.set_seed(seed)
        orders.append(np.concatenate(read(written, shuffle=16, epochs=2, cache=cache)))
    np.testing.assert_array_equal(*orders)


@pytest.mark.parametrize("seed", [0, -1, 2**40])
def test_every_seed_is_one(written, seed):
    first, again = (np.concatenate(read(written, shuffle=16, seed=seed)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_numbers_may_be_those_of_numpy(written):
    given = {"shuffle": 16, "seed": -1, "epochs": 2, "batch_size": 4}
    expected = read(written, **given)
    np.testing.assert_array_equal(expected, read(written, **{name: np.int64(given[name]) for name in given}))


@pytest.mark.parametrize("records", ["segments", "windows"])
def test_long_windows_are_not_mixed_beyond_the_memory_for_it(helpers, tmp_path, monkeypatch, records):
    segments = {"train": helpers.segments_of([40] * 8, 2)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=4, records=records, block_bytes=1)

    def round_rows():
        rounds = load(written, batch_size=4, shuffle=50, epochs=1, tuning=CutOff(until="frame"))
        return [len(columns["values"]) for columns, _, _ in rounds]

    assert len(round_rows()) == 1
    expected = keys(np.concatenate(read(written, batch_size=4, shuffle=50)))
    monkeypatch.setattr(batching, "MOST_BYTES", 1000)  # of 8 bytes a row
    assert len(round_rows()) > 1
    # A lane reads whole blocks, here of one record: up to two more than it needs.
    longest = max(shard.rows // shard.records for shard in written.manifest.splits["train"].shards)
    assert max(round_rows()) <= 125 + 4 * 2 * longest
    assert keys(np.concatenate(read(written, batch_size=4, shuffle=50))) == expected


def test_the_size_of_what_is_gathered_at_a_time_changes_nothing(written, monkeypatch):
    expected = read(written, shuffle=16, batch_size=7, worker=1, workers=2)
    for chunk in (1, 500):
        monkeypatch.setattr(dataset, "CHUNK_BYTES", chunk)
        for a, b in zip(expected, read(written, shuffle=16, batch_size=7, worker=1, workers=2), strict=True):
            np.testing.assert_array_equal(a, b)


def test_tuning_changes_how_and_not_what(written):
    expected = read(written, shuffle=16)
    for tuning in (Tuning(open_blocks=1), Tuning(parallel=False), Tuning(prefetch=False), Tuning(rounds=1)):
        for a, b in zip(expected, read(written, shuffle=16, tuning=tuning), strict=True):
            np.testing.assert_array_equal(a, b)


def test_without_shuffling_the_order_is_that_of_the_records(helpers, tmp_path):
    segments = {"train": helpers.segments_of([20, 30, 25], 2)}
    written = helpers.write_dataset(str(tmp_path), segments, length=5, stride=5, shards=1)
    windows = np.concatenate(read(written, batch_size=3))
    np.testing.assert_array_equal(windows, written.windows["train"])


def test_shuffling_mixes_assets(helpers, tmp_path):
    # Each asset holds its own number, so a window says whose it is.
    segments = {"train": [np.full((40, 1), i, "f4") for i in range(8)]}
    written = helpers.write_dataset(str(tmp_path), segments, length=4, stride=4, shards=2)
    batches = read(written, batch_size=10, shuffle=80)
    assert all(len(np.unique(batch)) >= 4 for batch in batches)


@pytest.mark.parametrize(
    ("cache", "remainder", "skip_corrupt"),  # each pair
    [("memory", "drop", True), ("memory", "pad", False), ("file", "drop", False), ("file", "pad", True)],
)
def test_a_cache_gives_the_same_windows_and_reads_the_shards_once(written, cache, remainder, skip_corrupt):
    options = {"batch_size": 4, "shuffle": 16, "remainder": remainder, "skip_corrupt": skip_corrupt, "epochs": 3}
    expected = read(written, **options)
    feed = load(written, cache=cache, **options).as_numpy_iterator()
    for path in written.shards():
        os.remove(path)
    for a, b in zip(expected, feed, strict=True):
        batch, weights = b if remainder == "pad" else (b, None)
        values = a[0] if remainder == "pad" else a
        np.testing.assert_array_equal(values, batch["values"])
        if remainder == "pad":
            np.testing.assert_array_equal(a[1], weights)


@pytest.mark.parametrize(("cache", "compression"), [("memory", "none"), ("file", "none"), ("none", "gzip")])
def test_a_worker_caches_the_shards_of_its_part_alone(helpers, tmp_path, cache, compression):
    segments = {"eval": helpers.segments_of([40] * 8, 2)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=4, shards=4, compression=compression)
    options = {"split": "eval", "batch_size": 8, "remainder": "pad", "workers": 4}
    paths = [Path(path) for path in written.shards("eval")]
    whole = [path.read_bytes() for path in paths]
    for worker in (0, 2):
        remove_copies()
        expected = read(written, worker=worker, **options)
        for number, path in enumerate(paths):  # the part of a worker is in one shard
            path.write_bytes(whole[number] if number == worker else b"")
        for a, b in zip(expected, read(written, worker=worker, cache=cache, **options), strict=True):
            np.testing.assert_array_equal(a[0], b[0])
            np.testing.assert_array_equal(a[1], b[1])
        for path, content in zip(paths, whole, strict=True):
            path.write_bytes(content)


@pytest.mark.parametrize("damage", ["cut off", "flipped", "of another kind"])
def test_a_damaged_compressed_shard_stops_with_its_name(helpers, tmp_path, damage):
    segments = {"train": helpers.segments_of([40] * 4, 2)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=4, shards=1, compression="gzip")
    (path,) = written.shards()
    if damage == "cut off":
        os.truncate(path, os.path.getsize(path) // 2)
    elif damage == "flipped":
        flip(path, os.path.getsize(path) // 2)
    else:
        with open(path, "wb") as file:
            file.write(b"not gzip at all")
    with pytest.raises(UserError, match="damaged") as caught:
        read(written)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


def test_copies_that_do_not_fit_are_told(written, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache, "_copy", full)
    with pytest.raises(UserError, match="No space left on device; TMPDIR"):
        read(written, cache="file")


@pytest.mark.parametrize(("workers", "begins"), [(1, [1, 8, 15]), (3, [12])])
def test_reading_can_begin_at_any_step(helpers, tmp_path, monkeypatch, workers, begins):
    monkeypatch.setattr(batching, "LEAST_BYTES", 0)
    monkeypatch.setattr(batching, "MOST_BYTES", 4000)
    segments = {"train": helpers.segments_of([24, 40, 32, 48, 28, 36, 44, 52], 3)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=4, shards=3, block_bytes=1)
    options = {"batch_size": 8, "shuffle": 16, "worker": workers - 1, "workers": workers}
    whole = read(written, epochs=2, **options)
    assert len(whole) == 16
    for begin in begins:
        rest = read(written, start=divmod(begin, 8), epochs=2 - begin // 8, **options)
        for a, b in zip(whole[begin:], rest, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_comes_before_the_first_step_is_not_read(helpers, tmp_path, monkeypatch):
    monkeypatch.setattr(batching, "LEAST_BYTES", 0)
    monkeypatch.setattr(batching, "MOST_BYTES", 1)
    segments = {"train": helpers.segments_of([40] * 8, 2)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=8, shards=8)
    options = {"batch_size": 5, "lanes": 1, "shuffle": 1, "seed": 3}
    eighth = read(written, start=(0, 7), **options)
    unread = next(path for path in written.shards() if tried(path, lambda: read(written, start=(0, 7), **options)))
    flip(unread, os.path.getsize(unread) // 2)
    np.testing.assert_array_equal(read(written, start=(0, 7), **options), eighth)
    with pytest.raises(tf.errors.DataLossError):
        read(written, **options)


def tried(path, call) -> bool:
    """Whether a call goes well without this file's content."""
    with open(path, "rb") as file:
        content = file.read()
    try:
        with open(path, "wb") as file:
            file.write(bytes(len(content)))
        call()
        return True
    except tf.errors.DataLossError:
        return False
    finally:
        with open(path, "wb") as file:
            file.write(content)


@pytest.mark.parametrize(("compression", "records"), [("gzip", "segments"), ("none", "windows"), ("gzip", "windows")])
def test_formats_give_the_same_windows(helpers, tmp_path, compression, records):
    segments = {"eval": helpers.segments_of([20, 33, 8], 2)}
    written = helpers.write_dataset(
        str(tmp_path), segments, length=8, stride=3, compression=compression, records=records
    )
    assert keys(real(read(written, "eval", remainder="pad"))) == keys(written.windows["eval"])


def test_a_relative_path_is_of_the_folder_at_the_call(written, monkeypatch):
    folder = Path(written.output)
    monkeypatch.chdir(folder.parent)
    windows = load_dataset(folder.name, "train", batch_size=8)
    monkeypatch.chdir("/")
    expected = read(written)
    np.testing.assert_array_equal([batch["values"].numpy() for batch in windows], expected)


def test_the_size_is_known(written):
    def size(**options):
        return load(written, **options).cardinality().numpy()

    windows = len(written.windows["train"])
    assert size() == windows // 8
    assert size(epochs=3, replicas=2) == 6 * (windows // 8)
    assert size(remainder="pad") == -(-windows // 8)
    assert size(epochs=None) == tf.data.INFINITE_CARDINALITY


def test_a_damaged_shard_stops_with_its_name(written):
    bad = written.shards()[1]
    flip(bad, os.path.getsize(bad) // 2)
    with pytest.raises(UserError, match="damaged") as caught, explained(written.manifest, written.output):
        read(written)
    assert bad in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("remainder", ["drop", "pad"])
def test_a_damaged_shard_is_passed_over(written, capfd, remainder):
    bad = written.shards()[1]
    flip(bad, os.path.getsize(bad) // 2)
    options = {"skip_corrupt": True, "remainder": remainder, "epochs": 2, "shuffle": 16}
    batches = read(written, **options)
    windows = real(batches) if remainder == "pad" else np.concatenate(batches)
    steps = len(written.windows["train"]) / 8
    assert len(batches) == 2 * (int(steps) if remainder == "drop" else -int(-steps // 1))
    found = set(keys(windows))
    assert found < set(keys(written.windows["train"]))
    assert len(found) > len(written.windows["train"]) // 2  # all of the other shard, and the first part of this one
    assert f"{bad}: damaged after byte 0, passed over 2 records" in capfd.readouterr().err


def test_a_split_that_is_wholly_damaged_stops(written):
    for path in written.shards():
        flip(path, 5)
    with pytest.raises(UserError, match="differ from the manifest"), explained(written.manifest, written.output):
        read(written, skip_corrupt=True)


def test_fewer_windows_than_the_manifest_says_stops(written):
    manifest = written.manifest.model_copy(deep=True)
    object.__setattr__(manifest.splits["train"], "windows", 80)
    shard = manifest.splits["train"].shards[0]
    object.__setattr__(shard, "windows", shard.windows + 12)
    path = manifest.data_layout(written.output).blocks("train")
    blocks = read_blocks(written.output, written.manifest, "train").to_pylist()
    blocks[0]["windows"] += 12
    write_blocks(path, pa.Table.from_pylist(blocks, SCHEMA))
    with pytest.raises(UserError, match="differ from the manifest"), explained(manifest, written.output):
        list(load(written, manifest=manifest))


def test_a_missing_shard_stops_at_once(written):
    os.remove(written.shards()[0])
    with pytest.raises(UserError, match="missing") as caught:
        load(written)
    assert written.shards()[0] in str(caught.value)


def test_a_split_without_a_batch_stops_at_once(written):
    with pytest.raises(UserError, match="fewer than one batch"):
        load(written, batch_size=1000)
    with pytest.raises(UserError, match="number of devices"):
        load(written, batch_size=2, workers=3)


def test_stale_shards_are_not_read(written):
    stale = os.path.join(os.path.dirname(written.shards()[0]), "part-00007-of-00008.tfrecord")
    with open(written.shards()[0], "rb") as source, open(stale, "wb") as copy:
        copy.write(source.read())
    assert len(real(read(written, remainder="pad"))) == len(written.windows["train"])
