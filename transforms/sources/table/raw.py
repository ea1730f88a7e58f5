"""What becomes of the values of a table's files before the graph gets them, for who has rows as text later on."""

from collections import Counter
from collections.abc import Iterable, Mapping

import pyarrow as pa

from beamfeed.contract.dataset.raw_values import RawColumn, RawValues
from beamfeed.transforms.sources.columns.paths import NOTHING
from beamfeed.transforms.sources.columns.time_units import is_text
from beamfeed.transforms.sources.readers import NULL_WORDS, Look, Numbers, pattern_of
from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, TRUE_WORDS
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.values import NUMBER, group_patterns
from beamfeed.transforms.sources.table.schema import TableSchema


def raw_values_of(schema: TableSchema, looks: Mapping[str, Look]) -> RawValues:
    """One description for all files.

    Files may be written in different ways, and a row says not which one it is from. So numbers are written as in most
    of the CSVs, white space counts for nothing if some CSV has it around values, and words for a missing value are
    none if there is a CSV.

    Args:
      schema: of the job.
      looks: what some files tell, by their paths.
    """
    dialects = [look.dialect for look in looks.values() if look.dialect is not None]
    numbers = schema.text.numbers or _most_common(dialect.numbers for dialect in dialects)
    group, grouped = group_patterns(numbers)
    typed = {
        name
        for path, look in looks.items()
        if not dialects and format_of(path) in ("parquet", "arrow")
        for name, type_ in zip(look.schema.names, look.schema.types, strict=True)
        if not is_text(type_) and not pa.types.is_integer(type_) and not pa.types.is_boolean(type_)
    }
    required = {feature.columns[0] for feature in schema.features if feature.required}
    columns = {}
    for name in dict.fromkeys(column for feature in schema.features for column in feature.columns):
        of_path = name in schema.of_path
        columns[name] = RawColumn(
            reads="number" if name in schema.numbers else "time" if name in schema.times else "text",
            trims=name in schema.numbers or (not of_path and any(dialect.padded for dialect in dialects)),
            null_words=name not in schema.prose and (bool(dialects) or name in schema.numbers),
            bools=name in schema.booleans,
            typed=name in typed,
            pattern=pattern_of(schema.times[name].text) if name in schema.times else "",
            aware=schema.times[name].aware if name in schema.times else None,
            required=name in required,
        )
    return RawValues(
        null_words=[*NULL_WORDS, *schema.text.keys.null_words, *([NOTHING] if schema.of_path else [])],
        true_words=list(TRUE_WORDS),
        false_words=list(FALSE_WORDS),
        decimal=numbers.decimal,
        group=group,
        grouped=grouped,
        number=NUMBER,
        columns=columns,
    )


def _most_common(found: Iterable[Numbers]) -> Numbers:
    """How most files write their numbers."""
    counts = Counter(found)
    return counts.most_common(1)[0][0] if counts else Numbers(".")
