"""Reads every row that can be wrong once: sets rows aside that cannot be used, and counts the others by split."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from beamfeed.contract.config.split import SPLITS, Split, SplitName
from beamfeed.transforms.notes import UNLABELLED, UNUSED, counts_of
from beamfeed.transforms.rejects import MOST_ROWS, BadInput, Reject
from beamfeed.transforms.sources.array.plan import ArrayBlock
from beamfeed.transforms.sources.array.rows import iter_rows, unique_texts
from beamfeed.transforms.sources.array.schema import ArraySchema
from beamfeed.transforms.sources.array.statistics import ArrayStatistics, statistics_of
from beamfeed.transforms.sources.descriptors import Unit, Verdict
from beamfeed.transforms.splits import NONE, some_values


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


def validate_block(unit: Unit[ArrayBlock], schema: ArraySchema, split: Split, rows_per_record: int) -> ArrayVerdict:
    """What becomes of a block, whose rows are all checked; never raises for bad data.

    One without a row that can be used takes no part, and its rows count.
    """
    block, statistics, rejected_rows = unit.asset, ArrayStatistics.zero(schema), 0
    usable, left_out, wrong, values = Counter[str](), Counter[str](), list[Reject](), set[str]()
    names = [column.name for column in schema.scaled]
    try:
        for rows in iter_rows(block, schema, split, rows_per_record, names):
            statistics += statistics_of(rows, schema)
            for place, name in enumerate(SPLITS):
                usable[name] += int((rows.usable & (rows.places == place)).sum())
            rejected_rows += int(rows.bad.sum())
            wrong += [
                Reject(block.name, block.file_of(array, rows.first + at), f"row {rows.first + at}", why, of_row=True)
                for at, (array, why) in sorted(rows.wrong.items())[: MOST_ROWS - len(wrong)]
            ]
            left_out[UNUSED] += int((~rows.bad & (rows.places == NONE)).sum())
            left_out[UNLABELLED] += int((~rows.bad & (rows.places != NONE) & rows.unlabelled).sum())
            if schema.split is not None:
                texts, _ = unique_texts(rows.values[schema.split])
                values.update(some_values(texts, split))
    except BadInput as bad:
        return ArrayVerdict(block, ArrayStatistics.zero(schema), rejects=(bad.reject(block.name),))
    return ArrayVerdict(
        block, statistics, left_out=not usable.total(), split_values=frozenset(values), row_rejects=tuple(wrong),
        notes=counts_of(block.name, left_out),
        rejected_rows=rejected_rows, usable=usable,
    )  # fmt: skip
