"""Records of many fields, and what a plain loop over the shards finds in them."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.manifest import Manifest
from tests.framing import read_framed

FIELDS = [
    Field(name="who", dtype="bytes", role="key", per="record"),
    Field(name="values", dtype="float32", shape=(2,), role="input"),
    Field(name="count", dtype="int64", role="input"),
    Field(name="grid", dtype="int64", shape=(2, 1, 3), role="input"),
    Field(name="image", dtype="bytes", role="input"),
    Field(name="tokens", dtype="int64", shape=(None,), role="input"),
    Field(name="boxes", dtype="float32", shape=(None, 2), role="input"),
    Field(name="words", dtype="bytes", shape=(None,), role="input"),
    Field(name="pair", dtype="bytes", shape=(2,), role="key"),
    Field(name="label", dtype="int64", role="target", per="window", classes=["a", "b", "c"]),
    Field(name="counts", dtype="float32", role="weight", per="window"),
    Field(name="found", dtype="float32", shape=(None, 2), role="input", per="window"),
    Field(name="title", dtype="bytes", role="input", per="window"),
    Field(name="place", dtype="float32", shape=(3,), role="input", per="record"),
    Field(name="about", dtype="bytes", shape=(None,), role="input", per="record"),
    Field(name="pixels", dtype="uint8", shape=(3, 4), role="input"),
    Field(name="half", dtype="float16", shape=(5,), role="input"),
    Field(name="wave", dtype="complex64", shape=(3,), role="input"),
    Field(name="mask", dtype="bool", shape=(3,), role="input", per="window"),
    Field(name="huge", dtype="uint64", shape=(2,), role="input", per="record"),
]


def make_record(fields: Sequence[Field], rows: int, windows: Windows, rng: np.random.Generator) -> dict[str, list[Any]]:
    """A record of random values, as `datasets.write_dataset` takes it."""
    framed = len(range(0, rows - windows.length + 1, windows.stride))
    count = {"row": rows, "window": framed, "record": 1}
    return {field.name: [make_value(field, rng) for _ in range(count[field.per])] for field in fields}


def make_value(field: Field, rng: np.random.Generator) -> Any:
    shape = [int(rng.integers(0, 4)) if size is None else size for size in field.shape]
    if field.dtype == "float32":
        return rng.normal(size=shape).astype("f4")
    numbers = rng.integers(-(2**40), 2**40, shape)
    if field.dtype == "int64":
        return rng.integers(0, len(field.classes), shape) if field.classes else numbers
    if field.is_raw:
        return (numbers % 1000).astype(field.dtype)
    words = np.array([b"%x" % abs(int(number)) for number in np.ravel(numbers)], object)
    return words.reshape(shape) if shape else bytes(words[0])


def make_records(
    fields: Sequence[Field], rows: Sequence[Sequence[int]], windows: Windows, seed: int = 0
) -> list[list[dict[str, list[Any]]]]:
    """Shards of records of so many rows."""
    rng = np.random.default_rng(seed)
    return [[make_record(fields, count, windows, rng) for count in shard] for shard in rows]


def windows_of(manifest: Manifest, output: str, split: str, names: Sequence[str]) -> Iterator[tuple]:
    """The windows of a split, by a plain loop over the shards: for each field its values, as nested tuples."""
    length, stride = manifest.windows.length, manifest.windows.stride
    for path in manifest.shard_paths(output, split):
        for serialized in read_framed(path, manifest.compression):
            feature = tf.train.Example.FromString(serialized).features.feature
            values = {field.name: decode(feature, field) for field in manifest.fields}
            rows = next(len(values[field.name]) for field in manifest.fields if field.per == "row")
            for number, start in enumerate(range(0, rows - length + 1, stride)):
                yield tuple(
                    pick(values[name], manifest.field(name).per, number, start, length) for name in names
                )  # fmt: skip


def pick(values: list[Any], per: str, number: int, start: int, length: int) -> Any:
    if per == "row":
        return tuple(values[start : start + length]) if length > 1 else values[start]
    return values[number if per == "window" else 0]


def decode(feature: Any, field: Field) -> list[Any]:
    """The values of a field in a record."""
    kind = {"float32": "float_list", "int64": "int64_list"}.get(field.dtype, "bytes_list")
    flat = list(getattr(feature[field.name], kind).value)
    if field.is_raw:
        flat = [number for one in flat for number in np.frombuffer(one, field.dtype).tolist()]
    inner = list(field.shape[1:] if field.is_ragged else field.shape)
    entries = nest(flat, inner)
    if not field.is_ragged:
        return entries
    found = []
    for length in feature[field.name + LENGTHS].int64_list.value:
        found.append(tuple(entries[:length]))
        entries = entries[length:]
    assert not entries
    return found


def nest(flat: list[Any], shape: list[int]) -> list[Any]:
    """A list of values of this shape."""
    for size in reversed(shape):
        flat = [tuple(flat[i : i + size]) for i in range(0, len(flat), size)]
    return flat


def rows_of(batch: dict[str, Any], names: Sequence[str]) -> list[tuple]:
    """The windows of a batch as `windows_of` gives them."""
    columns = [batch[name].to_list() if isinstance(batch[name], tf.RaggedTensor) else batch[name].numpy().tolist()
               for name in names]  # fmt: skip
    return [tuple(map(as_tuples, row)) for row in zip(*columns, strict=True)]


def as_tuples(value: Any) -> Any:
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value
