"""The data that feeding is compared on, the same windows in each reader's own format.

Rows are 8 float32 sensors of noise, which does not compress: so bytes mean work. The first two
columns say whose row it is, so that a window tells its asset and its time.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset import layout
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo, Target, write_manifest
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.windowing import SEGMENT_BYTES, Segments

ASSET, TIME = 0, 1  # columns: the asset's number, and the row's number within the asset (exact below 2**24)
FINGERPRINT = b"feed".hex() * 8
SPLIT = "train"


@dataclass(frozen=True)
class Sizes:
    """
    Attributes:
      rows: of each asset.
      shards: files of each format.
      segment_bytes: of the rows in a record.
    """

    assets: int
    rows: int
    features: int = 8
    length: int = 64
    stride: int = 16
    shards: int = 16
    segment_bytes: int = SEGMENT_BYTES
    seed: int = 7

    def __post_init__(self) -> None:
        if self.features < 2 or self.rows < self.length:
            raise ValueError("needs at least 2 features, and a window's rows in each asset")

    @property
    def windows_per_asset(self) -> int:
        return (self.rows - self.length) // self.stride + 1

    @property
    def windows(self) -> int:
        return self.assets * self.windows_per_asset


def asset_values(sizes: Sizes, asset: int) -> np.ndarray:
    """The rows of one asset, float32 `[rows, features]`."""
    values = np.random.default_rng([sizes.seed, asset]).standard_normal((sizes.rows, sizes.features), np.float32)
    values[:, ASSET] = asset
    values[:, TIME] = np.arange(sizes.rows)
    return values


def shard_assets(sizes: Sizes, shard: int) -> list[int]:
    """The assets of a shard: dealt out in a seeded order, as the pipelines deal units of up to 64 MB."""
    order = np.random.default_rng(sizes.seed).permutation(sizes.assets)
    return [int(asset) for asset in order[shard :: sizes.shards]]


def frame(values: np.ndarray, sizes: Sizes) -> np.ndarray:
    """The windows of one asset, without copying: `[windows, length, features]`."""
    windows = np.lib.stride_tricks.sliding_window_view(values, sizes.length, axis=0)[:: sizes.stride]
    return windows.transpose(0, 2, 1)


def _records(sizes: Sizes, asset: int, per_record: int) -> Iterator[tuple[bytes, int]]:
    """The Examples of an asset, with `per_record` windows in each, and their rows."""
    from beamfeed.transforms.records.example_encoder import encode_examples
    from beamfeed.transforms.sources.timeseries.records import record_block

    values = asset_values(sizes, asset)
    position = np.arange(sizes.rows)
    first = np.arange(0, sizes.windows_per_asset, per_record)
    last = np.minimum(first + per_record, sizes.windows_per_asset) - 1
    segments = Segments(first=first * sizes.stride, rows=(last - first) * sizes.stride + sizes.length)
    rows = Rows(position, position, values, np.zeros(sizes.rows, bool), np.zeros((sizes.rows, 0), np.float32))
    block = record_block(f"asset-{asset:05d}", rows, values, segments)
    return zip(encode_examples(block, _fields(sizes), _windows(sizes)), segments.rows.tolist(), strict=True)


def _windows(sizes: Sizes) -> Windows:
    return Windows(length=sizes.length, stride=sizes.stride)


def _fields(sizes: Sizes) -> list[Field]:
    from beamfeed.transforms.sources.timeseries.records import record_fields

    return record_fields([f"sensor_{i}" for i in range(sizes.features)])


def write_segments(output: str, sizes: Sizes) -> Manifest:
    """Our format: segments, and the manifest."""
    row = 4 * sizes.features
    return _write(output, sizes, max(1, (sizes.segment_bytes // row - sizes.length) // sizes.stride + 1), "segments")


def write_windows(output: str, sizes: Sizes) -> Manifest:
    """One window per record, as most readers want it; the folder is also a dataset of ours."""
    return _write(output, sizes, 1, "windows")


def _write(output: str, sizes: Sizes, per_record: int, records: str) -> Manifest:
    def shard(index: int) -> Iterator[tuple[bytes, int]]:
        for asset in shard_assets(sizes, index):
            yield from _records(sizes, asset, per_record)

    shards = [shard(index) for index in range(sizes.shards)]
    return write_dataset(output, "timeseries", _fields(sizes), _windows(sizes), records, sizes.assets, shards)


def write_dataset(
    output: str,
    kind: str,
    fields: list[Field],
    windows: Windows,
    records: str,
    assets: int,
    shards: Sequence[Iterable[tuple[bytes, int]]],
    targets: dict[str, Target] | None = None,
) -> Manifest:
    """Writes a dataset all of which is to train.

    Args:
      records: `segments` or `windows`.
      shards: of each its serialized records, and how many rows each holds.
    """
    import tensorflow as tf

    from beamfeed.transforms.records.blocks import cut_blocks, index_table

    names = layout.DataLayout.of(output, FINGERPRINT)
    os.makedirs(names.split(SPLIT), exist_ok=True)
    written, blocks = [], []
    for index, shard in enumerate(shards):
        path = names.shard(SPLIT, index, len(shards))
        lengths, rows = [], []
        with tf.io.TFRecordWriter(path) as writer:
            for record, rows_of_record in shard:
                writer.write(record)
                lengths.append(len(record))
                rows.append(rows_of_record)
        blocks.append(cut_blocks(np.array(lengths), np.array(rows), windows))
        counted, cut, size = blocks[-1].sum(axis=0).tolist()
        # Nobody verifies the checksum.
        written.append(Shard(records=counted, windows=cut, rows=sum(rows), bytes=size, crc32c="0" * 8))
    write_blocks(names.blocks(SPLIT), index_table(blocks))
    split = SplitInfo(
        assets=assets,
        windows=sum(shard.windows for shard in written),
        records=sum(shard.records for shard in written),
        bytes=sum(shard.bytes for shard in written),
        targets=targets or {},
        shards=written,
    )
    manifest = Manifest(
        name="feed",
        kind=kind,
        fingerprint=FINGERPRINT,
        data=names.folder,
        fields=fields,
        windows=windows,
        records=records,
        compression="none",
        counts=Counts(files=0, assets=assets, rejected_assets=0, rejected_files=0, rows_read=0),
        splits={SPLIT: split},
    )
    write_manifest(output, manifest)
    return manifest


def write_job(folder: Path, windows: dict[str, int], train: dict[str, object]) -> Path:
    """The job of a training on the dataset in `folder`/data."""
    job = {
        "name": "bench",
        "source": {"kind": "timeseries", "files": "none/*.parquet", "time": {"column": "t"}, "features": ["*"]},
        "windows": windows,
        "output": {"path": str(folder / "data")},
        "train": train,
    }
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump(job))
    return path


def write_array_records(folder: str, sizes: Sizes) -> list[str]:
    """A window per record in ArrayRecord files, bare float32, uncompressed; group_size 1, as Grain asks."""
    from array_record.python import array_record_module

    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"part-{i:05d}.array_record") for i in range(sizes.shards)]
    for index, path in enumerate(paths):
        writer = array_record_module.ArrayRecordWriter(path, "group_size:1,uncompressed")
        for asset in shard_assets(sizes, index):
            for window in frame(asset_values(sizes, asset), sizes):
                writer.write(window.tobytes())
        writer.close()
    return paths
