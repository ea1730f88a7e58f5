"""Looks at files, and reads the first rows of one."""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.numbers import is_number
from beamfeed.transforms.sources.columns.sample import column_types, look_at_sample, most_common
from beamfeed.transforms.sources.readers import BAD, Columns, Look, TextOptions, Unsure, is_csv, iter_batches

ROWS = 20_000  # of a file, about, that are looked at
_VALUES = 2_000_000  # in fewer rows of a file with many columns


@dataclass(frozen=True)
class SampledFile:
    """Rows of a file.

    Attributes:
      path: of the file.
      batch: its first rows, or all; without columns that have no name or one that is there twice.
      whole: whether these are all.
      rows: that were counted: all, or those of the first block.
      counted: whether these are all.
    """

    path: str
    batch: pa.RecordBatch
    whole: bool
    rows: int
    counted: bool


def files_ending(folder: str, suffixes: tuple[str, ...]) -> list[FileStat]:
    """The files of a folder, or that a glob or a path names, that end in one of these."""
    found = storage.match(folder, suffixes, hidden=False)
    return [file for file in found if file.path.lower().endswith(suffixes)]  # a glob names others, too


def every_column(types: dict[str, pa.DataType], text: TextOptions) -> Columns:
    """Of files from which nothing is expected: all of their columns. Times stay text: one that is none does no harm."""
    plain = {name: type_ for name, type_ in types.items() if is_number(type_) and not pa.types.is_null(type_)}
    parsed = dict.fromkeys(types, pa.string()) | plain
    return Columns(list(types), parsed, text, frozenset(types))


def look_at_files(
    folder: str, files: Sequence[FileStat], csv: dict[str, object]
) -> tuple[dict[str, Look], TextOptions]:
    """What the beginnings of a sample of the files tell, by their paths, and how texts are written.

    Args:
      folder: that the user named, for messages.
      files: of which some are looked at.
      csv: what is known of `source.csv`.

    Raises:
      UserError: if none can be read.
    """
    options = TextOptions(Csv.model_validate(csv), lenient=True)
    looks, text = look_at_sample(files, options, folder)
    if any(is_csv(path) for path in looks):  # once more as a job looks at them, which knows the names
        names = column_types([look.schema for look in looks.values()])
        looks, text = look_at_sample(files, replace(options, needed=tuple(names)), folder)
    return looks, text


def types_of(looks: Sequence[Look]) -> dict[str, pa.DataType]:
    """The types of the columns that a job can ask for: with a name that is there once, and single values."""
    twice = names_of_several(looks)
    return {name: type_ for name, type_ in _types(looks).items() if name not in twice and not pa.types.is_nested(type_)}


def names_of_several(looks: Sequence[Look]) -> set[str]:
    """The names that several columns of a file have, by none of which a job can ask for one."""
    return {name for look in looks for name, count in Counter(look.schema.names).items() if count > 1}


def _types(looks: Sequence[Look]) -> dict[str, pa.DataType]:
    types_ = {}
    for name, types in column_types([look.schema for look in looks]).items():
        typed = [type_ for type_ in types if not pa.types.is_null(type_)] or types
        types_[name] = next(filter(pa.types.is_floating, typed), None) or most_common(typed)
    return types_


def read_rows(path: str, types: dict[str, pa.DataType], text: TextOptions) -> SampledFile | None:
    """The first rows of a file; None where it cannot be read. Rows of a text that cannot be read are left out."""
    batches: list[pa.RecordBatch] = []
    most = min(ROWS, max(1, _VALUES // max(1, len(types))))
    rows, kept, counted, ends = 0, 0, False, False
    with suppress(BadInput, Unsure):
        for _, _, batch in iter_batches(path, every_column(types, text), [*types, BAD]):
            if kept >= most and ends:
                break
            if kept < most:
                batches.append(batch)
                kept += len(batch)
            rows += len(batch)
            # A block is parsed as a whole, and comes in batches of which the last alone is smaller than the first.
            ends = len(batch) != len(batches[0])
        else:
            counted = True
    if not batches:
        return None
    plain = [pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names) for batch in batches]
    return SampledFile(path, pa.concat_batches(plain), counted and rows == kept, rows, counted)
