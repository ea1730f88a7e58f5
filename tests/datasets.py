"""Datasets of any fields, written record by record with protobuf: an oracle that owes our own writer nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import google_crc32c
import numpy as np
import pyarrow as pa
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo, Target, write_manifest
from beamfeed.contract.dataset.windows import count_windows

# A record: for each field its values, one for each row, window, or the record, by `Field.per`.
Record = Mapping[str, Sequence[Any]]


def write_dataset(
    output: str,
    fields: Sequence[Field],
    splits: Mapping[str, Sequence[Sequence[Record]]],
    windows: Windows = Windows(length=1),
    *,
    block_records: int = 2,
    compression: str = "none",
    name: str = "handmade",
) -> Manifest:
    """Writes and publishes a dataset: for each split a list of shards, each a list of records."""
    names = DataLayout.of(output, "f" * 64)
    infos = {}
    for split, shards in splits.items():
        told, index = [], []
        for number, records in enumerate(shards):
            shard, blocks = _write_shard(
                names.shard(split, number, len(shards)), number, records, fields, windows, block_records, compression
            )
            told.append(shard)
            index += blocks
        write_blocks(names.blocks(split), pa.Table.from_pylist(index, pa.schema(
            [(column, pa.int64()) for column in ("shard", "records", "windows", "bytes")])))  # fmt: skip
        infos[split] = SplitInfo(
            assets=1,
            windows=sum(shard.windows for shard in told),
            records=sum(shard.records for shard in told),
            bytes=sum(shard.bytes for shard in told),
            targets={field.name: target_of(field, shards) for field in fields if field.role in ("target", "weight")},
            shards=told,
        )
    rows = sum(shard.rows for info in infos.values() for shard in info.shards)
    manifest = Manifest(
        name=name, kind="handmade", fingerprint="f" * 64, data=names.folder, fields=list(fields), windows=windows,
        records="segments", compression=compression, splits=infos,
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=rows),
    )  # fmt: skip
    write_manifest(output, manifest)
    return manifest


def target_of(field: Field, shards: Sequence[Sequence[Record]]) -> Target:
    values = np.array([value for records in shards for record in records for value in record[field.name]])
    if field.classes:
        return Target(counts=np.bincount(values.astype(int), minlength=len(field.classes)).tolist())
    if not len(values):
        return Target()
    wide = values.astype(np.float64)
    return Target(mean=float(wide.mean()), std=float(wide.std()), min=float(wide.min()), max=float(wide.max()))


def rows_of(record: Record, fields: Sequence[Field]) -> int:
    return len(record[next(field.name for field in fields if field.per == "row")])


def encode(record: Record, fields: Sequence[Field]) -> bytes:
    """A record as protobuf writes it."""
    feature = {}
    for field in fields:
        values = record[field.name]
        if field.is_ragged:
            feature[field.name + LENGTHS] = _list("int64", [len(value) for value in values])
        kind = object if field.dtype == "bytes" else None
        if field.is_raw:
            flat = [np.asarray(value, field.dtype).tobytes() for value in values]
        else:
            flat = [one for value in values for one in np.asarray(value, kind).ravel()]
        feature[field.name] = _list(field.listed, flat)
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def _list(dtype: str, values: list[Any]) -> tf.train.Feature:
    if dtype == "float32":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if dtype == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _write_shard(
    path: str, number: int, records: Sequence[Record], fields: Sequence[Field], windows: Windows, block_records: int,
    compression: str,
) -> tuple[Shard, list[dict[str, int]]]:  # fmt: skip
    tf.io.gfile.makedirs(path.rpartition("/")[0])
    data = [encode(record, fields) for record in records]
    with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions("GZIP" if compression == "gzip" else "")) as writer:
        for one in data:
            writer.write(one)
    counts = [rows_of(record, fields) for record in records]
    framed = [int(count_windows(rows, windows.length, windows.stride)) for rows in counts]
    blocks = [
        {
            "shard": number,
            "records": len(data[at : at + block_records]),
            "windows": sum(framed[at : at + block_records]),
            "bytes": sum(len(one) + 16 for one in data[at : at + block_records]),
        }
        for at in range(0, len(data), block_records)
    ]
    written = storage.read_bytes(path)
    size, crc32c = len(written), f"{google_crc32c.value(written):08x}"
    return Shard(records=len(data), windows=sum(framed), rows=sum(counts), bytes=size, crc32c=crc32c), blocks
