"""Reads every row once: sets rows aside that cannot be used, counts the others, and puts them by split."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.transforms.notes import UNLABELLED, UNUSED, Note, counts_of
from beamfeed.transforms.rejects import MOST_ROWS, BadInput, Reject
from beamfeed.transforms.sources.columns.numbers import is_missing
from beamfeed.transforms.sources.descriptors import Report, Unit, Verdict
from beamfeed.transforms.sources.messages import MessageWriter, file_for
from beamfeed.transforms.sources.table.plan import TableAsset
from beamfeed.transforms.sources.table.rows import TableRows, label_name, read_unit
from beamfeed.transforms.sources.table.schema import TableSchema
from beamfeed.transforms.sources.table.split import Stratifier, TimeCuts, split_rows
from beamfeed.transforms.sources.table.staged import Run, pick, write_counts
from beamfeed.transforms.sources.table.statistics import MOST_PARTITIONS, TableStatistics, add_rows, check_partitions
from beamfeed.transforms.splits import NONE, some_values
from beamfeed.transforms.statistics.value_counts import ValueCounts


@dataclass(frozen=True)
class StagedUnit:
    """Where the rows of a unit wait: the file, and its runs."""

    index: int
    path: str
    runs: tuple[Run, ...]


@dataclass(frozen=True)
class TableReport(Report):
    """What was found in one unit.

    Attributes:
      staged: its rows by split.
      wrong: rows that were set aside; the first ones.
      rejected_rows: how many these are.
      left_out: rows that take no part, by the words that tell why.
      values: of split.column.
    """

    staged: StagedUnit = field(kw_only=True)
    wrong: tuple[Reject, ...] = field(default=(), kw_only=True)
    rejected_rows: int = field(default=0, kw_only=True)
    left_out: Counter[str] = field(default_factory=Counter, kw_only=True)
    values: frozenset[str] = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True)
class TableVerdict(Verdict[TableAsset]):
    """What becomes of a file.

    Attributes:
      staged: where its rows wait.
    """

    staged: tuple[StagedUnit, ...] = field(default=(), kw_only=True)

    @property
    def split_rows(self) -> Mapping[SplitName, int]:
        rows = Counter[SplitName]()
        for run in (run for staged in self.staged for run in staged.runs):
            rows[run.split] += run.rows
        return rows


def validate_unit(unit: Unit[TableAsset], schema: TableSchema, job: Job, cuts: TimeCuts | None) -> TableReport:
    """Checks the rows of a unit, and stages those that can be used; never raises for bad data."""
    asset = unit.asset
    path = file_for(asset.piece.scratch, asset.piece.path, f"-{unit.index:06d}.arrow")
    statistics, wrong = TableStatistics.zero(schema), list[Reject]()
    below = storage.below(asset.piece.path, job.source.patterns)  # chance hangs on it: a folder may be moved
    folders = statistics.folders
    rejected, left_out, values = 0, Counter[str](), set[str]()
    with storage.open_output(path) as target:
        writer, runs, reject = MessageWriter(target), list[Run](), None
        try:
            stratifier = Stratifier(job.split.seed, f"{below} {unit.index}") if schema.stratify else None
            for rows in read_unit(unit, schema):
                places = split_rows(rows, below, job.split, cuts, stratifier)
                if rows.split is not None:
                    values.update(some_values(rows.split.unique().drop_null().to_pylist(), job.split))
                usable = _usable(rows, schema, places, left_out)
                bad = sorted(rows.wrong)  # also in no split: what is wrong is told
                rejected += len(bad)
                for row in bad[: MOST_ROWS - len(wrong)]:
                    place = rows.places.get(row) or asset.piece.place(rows.first + row)
                    wrong.append(Reject(asset.name, rows.path, place, rows.wrong[row], of_row=True))
                by_split = [np.flatnonzero(usable & (places == place)) for place in range(len(SPLITS))]
                for split, chosen in zip(SPLITS, by_split, strict=True):
                    for folder, picked in _by_folder(rows.folder, chosen):
                        part = pick(rows.columns, picked)
                        runs.append(Run(split, part.num_rows, *writer.write(part), folder))
                if rows.folder is not None:
                    folders += ValueCounts.of(rows.folder.take(pa.array(np.flatnonzero(usable))), MOST_PARTITIONS)
                    check_partitions(folders, schema)
                held_out = np.flatnonzero(usable & (places > 0))
                statistics = add_rows(
                    statistics, pick(rows.columns, by_split[0]), pick(rows.columns, held_out), schema, below,
                    rows.first + by_split[0],
                )  # fmt: skip
        except BadInput as fault:
            reject = fault.reject(asset.name)
    statistics = replace(statistics, folders=folders)
    if statistics.counts:
        write_counts(path + ".counts", statistics.counts)
        nothing = TableStatistics.zero(schema).counts
        statistics = replace(statistics, counts=nothing, parts=(path + ".counts",))
    staged = StagedUnit(unit.index, path, tuple(runs))
    return TableReport(
        unit.index, statistics, reject=reject, staged=staged, wrong=tuple(wrong), rejected_rows=rejected,
        left_out=left_out, values=frozenset(values),
    )  # fmt: skip


def _by_folder(folders: pa.Array | None, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """The rows of each partition, in the order of the names; all of them where there are none."""
    if not len(rows):
        return
    if folders is None:
        yield "", rows
        return
    encoded = folders.take(pa.array(rows)).dictionary_encode()
    codes, names = encoded.indices.to_numpy(), encoded.dictionary.to_pylist()
    for code in sorted(range(len(names)), key=names.__getitem__):
        yield names[code], rows[codes == code]


def _usable(rows: TableRows, schema: TableSchema, places: np.ndarray, left_out: Counter[str]) -> np.ndarray:
    """Bool [n]: the rows that are right, labelled and in a split."""
    usable = np.ones(len(rows), bool)
    usable[list(rows.wrong)] = False
    left_out[UNUSED] += int((usable & (places == NONE)).sum())
    usable &= places != NONE
    labelled = np.ones(len(rows), bool)
    for label in schema.labels:
        labelled &= ~is_missing(rows.columns.column(label_name(label)))
    left_out[UNLABELLED] += int((usable & ~labelled).sum())
    return usable & labelled


def judge(asset: TableAsset, reports: Iterable[TableReport], schema: TableSchema) -> TableVerdict:
    """Decides from the reports on all units of a file."""
    ordered = sorted(reports, key=lambda report: report.index)
    zero = TableStatistics.zero(schema)
    rejects = tuple(report.reject for report in ordered if report.reject is not None)
    left_out = sum((report.left_out for report in ordered), Counter[str]())
    values = frozenset().union(*(report.values for report in ordered))
    if rejects:
        return TableVerdict(asset, zero, rejects=rejects, split_values=values)
    if not asset.rows:
        return TableVerdict(asset, zero, left_out=True, notes=(Note("files without rows", asset.name),))
    row_rejects = tuple(reject for report in ordered for reject in report.wrong)
    count = sum(report.rejected_rows for report in ordered)
    staged = tuple(report.staged for report in ordered if report.staged.runs)
    if not staged and count >= asset.rows:
        reject = replace(row_rejects[0], of_row=False, reason=f"no row can be used: {row_rejects[0].reason}")
        return TableVerdict(asset, zero, rejects=(reject,), split_values=values)
    statistics = sum((report.statistics for report in ordered), zero) if staged else zero
    return TableVerdict(
        asset, statistics, left_out=not staged, notes=counts_of(asset.name, left_out), split_values=values,
        staged=staged, row_rejects=row_rejects, rejected_rows=count,
    )  # fmt: skip
