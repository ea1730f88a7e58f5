"""The first rows of a file as text beside what becomes of them, for who has rows as text later on."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.label import Label
from beamfeed.contract.dataset.raw_rows import MOST_BYTES, ROWS, RawRows
from beamfeed.contract.dataset.raw_values import RawValues
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.readers import BAD, Look, iter_batches, peek_at_rows
from beamfeed.transforms.sources.readers.formats import format_of
from beamfeed.transforms.sources.readers.values import group_patterns
from beamfeed.transforms.sources.record_block import Ragged
from beamfeed.transforms.sources.table.rows import to_rows, to_text
from beamfeed.transforms.sources.table.schema import TableSchema

if TYPE_CHECKING:  # TensorFlow is loaded where it is needed
    from beamfeed.transforms.sources.table.write import Transformer


def typical_file(raw: RawValues, looks: Mapping[str, Look]) -> str:
    """The first file whose values are written as the description says; "" if there is none, as of JSON.

    Args:
      raw: the description.
      looks: what some files tell, by their paths.
    """
    for path, look in looks.items():
        if look.dialect is not None:
            numbers = look.dialect.numbers
            if (numbers.decimal, group_patterns(numbers)) == (raw.decimal, (raw.group, raw.grouped)):
                return path
    typed = all(format_of(path) in ("parquet", "arrow") for path in looks)
    return next(iter(looks)) if typed else ""


def raw_rows_of(schema: TableSchema, labels: Sequence[Label], transformer: "Transformer") -> RawRows | None:
    """The first rows of the typical file, those before the first that is set aside.

    None if there are none, or they can no longer be read.
    """
    path, raw = schema.typical, schema.raw
    if not path or raw is None:
        return None
    of_path = key_columns(path)
    in_file = [name for name in raw.columns if name not in schema.of_path]
    try:
        first = next(iter_batches(path, schema, [*schema.names, BAD]), None)  # which checks the columns
        if first is None:
            return None
        written = peek_at_rows(path, in_file or schema.names, schema.text)
        rows = to_rows(path, 0, first[2].slice(0, ROWS), schema, labels, of_path)
    except BadInput:
        return None
    count = min([len(rows), written.num_rows, *rows.wrong])
    while count > 1 and rows.columns.slice(0, count).nbytes > MOST_BYTES:
        count //= 2
    if not count:
        return None

    def texts(name: str) -> pa.Array:
        if name in schema.of_path:
            return pa.array([of_path[name]] * count, pa.binary())
        text = to_text(written[name].slice(0, count).combine_chunks(), name, {})
        return text.fill_null("").cast(pa.binary())

    fields = transformer(rows.columns.slice(0, count))
    return RawRows(
        [f"{path}, row {row}" for row in range(count)],
        {name: texts(name) for name in raw.columns},
        {
            name: pa.array(values.reshape(-1)) if isinstance(values, np.ndarray) else values
            for name, values in fields.items()
            if not isinstance(values, Ragged)
        },
    )
