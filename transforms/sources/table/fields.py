"""What a record of a table holds."""

from collections.abc import Sequence

from beamfeed.contract.config.features import Own, Pass, Text
from beamfeed.contract.config.label import Label
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.columns.labels import label_field
from beamfeed.transforms.sources.table.encode import CATEGORIES
from beamfeed.transforms.sources.table.learned import NUMBERS, category_sizes, number_names, vocabularies
from beamfeed.transforms.sources.table.schema import TableSchema
from beamfeed.transforms.sources.table.statistics import TableStatistics


def row_bytes(fields: Sequence[Field]) -> int:
    """About how many bytes a row of these fields takes in a record."""
    return sum((field.bytes or 64) for field in fields)


def record_fields(schema: TableSchema, labels: Sequence[Label], statistics: TableStatistics) -> list[Field]:
    """The fields: `numbers` and `categories`, as far as there are some, texts, what is passed on, and labels.

    Raises:
      UserError: if two have one name.
    """
    fields: list[Field] = []
    if names := number_names(schema):
        fields.append(Field(name=NUMBERS, dtype="float32", shape=(len(names),), role="input", columns=names))
    terms = vocabularies(statistics, schema)
    if sizes := category_sizes(statistics, terms, schema):
        columns, counts = map(list, zip(*sizes, strict=True))
        wide = (len(columns),)
        fields.append(Field(name=CATEGORIES, dtype="int64", shape=wide, role="input", columns=columns, sizes=counts))
    for feature in schema.features:
        match feature.section:
            case Text() as section:
                shape = (None,) if section.length == "ragged" else (section.length,)
                size = 2 + len(terms[feature.name])
                fields.append(Field(name=feature.name, dtype="int64", shape=shape, role="input", sizes=[size]))
            case Own():
                fields += feature.fields
            case Pass() as section:
                dtype = "float32" if section.as_ == "number" else "bytes"
                fields.append(Field(name=feature.name, dtype=dtype, role=section.role))
    fields += [label_field(label, spec.classes) for label, spec in zip(labels, schema.labels, strict=True)]
    for field in fields:
        if same := [name for name in field.columns if field.columns.count(name) > 1]:
            raise UserError(
                f"features: two columns of {field.name!r} would be called {same[0]!r}; give a feature its own name"
            )
    names = [field.name for field in fields]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"features and labels: two fields would be called {twice[0]!r}; give one its own name")
    return fields
