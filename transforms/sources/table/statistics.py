"""What is counted of the training rows of a table, in one pass over columns; it adds up in any order to equal bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.features import MOST_TERMS, Bucket, Categorical, Numeric, Text
from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.text import counted
from beamfeed.transforms.sources.columns.label_counts import check_auto
from beamfeed.transforms.sources.table.rows import find_missing, label_name
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema
from beamfeed.transforms.sources.table.staged import by_bytes
from beamfeed.transforms.sources.table.words import words_of
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.quantiles import RowSample
from beamfeed.transforms.statistics.sums import add_fields, add_known
from beamfeed.transforms.statistics.value_counts import MOST_BYTES, ValueCounts

MOST_PARTITIONS = 1000
NO_TERM = "\x00"  # the first line of a vocabulary's file, which must not be empty
WORD_BYTES = 4 << 20  # of texts whose words are counted at a time


@dataclass(frozen=True)
class TableStatistics:
    """Of some rows.

    Attributes:
      moments: of each Numeric feature, of the logarithm where that is scaled.
      sample: rows of numbers of the features that quantiles are taken of, where there are any.
      counts: of each feature that has a vocabulary, its values or words.
      labels: of each label with classes: auto, its values in training rows, and
      elsewhere: in other rows.
      folders: of the partitions of all rows.
      missing: of each of `value_columns`, how many training rows have no value.
      parts: files with more of `counts`, see `write_counts`.
      digest: of all the others, when they are complete.
    """

    moments: Moments
    sample: RowSample | None
    counts: tuple[ValueCounts, ...]
    labels: tuple[ValueCounts, ...]
    elsewhere: tuple[ValueCounts, ...]
    folders: ValueCounts
    missing: tuple[int, ...]
    parts: tuple[str, ...] = ()
    digest: str = ""

    @classmethod
    def zero(cls, schema: TableSchema) -> "TableStatistics":
        """Of no rows."""
        sampled, auto = len(sampled_features(schema)), [label for label in schema.labels if label.auto]
        classes = tuple(ValueCounts.zero(MOST_CLASSES) for _ in auto)
        return cls(
            Moments.zero(len(numeric_features(schema))),
            RowSample.zero(sampled) if sampled else None,
            tuple(ValueCounts.zero(MOST_TERMS) for _ in counted_features(schema)),
            classes,
            classes,
            ValueCounts.zero(MOST_PARTITIONS),
            (0,) * len(value_columns(schema)),
        )

    def __add__(self, other: "TableStatistics") -> "TableStatistics":
        sample = add_known(self.sample, other.sample)
        return add_fields(self, other, sample=sample, parts=self.parts + other.parts, digest="")


def value_columns(schema: TableSchema) -> list[str]:
    """The columns that features are made from."""
    return [*schema.numbers, *schema.texts, *(name for name in schema.times if name in schema.dated)]


def numeric_features(schema: TableSchema) -> list[NamedFeature]:
    """The features that become scaled numbers, in order."""
    return [feature for feature in schema.features if isinstance(feature.section, Numeric)]


def sampled_features(schema: TableSchema) -> list[NamedFeature]:
    """Those that quantiles are taken of."""
    return [
        feature
        for feature in schema.features
        if (isinstance(feature.section, Bucket) and feature.section.buckets)
        or (isinstance(feature.section, Numeric) and feature.section.scale == "robust")
    ]


def counted_features(schema: TableSchema) -> list[NamedFeature]:
    """Those that have a vocabulary."""
    return [
        feature
        for feature in schema.features
        if isinstance(feature.section, Text)
        or (isinstance(feature.section, Categorical) and feature.section.hash is None)
    ]


def add_rows(
    before: TableStatistics, training: pa.RecordBatch, elsewhere: pa.RecordBatch, schema: TableSchema, asset: str,
    positions: np.ndarray,
) -> TableStatistics:  # fmt: skip
    """The statistics with some rows more.

    Args:
      before: of the rows before.
      training: rows that train, as `TableRows.columns` has them.
      elsewhere: rows of the other splits, of which labels count.
      schema: of the job.
      asset: the name of their file.
      positions: int64, of the training rows in the file.
    """
    sampled = sampled_features(schema)
    sample = None
    if before.sample is not None:
        sample = before.sample.extend(_matrix(training, sampled, log=False), asset, positions)
    auto = [label_name(label) for label in schema.labels if label.auto]
    return TableStatistics(
        before.moments + Moments.of(_matrix(training, numeric_features(schema), log=True)),
        sample,
        tuple(
            _count_terms(counts, training, feature)
            for counts, feature in zip(before.counts, counted_features(schema), strict=True)
        ),
        _add_labels(before.labels, training, auto),
        _add_labels(before.elsewhere, elsewhere, auto),
        before.folders,
        tuple(
            count + int(find_missing(training.column(name)).sum())
            for count, name in zip(before.missing, value_columns(schema), strict=True)
        ),
    )


def _add_labels(before: tuple[ValueCounts, ...], rows: pa.RecordBatch, names: Sequence[str]) -> tuple[ValueCounts, ...]:
    columns = (ValueCounts.of(rows.column(name), MOST_CLASSES) for name in names)
    return tuple(counts + more for counts, more in zip(before, columns, strict=True))


def _matrix(rows: pa.RecordBatch, features: Sequence[NamedFeature], *, log: bool) -> np.ndarray:
    """float32 [rows, features]."""
    matrix = np.empty((rows.num_rows, len(features)), np.float32)
    for i, feature in enumerate(features):
        values = rows.column(feature.columns[0]).to_numpy(zero_copy_only=False)
        takes_log = log and isinstance(feature.section, Numeric) and feature.section.scale == "log"
        matrix[:, i] = np.sign(values) * np.log1p(np.abs(values)) if takes_log else values
    return matrix


def _count_terms(counts: ValueCounts, rows: pa.RecordBatch, feature: NamedFeature) -> ValueCounts:
    """The counts with the values or words of some rows more."""
    if not isinstance(feature.section, Text):
        return counts + ValueCounts.of(_terms(rows.column(feature.columns[0])), MOST_TERMS)
    for part in by_bytes(rows.select([feature.columns[0]]), WORD_BYTES):
        words = words_of(part.column(0).fill_null(""), feature.section)
        counts += ValueCounts.of(_terms(words.values), MOST_TERMS)
    return counts


def _terms(column: pa.Array) -> pa.Array:
    """The values that count for a vocabulary; what has a line break in it has no place in its file, nor NO_TERM."""
    unusable = pc.or_(pc.match_substring_regex(column, r"[\r\n]"), pc.equal(column, NO_TERM))
    return column.filter(pc.invert(unusable)) if pc.any(unusable).as_py() else column


def check_partitions(folders: ValueCounts, schema: TableSchema) -> None:
    """Raises JobFailed if there are too many partitions."""
    if folders.over:
        raise JobFailed(
            f"output.partition_by: {', '.join(schema.partitions)} would make more than {MOST_PARTITIONS:,} partitions; "
            "give a column of fewer values"
        )


def check_counts(statistics: TableStatistics, schema: TableSchema) -> None:
    """Refuses what can be no vocabulary, and labels that cannot be learned.

    Raises:
      JobFailed: with the feature or the label.
    """
    for counts, feature in zip(statistics.counts, counted_features(schema), strict=True):
        if counts.over:
            raise JobFailed(
                f"features.{feature.name}: {feature.columns[0]!r} has more than {MOST_TERMS:,} different values in "
                f"training rows, or more than {MOST_BYTES >> 20} MB of them; give it 'hash: 100000', or leave it out"
            )
    check_partitions(statistics.folders, schema)
    check_auto(schema.labels, statistics.labels, statistics.elsewhere)


def notes_of(statistics: TableStatistics, schema: TableSchema) -> list[str]:
    """What is not counted, a line for each feature."""
    missing = dict(zip(value_columns(schema), statistics.missing, strict=True))
    notes = []
    for counts, feature in zip(statistics.counts, counted_features(schema), strict=True):
        if not isinstance(feature.section, Text):
            count = statistics.moments.rows - missing[feature.columns[0]] - counts.total
            lost = f"{counted(count, 'training value')} with a line break"
            notes += [f"features.{feature.name}: {lost} left out of the vocabulary; hash takes them"] if count else []
    return notes


def to_json(statistics: TableStatistics, schema: TableSchema, rows: int) -> dict[str, Any]:
    """For stats.json: of each feature what was counted."""
    missing = dict(zip(value_columns(schema), statistics.missing, strict=True))
    features: dict[str, dict[str, Any]] = {
        feature.name: {"count": rows - missing[feature.columns[0]], "missing": missing[feature.columns[0]]}
        for feature in schema.features
        if len(feature.columns) == 1
    }
    features |= statistics.moments.describe([feature.name for feature in numeric_features(schema)])
    for counts, feature in zip(statistics.counts, counted_features(schema), strict=True):
        top = counts.frequent(1, 20)
        by_value = dict(counts.items())
        features[feature.name] |= {"different": len(counts), "most_frequent": {value: by_value[value] for value in top}}
    return {"rows": rows, "features": features}
