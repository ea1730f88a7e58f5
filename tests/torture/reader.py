"""Reads a published dataset without any code of the project, nor of TensorFlow: TFRecord and Example by hand."""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from .oracle import Window


@dataclass
class Dataset:
    """What is published.

    Attributes:
      manifest: as JSON.
      windows: by split, then by asset and position.
      faults: what is wrong with the records themselves.
    """

    manifest: dict[str, Any]
    windows: dict[str, dict[tuple[str, int], Window]]
    stats: dict[str, Any]
    rejects: list[dict[str, Any]]
    faults: list[str]
    folder: Path

    @property
    def features(self) -> list[str]:
        """The columns of a window's rows, in order."""
        return next(field["columns"] for field in self.manifest["fields"] if field["name"] == "values")


def read_dataset(output: Path) -> Dataset:
    """The dataset in a folder."""
    manifest = json.loads((output / "manifest.json").read_text())
    folder = output / manifest["data"]
    found = Dataset(manifest, {}, json.loads((folder / "stats.json").read_text()), read_rejects(folder), [], folder)
    for split, info in manifest["splits"].items():
        found.windows[split] = {}
        for path in shard_paths(output, folder / split, info["shards"]):
            for record in records(path, manifest["compression"] == "gzip"):
                _frame(parse_example(record), found, split)
    return found


def shard_paths(output: Path, folder: Path, shards: dict[str, list]) -> list[Path]:
    """The files of a split; where a dataset has grown, the manifest says where each is."""
    if "file" in shards:
        return [output / file for file in shards["file"]]
    count = len(shards["records"])
    return [folder / f"part-{index:05d}-of-{count:05d}.tfrecord" for index in range(count)]


@dataclass
class RowSet:
    """What is published of rows that stand for themselves.

    Attributes:
      rows: by split, then by the field `row`: the fields by name, of `numbers` and `categories` each column.
      faults: what is wrong with the records themselves.
    """

    manifest: dict[str, Any]
    rows: dict[str, dict[Any, dict[str, Any]]]
    stats: dict[str, Any]
    rejects: list[dict[str, Any]]
    faults: list[str]


def read_rows(output: Path) -> RowSet:
    """The dataset in a folder, each record of which packs rows."""
    manifest = json.loads((output / "manifest.json").read_text())
    folder = output / manifest["data"]
    stats = json.loads((folder / "stats.json").read_text())
    found = RowSet(manifest, {split: {} for split in manifest["splits"]}, stats, read_rejects(folder), [])
    for split, info in manifest["splits"].items():
        for path in shard_paths(output, folder / split, info["shards"]):
            for record in records(path, manifest["compression"] == "gzip"):
                example = parse_example(record)
                columns = {one["name"]: _values(example[one["name"]], one) for one in manifest["fields"]}
                for k, key in enumerate(columns["row"]):
                    row: dict[str, Any] = {}
                    for one in manifest["fields"]:
                        value = columns[one["name"]][k]
                        named = one.get("columns") or ()
                        row |= {f"{one['name']}.{name}": value[at] for at, name in enumerate(named)}
                        row |= {} if named else {one["name"]: value}
                    if key in found.rows[split]:
                        found.faults.append(f"{split}: the row {key} is stored twice")
                    found.rows[split][key] = row
    return found


def _values(values: list, field: dict[str, Any]) -> Any:
    """`[rows, *shape]` of a field; a list of its texts."""
    dtype = field["dtype"]
    if dtype in ("float32", "int64"):
        return np.array(values, dtype).reshape(-1, *field["shape"])
    if dtype == "bytes":
        assert not field["shape"], "texts are one a row here"
        return values
    return [np.frombuffer(value, np.dtype(dtype).newbyteorder("<")).reshape(field["shape"]) for value in values]


def read_rejects(folder: Path) -> list[dict[str, Any]]:
    """What was set aside."""
    paths = folder.glob("rejects/*.jsonl")
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def _frame(record: dict[str, list], found: Dataset, split: str) -> None:
    """Adds the windows of a record: the rows [k * stride, k * stride + length) for every k that fits."""
    manifest, windows = found.manifest, found.windows[split]
    length, stride = manifest["windows"]["length"], manifest["windows"]["stride"]
    (width,) = next(field["shape"] for field in manifest["fields"] if field["name"] == "values")
    values = np.array(record["values"], np.float32).reshape(-1, width)
    (asset,), (start,) = record["asset"], record["start"]
    (first_time,), (last_time,) = record["first_time"], record["last_time"]
    labels = next((record[f["name"]] for f in manifest["fields"] if f["per"] == "window"), None)
    number = max(0, (len(values) - length) // stride + 1)
    for k in range(number):
        key = asset.decode(), start + k * stride
        if key in windows:
            found.faults.append(f"{split}: the window {key} is stored twice")
        windows[key] = Window(
            first_time if k == 0 else -1,
            last_time if k == number - 1 else -1,
            values[k * stride : k * stride + length],
            None if labels is None else labels[k],
        )
    if not number or len(values) != (number - 1) * stride + length:
        found.faults.append(
            f"{split}: a record of {len(values)} rows from {start} of {asset!r} does not fit its windows"
        )


def records(path: Path, gzipped: bool) -> Iterator[bytes]:
    """The records of a TFRecord file; checks both sums of each."""
    data = path.read_bytes()
    data = gzip.decompress(data) if gzipped else data
    at = 0
    while at < len(data):
        size, check = struct.unpack_from("<QI", data, at)
        assert check == _masked(data[at : at + 8]), f"{path}: the sum of a length is wrong"
        record = data[at + 12 : at + 12 + size]
        assert struct.unpack_from("<I", data, at + 12 + size)[0] == _masked(record), f"{path}: the sum of a record"
        yield record
        at += size + 16


def _masked(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def parse_example(data: bytes) -> dict[str, list]:
    """The features of a tf.train.Example by name."""
    found: dict[str, list] = {}
    for _, features in _messages(data):
        for _, entry in _messages(features):
            parts = dict(_messages(entry))
            name = parts[1].decode()
            assert name not in found, f"the feature {name} stands twice in a record"
            found[name] = []
            for kind, values in _messages(parts.get(2, b"")):
                found[name] = _list(kind, values)
    return found


def _list(kind: int, data: bytes) -> list:
    if kind == 1:
        return [value for _, value in _messages(data)]
    packed = b"".join(value for _, value in _messages(data))
    if kind == 2:
        return np.frombuffer(packed, "<f4").tolist()
    numbers, at = [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        numbers.append(value - (1 << 64) if value >> 63 else value)
    return numbers


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a protocol buffer that holds nothing but bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        assert key & 7 == 2, f"wire type {key & 7}"
        size, at = _varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
