"""Reads every row that can be wrong once: sets rows aside that cannot be used, and counts the others by split."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from beamfeed.contract.config.split import SPLITS, Split, SplitName
from beamfeed.transforms.notes import Note
from beamfeed.transforms.rejects import BadInput, Reject
from beamfeed.transforms.sources.array.plan import ArrayBlock
from beamfeed.transforms.sources.array.rows import MOST_REPORTED, NONE, ArrayRows, iter_rows, unique_texts
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.sources.array.statistics import ArrayStatistics, statistics_of
from beamfeed.transforms.sources.descriptors import Report, Unit, Verdict
from beamfeed.transforms.splits import split_of_value

MOST_VALUES = 100  # of split.column that are in no list, for messages
UNLABELLED, UNUSED = "rows without a label, left out", "rows in no split, left out"


@dataclass(frozen=True)
class ArrayReport(Report):
    """What was found in a block.

    Attributes:
      usable: its rows by split.
      wrong: rows that were set aside; the first ones.
      rejected_rows: how many these are.
      left_out: rows that take no part, by the words that tell why.
      values: of split.column.
    """

    usable: Counter[str] = field(default_factory=Counter, kw_only=True)
    wrong: tuple[Reject, ...] = field(default=(), kw_only=True)
    rejected_rows: int = field(default=0, kw_only=True)
    left_out: Counter[str] = field(default_factory=Counter, kw_only=True)
    values: frozenset[str] = field(default=frozenset(), kw_only=True)


@dataclass(frozen=True)
class ArrayVerdict(Verdict[ArrayBlock]):
    """What becomes of a block.

    Attributes:
      usable: its rows by split.
    """

    usable: Counter[str] = field(default_factory=Counter, kw_only=True)

    @property
    def split_rows(self) -> Mapping[SplitName, int]:
        return {name: self.usable[name] for name in SPLITS}


def validate_block(unit: Unit[ArrayBlock], schema: ArraySchema, split: Split, rows_per_record: int) -> ArrayReport:
    """Checks the rows of a block; never raises for bad data."""
    block, report = unit.asset, ArrayReport(unit.index, ArrayStatistics.zero(schema))
    names = [column.name for column in schema.scaled]
    try:
        for rows in iter_rows(block, schema, split, rows_per_record, names):
            report = _with(report, rows, block, schema, split)
    except BadInput as bad:
        return ArrayReport(unit.index, ArrayStatistics.zero(schema), reject=bad.reject(block.name))
    return report


def _with(report: ArrayReport, rows: ArrayRows, block: ArrayBlock, schema: ArraySchema, split: Split) -> ArrayReport:
    """The report with some rows more."""
    usable = rows.usable
    rejects = [
        Reject(block.name, block.file_of(array, rows.first + at), f"row {rows.first + at}", why, of_row=True)
        for at, (array, why) in sorted(rows.wrong.items())[: MOST_REPORTED - len(report.wrong)]
    ]
    counts: Counter[str] = Counter()
    for place, name in enumerate(SPLITS):
        counts[name] = int((usable & (rows.places == place)).sum())
    right = ~rows.bad
    left_out = Counter(
        {
            UNUSED: int((right & (rows.places == NONE)).sum()),
            UNLABELLED: int((right & (rows.places != NONE) & rows.unlabelled).sum()),
        }
    )
    values: set[str] = set()
    if schema.split is not None:
        texts, _ = unique_texts(rows.values[schema.split])
        values.update(text for text in texts if split_of_value(text, split))
        values.update(texts[:MOST_VALUES])
    return replace(
        report,
        statistics=report.statistics + statistics_of(rows, schema),
        usable=report.usable + counts,
        wrong=(*report.wrong, *rejects),
        rejected_rows=report.rejected_rows + int(rows.bad.sum()),
        left_out=report.left_out + left_out,
        values=report.values | values,
    )


def judge(block: ArrayBlock, reports: Iterable[ArrayReport], schema: ArraySchema) -> ArrayVerdict:
    """Decides from the report on a block; one without a row that can be used takes no part, and its rows count."""
    (report,) = reports
    zero = ArrayStatistics.zero(schema)
    if report.reject is not None:
        return ArrayVerdict(block, zero, rejects=(report.reject,), split_values=report.values)
    notes = tuple(Note(text, block.name, count) for text, count in sorted(report.left_out.items()) if count)
    return ArrayVerdict(
        block, report.statistics, left_out=not report.usable.total(), notes=notes, split_values=report.values,
        row_rejects=report.wrong, rejected_rows=report.rejected_rows, usable=report.usable,
    )  # fmt: skip
