"""What is compared: a dataset, files that are read as those of a dataset were, or tables of predictions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.records.pieces import ranges
from beamfeed.transforms.export.base import ShardExport
from beamfeed.transforms.export.decode import read_blocks
from beamfeed.transforms.records.shard_plan import ShardPlan
from beamfeed.transforms.scoring.spool import read_batches
from beamfeed.transforms.scoring.stored import ABSENT, Stored, labels_of
from beamfeed.transforms.scoring.summary import Columns, Summary
from beamfeed.transforms.sources.base import Source
from beamfeed.transforms.sources.checking import read_again
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values

MOST_DIMENSIONS = 1024  # of a list are compared, such as a latent vector
PLACES = ("asset", "start", "time", "until", "file", "row", "row_", "path")  # columns that say whose predictions
Part = Any


@dataclass(frozen=True, eq=False)
class SideSummary:
    """The summaries of one side, or of a part of it; `a + b` is that of both.

    Attributes:
      summaries: of its rows; of a dataset of series also of its windows.
      raw: of new files, by asset (all together where there are none) int64 `[1 + numbers]`: its rows, and how many of
        them lack each number of the first summary before missing ones are filled in.
    """

    summaries: tuple[Summary, ...]
    raw: Mapping[str, np.ndarray] | None = None

    def __add__(self, other: "SideSummary") -> "SideSummary":
        raw = dict(self.raw or {})
        for name, counts in (other.raw or {}).items():
            raw[name] = raw[name] + counts if name in raw else counts
        return SideSummary(tuple(a + b for a, b in zip(self.summaries, other.summaries, strict=True)), raw)


class Side(Protocol):
    """One of two that are compared. It goes to workers, part by part."""

    columns: tuple[Columns, ...]

    def read(self, part: Part) -> SideSummary:
        """The summaries of a part of it.

        Raises:
          JobFailed: if it cannot be read.
        """
        ...


def nothing(side: Side) -> SideSummary:
    """The summaries of no part."""
    return SideSummary(tuple(map(Summary.zero, side.columns)))


class Fields:
    """Fields as columns of numbers and of texts.

    Args:
      stored: how the dataset stores them.
      restore: by field, what makes numbers `[n, columns]` comparable, given the asset of each; others stay.
    """

    def __init__(
        self, stored: Stored, per: str, restore: Mapping[str, Callable[[np.ndarray, pa.Array | None], np.ndarray]]
    ):
        self._stored, self._restore = stored, restore
        self.fields = [field for field in stored.fields if field.per == per]
        self.numbers = [name for field in self.fields if not self._is_text(field) for name in field.names]
        self.texts = [name for field in self.fields if self._is_text(field) for name in self._texts(field)]

    def columns(self, *, by_asset: bool) -> Columns:
        """Their names."""
        return Columns(tuple(self.numbers), tuple(self.texts), by_asset)

    def _is_text(self, field: Field) -> bool:
        return bool(field.sizes or field.classes) or field.dtype == "bytes"

    def _texts(self, field: Field) -> list[str]:
        return [name for name in field.names if not field.sizes or name in self._stored.terms]

    def take(self, values: Mapping[str, Values], assets: pa.Array | None) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """Numbers float32 `[n, numbers]` and texts `[n]`.

        Args:
          values: `[n, ...]`, by field.
          assets: `[n]`, where a dataset is of assets.
        """
        numbers, texts, rows = [], {}, 0
        for field in self.fields:
            value = values[field.name]
            rows = len(value)
            if isinstance(value, pa.Array):
                texts[field.name] = value.cast(pa.string(), safe=False)
                continue
            assert isinstance(value, np.ndarray)
            flat = value.reshape(rows, -1)
            if field.classes:
                texts[field.name] = labels_of(flat[:, 0], field.classes)
            elif field.sizes:
                for at, name in enumerate(field.columns):
                    if name in self._stored.terms:
                        texts[name] = labels_of(flat[:, at], self._stored.terms[name])
            else:
                restore = self._restore.get(field.name)
                numbers.append(flat.astype(np.float32) if restore is None else restore(flat, assets))
        return np.concatenate(numbers, axis=1) if numbers else np.empty((rows, 0), np.float32), texts


@dataclass(frozen=True)
class KeyNames:
    """The fields of a record that say where its rows are; None in a dataset without assets."""

    asset: str | None
    start: str | None

    @classmethod
    def of(cls, manifest: Manifest) -> "KeyNames":
        """Those of a dataset: of series, keys of each record, of which two are times."""
        keys = [field for field in manifest.fields if field.role == "key" and field.per == "record"]
        if sum(field.time is not None for field in keys) != 2:
            return cls(None, None)
        by_kind = {field.dtype == "bytes": field.name for field in reversed(keys) if field.time is None}
        return cls(by_kind[True], by_kind[False]) if len(by_kind) == 2 else cls(None, None)


class DatasetSide:
    """A dataset: a part is a shard.

    Args:
      manifest: of it.
      stored: how it stores its values.
    """

    def __init__(self, manifest: Manifest, stored: Stored):
        self._manifest, self.stored, self._keys = manifest, stored, KeyNames.of(manifest)
        by_asset = self._keys.asset is not None
        restore = {name: scale.undo for name, scale in stored.scales.items()}
        self._groups = {per: Fields(stored, per, restore) for per in ("row", "window")}
        self._groups = {per: group for per, group in self._groups.items() if group.fields}
        self.columns = tuple(group.columns(by_asset=by_asset) for group in self._groups.values())

    def read(self, part: ShardExport) -> SideSummary:
        manifest, keys = self._manifest, self._keys
        taken = [field for group in self._groups.values() for field in group.fields]
        taken += [field for field in manifest.fields if field.name in (keys.asset, keys.start)]
        places = {per: Places(per, manifest.windows, keys, part.path) for per in self._groups}
        summaries = [Summary.zero(columns) for columns in self.columns]
        for block in read_blocks(part, manifest, taken):
            for at, (per, group) in enumerate(self._groups.items()):
                named, positions, once = places[per].of(block)
                numbers, texts = group.take(block.values, named)
                summaries[at] = summaries[at].extend(numbers, texts, named, positions, once)
        return SideSummary(tuple(summaries))


class Places:
    """Where the rows, or windows, of some blocks are, that follow each other.

    Args:
      per: row or window.
      windows: of the dataset.
      keys: of a record.
      file: that they are of, for datasets without assets.
    """

    def __init__(self, per: str, windows: Windows, keys: KeyNames, file: str):
        self._per, self._windows, self._keys, self._file = per, windows, keys, file
        self._row = 0
        self._last: tuple[Any, int, int] = (None, 0, 0)  # record: its asset, its first row, the first after it

    def of(self, block: RecordBlock) -> tuple[pa.Array, np.ndarray, np.ndarray]:
        """Of each row of each record: its asset, its position there, and whether no record before it has it, too."""
        length, stride = (self._windows.length, self._windows.stride) if self._per == "window" else (1, 1)
        counts = count_windows(block.rows, length, stride)
        record = np.repeat(np.arange(len(block)), counts)
        inside = ranges(0, counts)
        if self._keys.asset is None or self._keys.start is None:
            positions, self._row = self._row + np.arange(len(record)), self._row + len(record)
            return pa.repeat(self._file, len(record)), positions, np.ones(len(record), bool)
        assets, start = block.values[self._keys.asset], block.values[self._keys.start]
        assert isinstance(assets, pa.Array)
        assert isinstance(start, np.ndarray)
        if not len(block):
            return assets.slice(0, 0), np.empty(0, np.int64), np.empty(0, bool)
        numbers = assets.dictionary_encode().indices.to_numpy()
        asset, before, end = self._last
        ends = np.concatenate([[end], (start + counts * stride)[:-1]])
        is_next = np.concatenate([[assets[0].as_py() == asset], numbers[1:] == numbers[:-1]])
        is_next &= start >= np.concatenate([[before], start[:-1]])  # parts of an asset come in any order
        known = np.where(is_next, np.maximum(0, -((start - ends) // stride)), 0)
        self._last = assets[-1].as_py(), int(start[-1]), int(start[-1] + counts[-1] * stride)
        return assets.take(pa.array(record)), start[record] + inside * stride, inside >= known[record]


class Unchanged:
    """In the place of a transform graph: values stay as files have them, and it is counted how many are missing.

    Args:
      inputs: columns of a table; none of other kinds.
      numbers: of these, those that are counted; of other kinds, all columns of the one matrix.
    """

    def __init__(self, inputs: Iterable[str], numbers: Sequence[str]):
        self.inputs = frozenset(inputs)
        self._numbers = numbers
        self.raw: np.ndarray | None = None

    def __call__(self, columns: Mapping[str, np.ndarray | pa.Array]) -> dict[str, Values]:
        plain: dict[str, Values] = {name: _unpacked(column) for name, column in columns.items()}
        parts = [plain[name] for name in self._numbers] if self.inputs else list(plain.values())
        matrices = [part.reshape(len(part), -1) for part in parts if isinstance(part, np.ndarray)]
        matrix = np.concatenate(matrices, axis=1) if matrices else np.empty((0, 0), np.float32)
        if matrix.dtype == np.float32 and matrix.shape[1] == len(self._numbers):
            present = np.isfinite(matrix) & (matrix != ABSENT)
            counts = np.array([len(matrix), *(~present).sum(axis=0)])
            self.raw = counts if self.raw is None else self.raw + counts
        return plain


def _unpacked(column: np.ndarray | pa.Array) -> np.ndarray | pa.Array:
    return _column(column) if isinstance(column, pa.Array) and pa.types.is_floating(column.type) else column


class FilesSide:
    """New files, which are read as those of a dataset were: a part is what would be a shard.

    Args:
      source: of the files.
      manifest: of the dataset.
      stored: how it stores its values.
      columns_of: of a table, by column of the dataset the column of files that it may be made of; else empty.
      clips: by column of the dataset, the largest size of its scaled values; None where they are not clipped.
      constant: of series, what the dataset has, in scaled units, where the source says ABSENT.
    """

    def __init__(
        self, source: Source[Any, Any, Any, Any, Any], manifest: Manifest, stored: Stored,
        columns_of: Mapping[str, str], clips: Mapping[str, float | None], constant: float = 0.0,
    ):  # fmt: skip
        self._source, self._windows, self._keys = source, manifest.windows, KeyNames.of(manifest)
        inputs = tuple(field for field in stored.fields if field.role == "input" and field.per == "row")
        as_stored = {
            field.name: partial(stored.scales[field.name].as_stored, constant=constant, sizes=_sizes(field, clips))
            for field in inputs
            if field.name in stored.scales
        }
        self._fields = Fields(replace(stored, fields=inputs), "row", as_stored)
        plain = self._fields.columns(by_asset=self._keys.asset is not None)
        self._columns_of: Mapping[str, str] = {}
        if columns_of:
            limits: dict[str, tuple[float, float, float]] = {}  # what is filled in, the least and the most
            for field in inputs:
                scale = stored.scales.get(field.name)
                if scale is None:
                    limits |= dict.fromkeys(field.names, (np.nan, -np.inf, np.inf))
                    continue
                names, sizes = field.names[: scale.rows.shape[1]], _sizes(field, clips)
                fill = np.full(len(names), np.nan) if scale.fill is None else scale.fill
                low, high = scale.undo(np.stack([-sizes, sizes]), None)[:, : len(names)]
                limits |= zip(names, zip(fill, low, high, strict=True), strict=True)
            plain = Columns(
                tuple(name for name in plain.numbers if name in columns_of and name in limits),
                tuple(name for name in plain.texts if name in columns_of),
            )
            self._columns_of = {name: columns_of[name] for name in plain.names}
            rows = [limits[name] for name in plain.numbers]
            self._fill, *self._ends = np.array(rows, np.float32).reshape(-1, 3).T
        self.columns: tuple[Columns, ...] = (plain,)

    def read(self, part: ShardPlan) -> SideSummary:
        (columns,) = self.columns
        summary = Summary.zero(columns)
        counted = [self._columns_of.get(name, name) for name in columns.numbers]
        raw: dict[str, np.ndarray] = {}
        for work in part.work:
            unchanged = Unchanged(self._columns_of.values(), counted)
            places = Places("row", self._windows, self._keys, f"{work.unit.asset.name} {work.unit.index}")
            for block in read_again(work, self._source.read_with(work, unchanged)):
                named, positions, once = places.of(block)
                numbers, texts = self._take(block, named)
                summary = summary.extend(numbers, texts, named, positions, once)
            if unchanged.raw is not None:
                asset = work.unit.asset.name if columns.by_asset else ""
                raw[asset] = raw.get(asset, 0) + unchanged.raw
        return SideSummary((summary,), raw)

    def _take(self, block: RecordBlock, assets: pa.Array) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """The rows of a block, record after record, clipped as those of the dataset are."""
        if not self._columns_of:
            at = ranges(block.first, block.rows)
            values = {field.name: _rows(block.values[field.name], at) for field in self._fields.fields}
            return self._fields.take(values, assets)
        (columns,) = self.columns
        of = {name: block.values[self._columns_of[name]] for name in columns.names}
        texts = {name: _no_empty(of[name]) for name in columns.texts}
        numbers = np.empty((int(block.rows.sum()), len(columns.numbers)), np.float32)
        for place, name in enumerate(columns.numbers):
            numbers[:, place] = np.asarray(of[name])
        return np.clip(np.where(np.isfinite(numbers), numbers, self._fill), *self._ends), texts


def _sizes(field: Field, clips: Mapping[str, float | None]) -> np.ndarray:
    """Float32 `[columns]`, of scaled values the largest; infinite where they are not clipped."""
    return np.array([clips.get(name) or np.inf for name in field.names], np.float32)


def _rows(values: Values, at: np.ndarray) -> Values:
    assert not isinstance(values, Ragged)
    return values[at] if isinstance(values, np.ndarray) else values.take(pa.array(at))


def _no_empty(column: Values) -> pa.Array:
    assert isinstance(column, pa.Array)
    texts = column.cast(pa.string())
    return pc.if_else(pc.equal(texts, ""), None, texts)


class PredictionsSide:
    """Tables of predictions: a part is the path of a file.

    Args:
      schema: of the files.
    """

    def __init__(self, schema: pa.Schema):
        numbers, texts, self._lists = [], [], {}
        for field in schema:
            if field.name in PLACES:
                continue
            if pa.types.is_fixed_size_list(field.type) and pa.types.is_floating(field.type.value_type):
                self._lists[field.name] = min(field.type.list_size, MOST_DIMENSIONS)
            elif pa.types.is_floating(field.type) or pa.types.is_integer(field.type):
                numbers.append(field.name)
            elif pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
                texts.append(field.name)
        self._numbers = numbers
        self._by_asset = {"asset", "start"} <= set(schema.names)
        dimensions = [f"{name}[{at}]" for name, size in self._lists.items() for at in range(size)]
        self.columns: tuple[Columns, ...] = (Columns((*numbers, *dimensions), tuple(texts), self._by_asset),)

    def read(self, part: str) -> SideSummary:
        (columns,) = self.columns
        summary, row = Summary.zero(columns), 0
        places = ["asset", "start"] if self._by_asset else []
        for batch in read_batches([part], [*self._numbers, *self._lists, *columns.texts, *places]):
            count = batch.num_rows
            wide = [_column(batch.column(name))[:, None] for name in self._numbers]
            wide += [_dimensions(batch.column(name), size) for name, size in self._lists.items()]
            numbers = np.concatenate(wide, axis=1) if wide else np.empty((count, 0), np.float32)
            texts = {name: batch.column(name).cast(pa.string()) for name in columns.texts}
            names = batch.column("asset").cast(pa.string()) if self._by_asset else pa.repeat(part, count)
            positions = batch.column("start").to_numpy() if self._by_asset else np.arange(row, row + count)
            summary, row = summary.extend(numbers, texts, names, positions), row + count
        return SideSummary((summary,))


def _column(column: pa.Array) -> np.ndarray:
    return np.asarray(column.cast(pa.float32(), safe=False).to_numpy(zero_copy_only=False), np.float32)


def _dimensions(column: pa.FixedSizeListArray, size: int) -> np.ndarray:
    """float32 `[n, size]`, the first of each list."""
    flat = _column(column.flatten())
    return flat.reshape(len(column), -1)[:, :size]
