"""The values of a dataset as its files had them: how they were scaled and numbered is read from its transform graph."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.transforms.scoring.drift import RawCounts
from beamfeed.transforms.scoring.summary import OTHER
from beamfeed.transforms.sources.table.learned import vocabulary_file
from beamfeed.transforms.statistics.marks import ASSETS, SAVED_MODEL
from beamfeed.transforms.statistics.scaling import SCALE_FILE

if TYPE_CHECKING:
    from beamfeed.transforms.scoring.graph import Graph

ABSENT = np.float32(-3.25e38)  # in place of a constant in scaled units, where values are not scaled
Missing = TypeVar("Missing", str, None)
MOST_PARTS = 64  # numbers of a field that are compared one by one; of more, such as pixels, none are


@dataclass(frozen=True, eq=False)
class Scale:
    """How a field of numbers was scaled: (x - offset) / divisor, of its first columns; others were not.

    Attributes:
      rows: float32 `[2, columns]`: offset and divisor.
      logs: bool `[columns]`, of which the logarithm was scaled.
      fill: float32 `[columns]`, what stands for a missing value, as files would have it; None where nothing does.
      by_asset: the file with the scaling of each asset; empty where all have one.
    """

    rows: np.ndarray
    logs: np.ndarray
    fill: np.ndarray | None = None
    by_asset: str = ""

    def undo(self, values: np.ndarray, assets: pa.Array | None) -> np.ndarray:
        """float32 `[n, columns]` as files had them.

        Args:
          values: likewise, as they are stored.
          assets: of each, where these have their own scaling.
        """
        rows = self.rows[:, None]
        if self.by_asset and assets is not None:
            encoded = assets.dictionary_encode()
            known = _rows_by_asset(self.by_asset)
            names = (base64.urlsafe_b64encode(name).rstrip(b"=") for name in encoded.dictionary.to_pylist())
            of_names = np.stack([known.get(name, self.rows) for name in names])
            rows = of_names[encoded.indices.to_numpy()].swapaxes(0, 1)
        width = rows.shape[-1]
        raw = values.astype(np.float32)
        raw[:, :width] = unlogged(raw[:, :width] * rows[1] + rows[0], self.logs)
        return raw

    def as_stored(
        self, values: np.ndarray, assets: pa.Array | None, *, constant: float, sizes: np.ndarray
    ) -> np.ndarray:
        """float32 `[n, columns]` as `undo` gives those of a dataset, which fills in a constant and clips.

        Args:
          values: likewise, as files have them, or ABSENT.
          assets: as of `undo`.
          constant: in the place of what is ABSENT, in scaled units.
          sizes: float32 `[columns]`, of scaled values the largest; infinite where they are not clipped.
        """
        raw = values.astype(np.float32)
        absent = raw == ABSENT
        if absent.any():
            raw = np.where(absent, self.undo(np.full_like(raw, constant), assets), raw)
        if np.isfinite(sizes).any():
            ends = np.broadcast_to(sizes, raw.shape)
            raw = np.clip(raw, self.undo(-ends, assets), self.undo(ends, assets))
        return raw


def unlogged(values: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """`[..., columns]`, without the logarithm that some columns have."""
    if not logs.any():
        return values
    return np.where(logs, np.sign(values) * np.expm1(np.where(logs, np.abs(values), 0)), values).astype(np.float32)


@lru_cache(maxsize=2)
def _rows_by_asset(path: str) -> dict[bytes, np.ndarray]:
    by_asset = {}
    for line in storage.read_bytes(path).splitlines():
        name, _, packed = line.partition(b"\t")
        if packed:
            rows = base64.urlsafe_b64decode(packed + b"=" * (-len(packed) % 4))
            by_asset[name] = np.frombuffer(rows, "<f4").reshape(2, -1)
    return by_asset


@dataclass(frozen=True)
class Stored:
    """How a dataset stores what is compared.

    Attributes:
      fields: that are compared.
      scales: by field.
      terms: by column of categories: the value of each number; None of a missing one, OTHER of a rare one.
      raw: by column, of training rows.
      skipped: fields and columns that are not compared.
    """

    fields: tuple[Field, ...]
    scales: Mapping[str, Scale]
    terms: Mapping[str, tuple[str | None, ...]]
    raw: Mapping[str, RawCounts]
    skipped: tuple[str, ...]


def read_stored(manifest: Manifest, output: str) -> Stored:
    """How the dataset at `output` stores its values. Loads TensorFlow, where the dataset has a transform graph."""
    layout = manifest.data_layout(output)
    features = _features(layout)
    graph = None
    if storage.exists(layout.transform_fn + SAVED_MODEL):
        from beamfeed.transforms.scoring.graph import Graph

        graph = Graph(layout.transform_fn)
    fields, skipped = [], []
    terms: dict[str, tuple[str | None, ...]] = {}
    scales: dict[str, Scale] = {}
    for field in manifest.fields:
        if field.role == "key" or field.units:
            continue
        if not _is_plain(field):
            skipped.append(field.name)
            continue
        fields.append(field)
        if field.sizes:
            for name, size in zip(field.columns, field.sizes, strict=True):
                if values := terms_of(layout, name, size, None, OTHER):
                    terms[name] = values
                else:
                    skipped.append(name)
        elif field.role == "input" and field.dtype == "float32" and graph is not None:
            scale = _scale(layout, graph, field, features)
            if scale is None:
                skipped.append(fields.pop().name)
            else:
                scales[field.name] = scale
    raw = {
        name: RawCounts(entry["count"] + entry["missing"], entry["missing"], entry.get("missing_design_effect", 1.0))
        for name, entry in features.items()
        if {"count", "missing"} <= entry.keys()
    }
    return Stored(tuple(fields), scales, terms, raw, tuple(skipped))


def _is_plain(field: Field) -> bool:
    """Whether each of its values is a number or a text, or some numbers, that can be compared by themselves."""
    if field.is_ragged or field.stored != "rows" or field.content or field.dtype.startswith("complex"):
        return False
    if field.dtype == "bytes":
        return field.width == 1
    return bool(field.columns) or (not field.sizes and field.width <= MOST_PARTS)


def _features(layout: DataLayout) -> dict[str, Any]:
    """What stats.json says of each; nothing of a dataset that has none."""
    try:
        return dict(json.loads(storage.read_text(layout.stats))["features"])
    except (FileNotFoundError, KeyError):
        return {}


def _scale(layout: DataLayout, graph: "Graph", field: Field, features: Mapping[str, Any]) -> Scale | None:
    """How a field was scaled; None if that is not found.

    Of a field with named columns, those that stats.json knows as numbers are scaled, and the graph has one constant of
    their offsets and divisors, and, of tables, what is filled in.
    """
    if not field.columns:  # such fields are taken by their names, and not clipped
        zero, one = graph.probe(field.name, field.shape)
        divisor = 1 / (one - zero)
        return Scale(np.stack([-zero * divisor, divisor]).astype(np.float32), np.zeros(field.width, bool))
    names = [name for name in field.columns if "mean" in features.get(name, {})]
    count = len(names)
    numbers = [constant for constant in graph.constants if constant.dtype == np.float32]
    scales = [rows for rows in numbers if rows.shape in ((2, count), (3, count))]
    if len(scales) != 1 or names != field.columns[:count]:
        return None
    (rows,) = scales
    flags = [constant for constant in graph.constants if constant.dtype == bool and constant.shape == (count,)]
    logs = flags[0] if flags else np.zeros(count, bool)
    path = layout.transform_fn + ASSETS + SCALE_FILE
    fill = unlogged(rows[2], logs) if len(rows) == 3 else None
    return Scale(rows[:2], logs, fill, path if storage.exists(path) else "")


def terms_of(layout: DataLayout, column: str, size: int, missing: Missing, rare: str) -> tuple[str | Missing, ...]:
    """The value of each number of a category, of which there are `size`; none where it has no vocabulary.

    `missing` stands for no value, `rare` for those without a number of their own.
    """
    path = layout.transform_fn + ASSETS + vocabulary_file(column)
    if not storage.exists(path):
        return ()
    # The first line is no value.
    values: list[str] = storage.read_bytes(path).decode(errors="replace").split("\n")[1:-1]
    return (missing, *[rare] * (size - 1 - len(values)), *values)


def labels_of(numbers: np.ndarray, values: Sequence[str | None]) -> pa.Array:
    """Strings `[n]` of numbers that stand for them; what stands for nothing is missing."""
    outside = (numbers < 0) | (numbers >= len(values))
    return pa.array(values, pa.string()).take(pa.array(np.where(outside, 0, numbers), pa.int64(), mask=outside))


def with_absent(job: Job) -> Job:
    """The job that tells the constant for missing values from values, where these are not scaled as it is."""
    prepare = job.prepare
    missing = prepare.missing.model_copy(update={"value": float(ABSENT)})
    return job.model_copy(update={"prepare": prepare.model_copy(update={"missing": missing})})
