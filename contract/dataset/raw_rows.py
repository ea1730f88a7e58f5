"""The first rows of a file as it has them, and the fields that preprocessing made of them, carried with the dataset.

Who exports a model sends the rows through the SavedModel, which must predict of them what the model does of the fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError, first_line

ROWS = 16
MOST_BYTES = 1 << 20  # of the rows
_PLACE, _RAW, _FIELD = "place", "raw ", "field "  # a column, and what the names of the others begin with


@dataclass(frozen=True)
class RawRows:
    """Some rows.

    Attributes:
      places: where each is from.
      raw: by column or array, as a file has them: texts of a table; numbers or bytes of arrays. Those of all rows one
        after the other, as many of each.
      fields: by name, as records hold them, likewise. Fields of any length are left out.
    """

    places: list[str]
    raw: Mapping[str, pa.Array]
    fields: Mapping[str, pa.Array]


def write_raw_rows(path: str, rows: RawRows) -> None:
    """Writes them as Parquet, a list of values for each row; equal rows give equal bytes."""

    def listed(values: pa.Array) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(values, len(values) // len(rows.places))

    columns = {_PLACE: pa.array(rows.places, pa.string())}
    columns |= {_RAW + name: listed(values) for name, values in sorted(rows.raw.items())}
    columns |= {_FIELD + name: listed(values) for name, values in sorted(rows.fields.items())}
    storage.write_table(path, pa.table(columns))


def read_raw_rows(path: str) -> RawRows | None:
    """The rows; None if the dataset has none, as those of other kinds and tools.

    Raises:
      UserError: if they are damaged.
    """
    try:
        table = storage.read_table(path).combine_chunks()
        places = [str(place) for place in table[_PLACE].to_pylist()]
        raw, fields = (
            {
                name.removeprefix(kind): table[name].chunk(0).flatten()
                for name in table.column_names
                if name.startswith(kind) and places
            }
            for kind in (_RAW, _FIELD)
        )
    except FileNotFoundError:
        return None
    except (pa.ArrowException, OSError, KeyError, ValueError, AttributeError) as error:
        raise UserError(f"{path}: damaged: {first_line(error)}; preprocess again") from None
    return RawRows(places, raw, fields) if places else None
