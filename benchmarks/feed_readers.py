"""The ways to feed that are compared: each reads shuffled batches of the same windows, without end.

A reader takes the folder that `feed.py` has filled, and returns an iterator of `[batch, length, features]`.
Frameworks are imported by the reader that needs them, so that each has its own memory.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import feed_data
import numpy as np
from feed_data import Sizes

SEGMENTS, WINDOWS, ARRAYS = "segments", "windows", "arrays"  # folders
OURS = "beamfeed"

Reader = Callable[[str, Sizes, int, int], Iterator[Any]]


def ours(folder: str, sizes: Sizes, batch: int, shuffle: int, records: str = SEGMENTS) -> Iterator[Any]:
    from beamfeed.trainer.feed.dataset import load_dataset

    output = os.path.join(folder, records)
    batches = load_dataset(output, feed_data.SPLIT, batch_size=batch, shuffle=shuffle, epochs=None)
    return (fields["values"] for fields in batches)


def ours_windows(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Iterator[Any]:
    return ours(folder, sizes, batch, shuffle, WINDOWS)


def common_chain(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Iterator[Any]:
    """The chain of most tutorials: each window is an Example, parsed by itself."""
    import tensorflow as tf

    spec = {"values": tf.io.FixedLenFeature([sizes.length, sizes.features], tf.float32)}
    files = tf.data.Dataset.list_files(os.path.join(folder, WINDOWS, "*", feed_data.SPLIT, "*.tfrecord"), shuffle=False)
    windows = (
        files.shard(num_shards=1, index=0)
        .shuffle(sizes.shards)
        .interleave(tf.data.TFRecordDataset, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
        .shuffle(shuffle)
        .map(lambda record: tf.io.parse_single_example(record, spec)["values"], num_parallel_calls=tf.data.AUTOTUNE)
        .repeat()
    )
    return iter(windows.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE))


def grain_threads(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Iterator[Any]:
    """Grain on ArrayRecord: a full shuffle by random reads, on a thread for each core.

    On its default of 16 threads it is slower here: they wait for Python's lock.
    """
    return iter(_grain(folder, sizes, batch, os.cpu_count() or 1))


def grain_processes(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Iterator[Any]:
    """The same in as many worker processes as there are cores."""
    import grain

    options = grain.MultiprocessingOptions(num_workers=os.cpu_count() or 1)
    return iter(_grain(folder, sizes, batch, 1).mp_prefetch(options))


def _grain(folder: str, sizes: Sizes, batch: int, threads: int) -> Any:
    import grain

    arrays = os.path.join(folder, ARRAYS)
    source = grain.sources.ArrayRecordDataSource([os.path.join(arrays, name) for name in sorted(os.listdir(arrays))])
    return (
        grain.MapDataset.source(source)
        .shuffle(seed=sizes.seed)
        .map(lambda record: np.frombuffer(record, np.float32).reshape(sizes.length, sizes.features))
        .repeat()
        .batch(batch, drop_remainder=True)
        .to_iter_dataset(grain.ReadOptions(num_threads=threads, prefetch_buffer_size=64))
    )


def numpy_slices(folder: str, sizes: Sizes, batch: int, shuffle: int) -> Iterator[np.ndarray]:
    """The ceiling: all rows are in memory, a full shuffle of the windows' starts, one copy per batch, one thread."""
    rows = np.concatenate([feed_data.asset_values(sizes, asset) for asset in range(sizes.assets)])
    within = np.arange(sizes.windows_per_asset) * sizes.stride
    starts = (np.arange(sizes.assets)[:, None] * sizes.rows + within).ravel()
    # A window is one run of memory: strided so that it is copied as one.
    row = sizes.features * rows.itemsize
    shape = len(rows) - sizes.length + 1, sizes.length * sizes.features
    view = np.lib.stride_tricks.as_strided(rows, shape, (row, rows.itemsize), writeable=False)
    random = np.random.default_rng(sizes.seed)
    while True:
        order = random.permutation(starts)
        for i in range(0, len(order) - batch + 1, batch):
            yield view[order[i : i + batch]].reshape(batch, sizes.length, sizes.features)


READERS: dict[str, Reader] = {
    OURS: ours,
    "beamfeed, records: windows": ours_windows,
    "tf.data, one window per record": common_chain,
    "Grain, threads": grain_threads,
    "Grain, processes": grain_processes,
    "NumPy in memory": numpy_slices,
}
NEEDS = {"Grain, threads": "grain", "Grain, processes": "grain"}  # libraries beyond those of the project
