"""Arrays side by side as a kind of source: which of the folder's steps does what."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.array import ROW, ArraySource
from beamfeed.contract.config.split import SPLITS, SplitName, counts_rows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.contract.imports import Later
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.sources.array.plan import (
    ArrayBlock,
    ArrayPiece,
    Blocks,
    blocks_within,
    cut_part,
    gather_block,
    packed_parts,
    parts_by_path,
)
from beamfeed.transforms.sources.array.read import is_packed, unpack
from beamfeed.transforms.sources.array.schema import ArraySchema, resolve_schema
from beamfeed.transforms.sources.array.statistics import ArrayStatistics, to_json
from beamfeed.transforms.sources.array.validate import ArrayVerdict, validate_block
from beamfeed.transforms.sources.array.write import block_records, raw_rows_of, scale_inputs
from beamfeed.transforms.sources.base import Source, Transform
from beamfeed.transforms.sources.columns.label_counts import check_classes, settled
from beamfeed.transforms.sources.descriptors import CannotGoOn, Unit, Work
from beamfeed.transforms.sources.overview import Lacking, Overview
from beamfeed.transforms.sources.record_block import RecordBlock, rows_of_record
from beamfeed.transforms.splits import seeded_hash
from beamfeed.transforms.statistics.scaling import Scaling

UNPACKED = 4  # times the bytes that a look is to read, which may be unpacked to get at them


class Arrays(Source[ArrayPiece, ArrayBlock, ArrayVerdict, ArrayVerdict, Work[ArrayBlock]]):
    """An asset is a block of rows of all arrays, wherever the files of each begin and end."""

    def __init__(self, job: Job, schema: ArraySchema, begin: int = 0, chosen: frozenset[int] | None = None):
        super().__init__(job)
        self._schema, self._chosen = schema, chosen
        self._parts = parts_by_path(schema)
        self._rows_per_record = job.output.rows_per_record or rows_of_record(schema.row_bytes)
        self._blocks = Blocks.of(schema, self._rows_per_record, begin)

    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Arrays":
        assert isinstance(job.source, ArraySource)
        return cls(job, resolve_schema(job.source, job.split.column, files))

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str | None:
        return None  # a file may hold rows of many blocks

    @classmethod
    def first_files(cls, job: Job, files: Sequence[FileStat]) -> list[FileStat]:
        return list(files)  # all are needed to tell which rows go together

    @classmethod
    def why_not_behind(cls, job: Job, files: Sequence[FileStat], new: Sequence[FileStat]) -> str:
        assert isinstance(job.source, ArraySource)
        if job.split.by == "rows" and not counts_rows(job.split.train):
            return f"split.by: rows with fractions, such as train: {job.split.train}, takes all rows together"
        paths = {stat.path for stat in new}
        for spec in job.source.array_specs(files):
            are_new = [stat.path in paths for stat in spec.files] * len(spec.members)
            if are_new != sorted(are_new):
                first = spec.files[are_new.index(True)].path
                return f"{first} is new, and its rows come before others of {spec.name}"
        return ""

    @property
    def numbered_rows(self) -> int:
        return self._schema.rows

    def adding(self, new: Sequence[FileStat], rows: int) -> "Arrays":
        first = (part.first for stat in new for _, part in self._parts.get(stat.path, ()))
        begin = min(first, default=self._schema.rows)
        if begin != rows:  # in a Zarr group an array may become longer while the file that is listed stays as it was
            raise CannotGoOn(f"the files that are there had {rows:,} rows, and have {begin:,} now")
        return Arrays(self.job, self._schema, begin)

    def part(self, most: int) -> "tuple[Arrays, float]":
        blocks, schema = self._blocks, self._schema
        count = max(1, most // (blocks.size * schema.row_bytes))
        if count >= blocks.count:
            return self, 1.0
        candidates = blocks_within(packed_parts(schema), blocks, UNPACKED * most)
        chosen = sorted(candidates, key=lambda number: (seeded_hash(0, "check", number), number))[:count]
        rows = sum(end - first for first, end in map(blocks.span, chosen))
        return Arrays(self.job, schema, chosen=frozenset(chosen)), rows / schema.rows

    def rows_in(self, pieces: Sequence[ArrayPiece]) -> int:
        return sum(piece.rows for piece in pieces if piece.array == pieces[0].array)

    @property
    def remarks(self) -> Sequence[str]:
        texts = (
            f"{column.name} {column.array.dtype} {list(column.array.shape)}"
            + (f" in {len(column.array.parts)} files" if len(column.array.parts) > 1 else "")
            for column in self._schema.columns
        )
        return (f"arrays of {self._schema.rows:,} rows: {', '.join(texts)}",)

    def scan(self, file: FileStat, scratch: str) -> Iterable[ArrayPiece]:
        for array, part in self._parts.get(file.path, ()):
            pieces = list(cut_part(array, part, self._blocks, self._chosen))
            if pieces and is_packed(part.stored):
                stored = unpack(part.stored, scratch, max(piece.at + piece.rows for piece in pieces))
                pieces = [replace(piece, stored=stored) for piece in pieces]
            yield from pieces

    def gather(
        self, name: str, pieces: Sequence[ArrayPiece], split: SplitName | None, lost: Sequence[Reject]
    ) -> ArrayBlock | Reject:
        return gather_block(name, pieces, self._schema, self._blocks, lost)

    def size(self, unit: Unit[ArrayBlock]) -> int:
        return unit.rows * self._schema.row_bytes

    @property
    def zero(self) -> ArrayStatistics:
        return ArrayStatistics.zero(self._schema)

    def validate(self, unit: Unit[ArrayBlock]) -> ArrayVerdict:
        return validate_block(unit, self._schema, self.job.split, self._rows_per_record)

    def works(self, verdict: ArrayVerdict) -> Iterator[tuple[Work[ArrayBlock], int]]:
        block = verdict.asset
        filled = [name for name in SPLITS if verdict.usable[name]]
        for name in filled:
            # What is written of a block ends with its last split, for who counts blocks and rows.
            rows = block.rows if name == filled[-1] else 0
            yield Work(Unit(block, 0, 0, rows), name), verdict.usable[name] * self._schema.row_bytes

    @property
    def graph(self) -> Later:
        return Later("beamfeed.transforms.sources.array.graph:trace_arrays", self._schema)

    def learned(self, statistics: ArrayStatistics, made: str) -> dict[str, np.ndarray]:
        scaled = zip(self._schema.scaled, statistics.moments, strict=True)
        return {column.name: Scaling.of(moments, column.scale).rows for column, moments in scaled}

    def checked(self, statistics: ArrayStatistics) -> ArrayStatistics:
        keys = [f"source.outputs.{column.name}:" for column in self._schema.auto]
        check_classes(keys, "its classes", statistics.classes)
        return statistics

    def read(self, work: Work[ArrayBlock], made: str | None, statistics: ArrayStatistics) -> Iterator[RecordBlock]:
        scale = None if made is None else partial(scale_inputs, rows=self.learned(statistics, made))
        schema = self._with_classes(statistics)
        return block_records(work.unit.asset, work.split, schema, self.job.split, self._rows_per_record, scale)

    def read_with(self, work: Work[ArrayBlock], transform: Transform) -> Iterator[RecordBlock]:
        def scale(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            rows = len(next(iter(inputs.values())))
            fields = transform({ROW: np.zeros(rows, np.int64), **inputs})
            return {name: np.asarray(fields[name]) for name in inputs}

        block, split = work.unit.asset, self.job.split
        return block_records(block, work.split, self._schema, split, self._rows_per_record, scale)

    def _with_classes(self, statistics: ArrayStatistics) -> ArraySchema:
        return replace(self._schema, columns=settled(self._schema.columns, statistics.classes))

    def overview(self, assets: Sequence[ArrayBlock], statistics: ArrayStatistics) -> Overview:
        names = tuple(column.name for column in self._schema.columns)
        values = zip(self._schema.scaled, statistics.moments, strict=True)
        missing = tuple(
            Lacking(column.name, moments.rows * column.scales - sum(moments.count), moments.rows * column.scales)
            for column, moments in values
        )
        return Overview(names, (), missing, statistics.rows, row_bytes=self._schema.row_bytes)

    def fields(self, statistics: ArrayStatistics) -> list[Field]:
        return self._with_classes(statistics).fields()

    def raw_rows(self, statistics: ArrayStatistics, made: str) -> RawRows | None:
        return raw_rows_of(self._schema, self.job.split, partial(scale_inputs, rows=self.learned(statistics, made)))

    def stats(self, statistics: ArrayStatistics) -> Any:
        return to_json(statistics, self._schema)


SOURCE = Arrays
