"""What becomes of the values of a table's files before the graph gets them, for who has rows as text later on."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import pyarrow as pa

from beamfeed.contract.dataset.raw_values import RawColumn, RawValues
from beamfeed.transforms.sources.columns.numbers import plain_type
from beamfeed.transforms.sources.readers import NULL_WORDS, Look, Numbers, has_types
from beamfeed.transforms.sources.readers.dialect import FALSE_WORDS, TRUE_WORDS
from beamfeed.transforms.sources.readers.time_text import pattern_of
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
    written = Counter(dialect.numbers for dialect in dialects).most_common(1)
    numbers = schema.text.numbers or (written[0][0] if written else Numbers("."))
    group, grouped = group_patterns(numbers)
    all_typed = not dialects and all(map(has_types, looks))
    types = types_of(looks)
    typed = {
        name
        for name, column_types in types.items()
        if all_typed and column_types and all(map(_has_spellings, column_types))
    }
    required = {feature.columns[0] for feature in schema.features if feature.required}
    columns, categories, prose = {}, schema.categories, schema.prose
    for name in dict.fromkeys(column for feature in schema.features for column in feature.columns):
        of_path = name in schema.of_path
        columns[name] = RawColumn(
            reads="number" if name in schema.numbers else "time" if name in schema.times else "text",
            trims=name in schema.numbers or (not of_path and any(dialect.padded for dialect in dialects)),
            null_words=name not in prose and (bool(dialects) or name in schema.numbers),
            bools=name in schema.booleans,
            typed=name in typed,
            whole=name in categories,
            of_path=of_path,
            pattern=pattern_of(schema.times[name].text) if name in schema.times else "",
            aware=schema.times[name].aware if name in schema.times else None,
            required=name in required,
        )
    return RawValues(
        null_words=[*NULL_WORDS, *schema.text.keys.null_words],
        true_words=list(TRUE_WORDS),
        false_words=list(FALSE_WORDS),
        decimal=numbers.decimal,
        group=group,
        grouped=grouped,
        number=NUMBER,
        columns=columns,
    )


def types_of(looks: Mapping[str, Look]) -> dict[str, set[pa.DataType]]:
    """The types that columns have in some files, those of dictionaries by their values, but for columns of nulls."""
    by_name: dict[str, set[pa.DataType]] = defaultdict(set)
    for look in looks.values():
        for name, type_ in zip(look.schema.names, look.schema.types, strict=True):
            if not pa.types.is_null(plain_type(type_)):
                by_name[name].add(plain_type(type_))
    return by_name


def _has_spellings(type_: pa.DataType) -> bool:
    """Whether a value of the type can be written as text in more than one way."""
    return pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_temporal(type_)
