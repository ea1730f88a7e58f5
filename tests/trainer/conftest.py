"""Small real datasets, written as the pipelines write them, and what a plain loop reads from them."""

import os
import socket
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field

import google_crc32c
import numpy as np
import pytest
import tensorflow as tf
from exports import in_same_process

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset import layout
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo, write_manifest
from beamfeed.contract.dataset.result import write_result
from beamfeed.transforms.records import blocks

FINGERPRINT = "0f" * 32


@dataclass
class Written:
    """A dataset on disk. `windows[split]` holds what a reader must find: [windows, length, features]."""

    output: str
    manifest: Manifest
    windows: dict[str, np.ndarray] = field(default_factory=dict)

    def shards(self, split: str = "train") -> list[str]:
        return self.manifest.shard_paths(self.output, split)


def frame(segment: np.ndarray, length: int, stride: int) -> list[np.ndarray]:
    """The windows of one segment, by a plain loop."""
    return [segment[start : start + length] for start in range(0, len(segment) - length + 1, stride)]


def example(asset: str, start: int, values: np.ndarray) -> bytes:
    def ints(*numbers: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))

    feature = {
        "asset": tf.train.Feature(bytes_list=tf.train.BytesList(value=[asset.encode()])),
        "start": ints(start),
        "first_time": ints(start * 1000),
        "last_time": ints((start + len(values) - 1) * 1000),
        "values": tf.train.Feature(float_list=tf.train.FloatList(value=values.ravel())),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def segments_of(rows: list[int], features: int, seed: int = 0) -> list[np.ndarray]:
    """Segments of these lengths, smooth enough to be learned: a sine with noise for each feature."""
    rng = np.random.RandomState(seed)
    time = [np.arange(count)[:, None] / 5 + rng.rand(1, features) * 6 for count in rows]
    return [(np.sin(t) + 0.05 * rng.randn(*t.shape)).astype("f4") for t in time]


def write_dataset(
    output: str,
    segments: dict[str, list[np.ndarray]],
    *,
    length: int,
    stride: int,
    shards: int = 2,
    compression: str = "none",
    records: str = "segments",
    block_bytes: int = blocks.BLOCK_BYTES,
) -> Written:
    """Deals each split's segments out to shards and publishes the manifest. One segment, one asset."""
    features = next(values.shape[1] for split in segments.values() for values in split)
    names = layout.DataLayout.of(output, FINGERPRINT)
    splits, expected = {}, {}
    for split, arrays in segments.items():
        per_shard: list[list[tuple[str, int, np.ndarray]]] = [[] for _ in range(shards)]
        for i, values in enumerate(arrays):
            pieces = [(f"asset-{i:02d}", 0, values)]
            if records == "windows":
                pieces = [
                    (f"asset-{i:02d}", n * stride, window) for n, window in enumerate(frame(values, length, stride))
                ]
            per_shard[i % shards].extend(pieces)
        made = [
            write_shard(names, split, n, shards, part, length, stride, compression, block_bytes)
            for n, part in enumerate(per_shard)
        ]
        infos = [shard for shard, _ in made]
        write_blocks(names.blocks(split), blocks.index_table([index for _, index in made]))
        windows = [window for values in arrays for window in frame(values, length, stride)]
        expected[split] = np.array(windows, "f4").reshape(-1, length, features)
        splits[split] = SplitInfo(
            assets=len(arrays),
            windows=sum(info.windows for info in infos),
            records=sum(info.records for info in infos),
            bytes=sum(info.bytes for info in infos),
            shards=infos,
        )
    manifest = Manifest(
        name="tiny",
        kind="timeseries",
        fingerprint=FINGERPRINT,
        data=names.folder,
        fields=series_fields([f"sensor_{i}" for i in range(features)]),
        windows=Windows(length=length, stride=stride),
        records=records,
        compression=compression,
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1),
        splits=splits,
    )
    write_manifest(output, manifest)
    return Written(output, manifest, expected)


def series_fields(columns: list[str]) -> list[Field]:
    """What a record of a time series without labels holds."""
    return [
        Field(name="asset", dtype="bytes", role="key", per="record"),
        *(Field(name=name, dtype="int64", role="key", per="record") for name in ("first_time", "last_time", "start")),
        Field(name="values", dtype="float32", shape=(len(columns),), role="input", columns=columns),
    ]


def write_shard(
    names, split, index, count, part, length, stride, compression, block_bytes
) -> tuple[Shard, np.ndarray]:  # fmt: skip
    path = names.shard(split, index, count)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with tf.io.TFRecordWriter(path, "GZIP" if compression == "gzip" else None) as writer:
        for asset, start, values in part:
            writer.write(example(asset, start, values))
    with open(path, "rb") as file:
        data = file.read()
    shard = Shard(
        records=len(part),
        windows=sum((len(values) - length) // stride + 1 for _, _, values in part),
        rows=sum(len(values) for _, _, values in part),
        bytes=len(data),
        crc32c=f"{google_crc32c.value(data):08x}",
    )
    return shard, blocks.cut_blocks(
        np.array([len(example(*item)) for item in part], np.int64),
        np.array([len(values) for _, _, values in part], np.int64),
        Windows(length=length, stride=stride),
        block_bytes,
    )


def make_job(output: str, **train: object) -> TrainingJob:
    """A job with a model small enough to train in a second."""
    section = {
        "model": {"name": "dense_autoencoder", "units": [6], "latent": 2},
        "feed": {"batch_size": 8, "shuffle": 32},
        "optimizer": {"name": "adam", "learning_rate": 0.01},
        "epochs": 2,
        "review": {"baselines": "none"},
        **train,
    }
    return TrainingJob.model_validate(
        {
            "name": "tiny",
            "source": {"kind": "timeseries", "files": "*.csv", "time": {"column": "t"}, "features": ["sensor_*"]},
            "windows": {"length": 8, "stride": 4},
            "output": {"path": output},
            "train": section,
        }
    )


@pytest.fixture
def helpers():
    """The functions of this file, for tests that write datasets of their own."""
    import types

    return types.SimpleNamespace(**{name: value for name, value in globals().items() if callable(value)})


@pytest.fixture(autouse=True, scope="module")
def exports_are_asked_here(request: pytest.FixtureRequest):
    """Of the many training runs of tests in this process; test_fresh.py asks in one of their own."""
    with nullcontext() if request.path.name == "test_fresh.py" else in_same_process():
        yield


def write_three_splits(output: str) -> Written:
    """Windows of 8 rows, stride 4, 3 features: 68 to train, 12 to evaluate, 10 to test."""
    segments = {
        "train": segments_of([24, 40, 32, 48, 28, 36, 44, 52], 3, seed=1),
        "eval": segments_of([28, 24, 8], 3, seed=2),
        "test": segments_of([24, 24], 3, seed=3),
    }
    return write_dataset(output, segments, length=8, stride=4)


@pytest.fixture
def written(tmp_path) -> Written:
    return write_three_splits(str(tmp_path / "data"))


@pytest.fixture
def job(written, tmp_path) -> Callable[..., TrainingJob]:
    """Makes a job on `written`; keywords replace keys of its train section."""
    return lambda **train: make_job(written.output, **{"workdir": str(tmp_path / "run"), **train})


@pytest.fixture
def without_export(monkeypatch):
    """`trainer.main` writes its result, and neither a model nor a review, which take longer than a small training."""
    from beamfeed.trainer.export import run

    monkeypatch.setattr(run, "export_run", lambda job, _, trained, *__: write_result(job.train.workdir, trained.result))


def find_ports(count: int) -> list[int]:
    """Ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="session")
def free_ports() -> Callable[[int], list[int]]:
    return find_ports


@pytest.fixture(scope="session")
def helpers_module():
    """As `helpers`, for property tests, which must not depend on fixtures made anew for each test."""
    import sys

    return sys.modules[__name__]
