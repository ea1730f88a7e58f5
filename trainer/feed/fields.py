"""Which fields of the records are read, and how many bytes they take. Pure; no TensorFlow."""

from collections.abc import Sequence
from dataclasses import dataclass

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import BYTES, Field, Per
from beamfeed.contract.dataset.manifest import Manifest, SplitInfo
from beamfeed.contract.errors import UserError

# A field that no record has: the row of its record at which a window begins, and how many rows that record has. No
# dataset can have one of this name.
PLACE = Field.model_construct(name=".place", dtype="int64", shape=(2,), role="key", per="window")


@dataclass(frozen=True)
class FieldSelection:
    """What is read of each record.

    Attributes:
      fields: those that a batch holds.
      rows_of: a field with a value for each row, wanted or not: it tells how many rows a record has.
      windows: where windows are in the rows.
    """

    fields: tuple[Field, ...]
    rows_of: Field
    windows: Windows

    @property
    def stored(self) -> tuple[Field, ...]:
        """Those of `fields` that records have."""
        return tuple(field for field in self.fields if field.name != PLACE.name)

    @property
    def parsed(self) -> tuple[Field, ...]:
        """The fields to parse; the one that tells the rows comes first."""
        return (self.rows_of, *(field for field in self.stored if field != self.rows_of))

    def of(self, per: Per) -> list[Field]:
        """The wanted fields that have a value for each row, window or record."""
        return [field for field in self.fields if field.per == per]


def data_fields(manifest: Manifest) -> tuple[Field, ...]:
    """All fields but the keys."""
    return tuple(field for field in manifest.fields if field.role != "key")


def choose_fields(manifest: Manifest, names: Sequence[str] | None) -> FieldSelection:
    """The fields of these names; where none are given, all but the keys.

    Raises:
      ValueError: if `names` is not a list of at least one name.
      UserError: if the dataset has no such field, or no field with a value for each row.
    """
    if isinstance(names, str) or (names is not None and not names):
        raise ValueError(f"fields is {names!r}, it must be a list of names, or None")
    chosen = (
        data_fields(manifest)
        if names is None
        else tuple(PLACE if name == PLACE.name else manifest.field(name) for name in dict.fromkeys(names))
    )
    of_rows = [field for field in manifest.fields if field.per == "row"]
    if not of_rows or not chosen:
        raise UserError(f"dataset {manifest.name}: has no field with a value for each {'window' if of_rows else 'row'}")
    # What is parsed anyway, then what is of one size, then the smallest.
    rows_of = min(of_rows, key=lambda field: (field not in chosen, field.is_ragged, BYTES[field.dtype] * field.width))
    return FieldSelection(chosen, rows_of, manifest.windows)


def stored_bytes(info: SplitInfo, fields: Sequence[Field], data_bytes: int) -> int:
    """Bytes in memory of all values of a split.

    Args:
      info: the split.
      fields: that count.
      data_bytes: of its shards, not compressed: the estimate where a field has strings, or values of any length.
    """
    fixed = sum((field.bytes or 0) * _values(info, field.per) for field in fields)
    return fixed if all(field.bytes is not None for field in fields) else max(fixed, data_bytes)


def window_bytes(info: SplitInfo, fields: Sequence[Field], length: int, data_bytes: int) -> int:
    """Bytes of one window by itself, about; at least 1. Arguments as those of `stored_bytes`."""
    sizes = [(field.bytes or 0) * _values(info, field.per) for field in fields]
    varying = stored_bytes(info, fields, data_bytes) - sum(sizes)
    of_rows = any(field.bytes is None and field.per == "row" for field in fields)
    fixed = 0
    for field in fields:
        first, end = field.rows_of(length) if field.per == "row" else (0, 1)
        fixed += (field.bytes or 0) * (end - first)
    return max(1, fixed + (varying * length // max(1, _values(info, "row")) if of_rows else varying // info.windows))


def windows_fitting(windows: int, stored: int, size: int) -> int:
    """How many windows of consecutive records take, on average, at most `size` bytes; at least 1.

    Args:
      windows: in all.
      stored: bytes of all their values, see `stored_bytes`.
      size: in bytes.
    """
    return max(1, size * windows // max(1, stored))


def _values(info: SplitInfo, per: Per) -> int:
    if per == "row":
        return sum(shard.rows for shard in info.shards)
    return info.windows if per == "window" else info.records
