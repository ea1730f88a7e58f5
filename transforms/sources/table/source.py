"""Tables of labelled rows as a kind of source: which of the folder's steps does what."""

import hashlib
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.features import Own, Pass
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.raw_rows import RawRows
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.contract.errors import UserError
from beamfeed.contract.imports import Later, heavy_imports
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.driver import Collection, Driver
from beamfeed.transforms.sources.base import Source, Transform
from beamfeed.transforms.sources.columns.labels import check_of_rows, label_values
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.descriptors import Unit, Work
from beamfeed.transforms.sources.overview import Lacking, Overview
from beamfeed.transforms.sources.readers import read_schema
from beamfeed.transforms.sources.readers.formats import has_types
from beamfeed.transforms.sources.record_block import RecordBlock, Values, cut_in_records, rows_of_record
from beamfeed.transforms.sources.table.arrays import Encoder
from beamfeed.transforms.sources.table.fields import record_fields, row_bytes
from beamfeed.transforms.sources.table.learned import learned_of
from beamfeed.transforms.sources.table.plan import TableAsset, TableFile, cut_units, scan_file, with_groups
from beamfeed.transforms.sources.table.raw_rows import ValuesOfRows, raw_rows_of
from beamfeed.transforms.sources.table.resolve import require, resolve_schema
from beamfeed.transforms.sources.table.rows import ROW_NUMBER, kept_name, label_name
from beamfeed.transforms.sources.table.schema import TableSchema
from beamfeed.transforms.sources.table.split import TimeCuts
from beamfeed.transforms.sources.table.staged import Run, by_bytes, gather_counts, read_runs
from beamfeed.transforms.sources.table.statistics import TableStatistics, check_counts, notes_of, to_json, value_columns
from beamfeed.transforms.sources.table.validate import TableReport, TableVerdict, judge, validate_unit
from beamfeed.transforms.statistics.marks import Learned

PART_BYTES = 16 << 20  # of rows that go through the graph at a time


@dataclass(frozen=True)
class TableWork(Work[TableAsset]):
    """Staged rows of a split.

    Attributes:
      path: of the staged rows.
      runs: which of them.
    """

    path: str = field(kw_only=True)
    runs: tuple[Run, ...] = field(kw_only=True)


class Table(Source[TableFile, TableAsset, TableReport, TableVerdict, TableWork]):
    """Files of rows that stand for themselves. A file is an asset: what is set aside as a whole."""

    def __init__(self, job: Job, schema: TableSchema, most: int | None = None):
        super().__init__(job)
        self._schema, self._most = schema, most
        time = None if schema.time is None else schema.times[schema.time]
        self._cuts = None if time is None else TimeCuts.of(job.split, time)

    @classmethod
    def of(cls, job: Job, files: Sequence[FileStat]) -> "Table":
        check_of_rows(job.label, job.split, "a table")
        if job.split.by == "time" and (job.split.eval_from, job.split.test_from) == (None, None):
            raise UserError("split.by: time of a table needs eval_from or test_from, the times of the cuts")
        columns = [label.column for label in job.label]
        if twice := [column for column in columns if columns.count(column) > 1]:
            raise UserError(f"label: two labels are of the column {twice[0]!r}; a column gives one")
        schema = resolve_schema(job, files)
        if any(isinstance(feature.section, Own) for feature in schema.features):
            with heavy_imports():
                from beamfeed.transforms.sources.table.own import own_fields

            schema = replace(
                schema,
                features=tuple(
                    replace(feature, fields=tuple(own_fields(feature))) if isinstance(feature.section, Own) else feature
                    for feature in schema.features
                ),
            )
        record_fields(schema, job.label, TableStatistics.zero(schema))  # whether names go together
        return cls(job, schema)

    @classmethod
    def asset_of_path(cls, path: str, job: Job) -> str:
        # As short as tells files apart, and the same wherever the folder is; several folders may have the same names.
        patterns = job.source.patterns
        return storage.below(path, patterns) if len(patterns) == 1 else path

    def excerpt(self, most: int) -> "Table":
        return Table(self.job, self._schema, most)

    def value_of_path(self, path: str) -> str | None:
        column = self._schema.split
        return key_columns(path).get(column) if column in self._schema.of_path and column is not None else None

    @property
    def remarks(self) -> Sequence[str]:
        return self._schema.remarks

    def scan(self, file: FileStat, scratch: str) -> Iterable[TableFile]:
        yield scan_file(file, self.asset_of_path(file.path, self.job), self._schema, scratch, self._most)

    def units(self, asset: TableAsset) -> Iterator[Unit[TableAsset]]:
        return cut_units(asset, len(self._schema.columns))

    def size(self, unit: Unit[TableAsset]) -> int:
        return unit.rows * 8 * len(self._schema.columns)

    @property
    def zero(self) -> TableStatistics:
        return TableStatistics.zero(self._schema)

    def validate(self, unit: Unit[TableAsset]) -> TableReport:
        return validate_unit(unit, self._schema, self.job, self._cuts)

    def judge(self, asset: TableAsset, reports: Iterable[TableReport]) -> TableVerdict:
        return judge(asset, reports, self._schema)

    def works(self, verdict: TableVerdict) -> Iterator[tuple[TableWork, int]]:
        asset = with_groups(verdict.asset)  # its rows are read from what was staged
        last = max((staged.index for staged in verdict.staged), default=0)
        for staged in verdict.staged:
            by_place: dict[tuple[SplitName, str], list[Run]] = {}
            for run in staged.runs:
                by_place.setdefault((run.split, run.folder), []).append(run)
            for number, ((name, folder), runs) in enumerate(by_place.items()):
                rows = sum(run.rows for run in runs)
                ends = staged.index == last and number == len(by_place) - 1
                # A unit of what is written: it need not be a run of the file's rows.
                unit = Unit(asset, staged.index, 0 if not ends else asset.rows - rows, rows if not ends else asset.rows)
                yield (
                    TableWork(unit, name, folder=folder, path=staged.path, runs=tuple(runs)),
                    sum(run.size for run in runs),
                )

    def learn(self, driver: Driver, verdicts: Collection) -> tuple[Collection, Collection | None]:
        statistics, _ = super().learn(driver, verdicts)
        if self.graph:
            return statistics, None

        def analyze(verdicts: Collection, scratch: str) -> Collection:
            from beamfeed.transforms.sources.table.analyze import analyze_own

            return analyze_own(verdicts, self._schema, statistics, scratch)

        return statistics, driver.made(verdicts, analyze)

    @property
    def graph(self) -> Later | None:
        if any(isinstance(feature.section, Own) for feature in self._schema.features):
            return None  # analyzers of functions of the user's own look at rows, and make the graph where these are
        return Later("beamfeed.transforms.sources.table.graph:trace_table", self._schema)

    def learned(self, statistics: TableStatistics, made: str) -> Learned:
        return learned_of(self._schema, statistics).of_graph()

    def checked(self, statistics: TableStatistics) -> TableStatistics:
        counts = gather_counts(statistics.counts, sorted(statistics.parts))
        statistics = replace(statistics, counts=counts, parts=())
        check_counts(statistics, self._schema)
        return replace(statistics, digest=hashlib.blake2b(pickle.dumps(statistics), digest_size=16).hexdigest())

    def read(self, work: TableWork, made: str | None, statistics: TableStatistics) -> Iterator[RecordBlock]:
        schema, fields = self._schema.with_classes(statistics.classes), self.fields(statistics)
        encoder = self._numbers_passed if made is None else self._encoder(statistics, made)
        size = row_bytes(fields)
        rows = self.job.output.rows_per_record or rows_of_record(size)
        for run in read_runs(work.path, work.runs):
            for part in by_bytes(run, PART_BYTES, size, rows):
                first, counts = cut_in_records(part.num_rows, rows)
                columns = [part.column(label_name(label)) for label in schema.labels]
                labels = label_values(columns, self.job.label, schema.labels, part.num_rows)
                yield RecordBlock(work.unit.asset.name, first, counts, encoder(part) | labels)

    def _numbers_passed(self, rows: pa.RecordBatch) -> dict[str, Values]:
        """What some rows give without the transform graph: the numbers that it only passes on."""
        return {
            feature.name: rows.column(feature.columns[0]).to_numpy()
            for feature in self._schema.features
            if isinstance(feature.section, Pass) and feature.section.as_ == "number"
        }

    def keeping(self, names: Sequence[str], files: Sequence[FileStat]) -> "Table":
        schema = self._schema
        first = pa.schema([]) if not names else read_schema(files[0].path, schema.text)
        columns = [*first.names, *sorted(schema.of_path)]
        for name in names:
            if name in schema.partitions:
                raise UserError(
                    f"--keep: {name!r} is a column of output.partition_by, which the folders of the output tell"
                )
            require(name, columns, "--keep")
        kept_columns = {name: pa.string() if name in schema.of_path else first.field(name).type for name in names}
        if not has_types(files[0].path):
            kept_columns |= {name: pa.float64() if name in schema.numbers else pa.string() for name in names}
        kept_columns |= {
            name: type_.value_type for name, type_ in kept_columns.items() if pa.types.is_dictionary(type_)
        }
        kept_columns |= {name: pa.string() for name, type_ in kept_columns.items() if pa.types.is_null(type_)}
        return Table(self.job, replace(schema, kept_columns=kept_columns), self._most)

    def read_with(self, work: TableWork, transform: Transform) -> Iterator[RecordBlock]:
        piece, kept_columns = work.unit.asset.piece, self._schema.kept_columns or ()
        for run in read_runs(work.path, work.runs):
            for rows in by_bytes(run, PART_BYTES):
                place = {"file": pa.repeat(piece.path, rows.num_rows), "row": rows.column(ROW_NUMBER)}
                place |= {f"{name}_" if name in place else name: rows.column(kept_name(name)) for name in kept_columns}
                fields = transform({name: rows.column(name) for name in transform.inputs})
                starts, every = np.zeros(1, np.int64), np.array([rows.num_rows])
                yield RecordBlock(work.unit.asset.name, starts, every, fields, pa.RecordBatch.from_pydict(place))

    def reading_as(self, raw: RawValues | None) -> "Table":
        """True and false in capitals are what they were in the dataset, whatever else is in these files' columns."""
        schema = self._schema
        if raw is None:
            return self
        texts = {name: raw.columns[name] for name in schema.texts if name in raw.columns}
        booleans = schema.booleans.difference(texts) | {name for name, column in texts.items() if column.bools}
        whole = frozenset(name for name, column in texts.items() if column.whole)
        return Table(self.job, replace(schema, booleans=booleans, whole=whole), self._most)

    def notes_of(self, statistics: TableStatistics) -> list[str]:
        return notes_of(statistics, self._schema)

    def overview(self, assets: Sequence[TableAsset], statistics: TableStatistics) -> Overview:
        schema, rows = self._schema, statistics.moments.rows
        names = read_schema(assets[0].piece.path, schema.text).names if assets else ()
        return Overview(
            tuple(schema.columns),
            tuple(name for name in names if name not in schema.columns),
            tuple(
                Lacking(name, count, rows)
                for name, count in zip(value_columns(schema), statistics.missing, strict=True)
            ),
            rows,
        )

    def fields(self, statistics: TableStatistics) -> list[Field]:
        return record_fields(self._schema.with_classes(statistics.classes), self.job.label, statistics)

    @property
    def raw_values(self) -> RawValues | None:
        return self._schema.raw

    def raw_rows(self, statistics: TableStatistics, made: str) -> RawRows | None:
        return raw_rows_of(self._schema, self._encoder(statistics, made))

    def _encoder(self, statistics: TableStatistics, made: str) -> ValuesOfRows:
        if self.graph:
            return Encoder.of(self._schema, statistics)
        from beamfeed.transforms.sources.table.analyze import load_transformer

        return load_transformer(made)

    def stats(self, statistics: TableStatistics) -> dict[str, Any]:
        return to_json(statistics, self._schema, statistics.moments.rows)


SOURCE = Table
