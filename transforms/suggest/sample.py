"""Reads a sample of the files of a folder: their columns, some of their rows, and how they are written."""

import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.sample import column_types, look_at_sample, most_common
from beamfeed.transforms.sources.readers import (
    BAD,
    Look,
    TextOptions,
    Unsure,
    is_csv,
    is_parquet,
    iter_batches,
    look_at,
    open_parquet,
)
from beamfeed.transforms.sources.readers.blocks import BLOCK_BYTES

SUFFIXES = TableSource.suffixes
ROWS = 20_000  # of a file, about, that are looked at
FILES = 12  # whose rows are looked at
COUNTED = 2000  # files whose footers are read


@dataclass(frozen=True)
class SampledFile:
    """Rows of a file.

    Attributes:
      path: of the file.
      table: its first rows, or all; without columns that have no name or one that is there twice.
      whole: whether these are all.
    """

    path: str
    table: pa.Table
    whole: bool


@dataclass(frozen=True)
class Sample:
    """What was seen of the files.

    Attributes:
      files: all of them, in order of path.
      patterns: what names them: `source.files`.
      looks: at the beginning of some, by path.
      tables: rows of some.
      types: of the columns that most files have.
      rows: of each file, by path, as far as footers or whole files tell; else estimated by its size.
      exact: whether `rows` is of footers alone, or of files that were read to their end.
      text: how texts are written.
      csv: what a job file must say of that.
      remarks: why `csv` says it.
    """

    files: tuple[FileStat, ...]
    patterns: tuple[str, ...]
    looks: dict[str, Look]
    tables: tuple[SampledFile, ...]
    types: dict[str, pa.DataType]
    rows: dict[str, int]
    exact: bool
    text: TextOptions
    csv: dict[str, object]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class _Every:
    """Of files from which nothing is expected: all of their columns."""

    types: dict[str, pa.DataType]
    text: TextOptions

    @property
    def names(self) -> list[str]:
        return list(self.types)

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(self.types)

    @property
    def csv_types(self) -> dict[str, pa.DataType]:
        return {name: _parsed(type_) for name, type_ in self.types.items()}

    def check(self, path: str, schema: pa.Schema) -> None:
        """Takes any."""


def _parsed(type_: pa.DataType) -> pa.DataType:
    """What a column of a text is parsed as: times stay text, so that one that is none does no harm."""
    number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)
    return type_ if number else pa.string()


def take_sample(folder: str) -> Sample:
    """Looks at the files of a folder, a glob, or at one file.

    Raises:
      UserError: if there are none, none can be read, or they do not belong together.
    """
    files = _list(folder)
    patterns = _patterns(folder, files)
    csv, remarks = _find_keys(files)
    try:
        looks, text = _look(files, csv)
    except UserError as error:  # it names a key of a job file, which there is none of yet
        raise UserError(f"{folder}: {str(error).removeprefix('source.files: ')}") from None
    _check_alike(folder, files, looks)
    types = _types(list(looks.values()))
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda path: _read(path, types, text), _spread(list(looks), FILES)))
    tables = tuple(one for one in read if one is not None and one.table.num_rows)
    if not tables:
        raise UserError(f"{folder}: none of the files that were looked at holds rows, such as {files[0].path}")
    rows, exact = _count(files, tables)
    return Sample(tuple(files), patterns, looks, tables, types, rows, exact, text, csv, tuple(remarks))


def _look(files: Sequence[FileStat], csv: dict[str, object]) -> tuple[dict[str, Look], TextOptions]:
    options = TextOptions(Csv.model_validate(csv), lenient=True)
    looks, text = look_at_sample(files, options)
    if any(is_csv(path) for path in looks):  # once more as a job looks at them, which knows the names
        names = column_types([look.schema for look in looks.values()])
        looks, text = look_at_sample(files, replace(options, wanted=tuple(names)))
    return looks, text


def _types(looks: Sequence[Look]) -> dict[str, pa.DataType]:
    """Of the columns that a job can ask for: with a name that is there once, and single values."""
    seen = column_types([look.schema for look in looks])
    twice = {name for look in looks for name, count in Counter(look.schema.names).items() if count > 1}
    found = {}
    for name, types in seen.items():
        known = [one for one in types if not pa.types.is_null(one)] or types
        type_ = next(filter(pa.types.is_floating, known), None) or most_common(known)
        if name not in twice and not pa.types.is_nested(type_):
            found[name] = type_
    return found


def _list(folder: str) -> list[FileStat]:
    try:
        files, _ = storage.match_inputs([folder], SUFFIXES)
        there = bool(files) or storage.exists(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed: {str(error).splitlines()[0]}") from None
    if not there:
        what = "no file matches" if any(c in folder for c in "*?[") else "there is no such file or folder"
        raise UserError(f"{folder}: {what}")
    if not files:
        raise UserError(f"{folder}: holds no file that can be read (suffixes: {TableSource.tell_suffixes()})")
    return files


def _patterns(folder: str, files: Sequence[FileStat]) -> tuple[str, ...]:
    """Globs of the files as short as they can be: `fleet/*.parquet`, `lake/**/*.parquet`."""
    if any(c in folder for c in "*?[") or (len(files) == 1 and files[0].path == folder):
        return (folder,)
    top = folder.rstrip("/") or "/"
    deep = any("/" in storage.below(file.path, [folder]) for file in files)
    endings = sorted({_ending(file.path) for file in files})
    inside = "" if top == "." else top.rstrip("/") + "/"
    return tuple(f"{inside}{'**/' if deep else ''}*{ending}" for ending in endings)


def _ending(path: str) -> str:
    """The suffix of a file as it is written: `.csv.gz`, `.CSV`."""
    name = path.rpartition("/")[2]
    return name[len(TableSource.stem(path)) :]


def _spread(paths: list[str], most: int) -> list[str]:
    places = np.unique(np.linspace(0, len(paths) - 1, min(most, len(paths))).round().astype(int))
    return [paths[place] for place in places]


def _check_alike(folder: str, files: Sequence[FileStat], looks: dict[str, Look]) -> None:
    """Raises UserError if files hold different columns, so that no job could read them together."""
    kinds: dict[frozenset[str], list[str]] = {}
    for path, look in looks.items():
        kinds.setdefault(frozenset(look.schema.names), []).append(path)
    if len(kinds) < 2:
        return
    usual = max(kinds, key=lambda names: len(kinds[names]))
    strange = [names for names in kinds if 2 * len(names & usual) < max(len(names), len(usual))]
    if not strange:
        return
    first, other = kinds[usual][0], kinds[strange[0]][0]
    raise UserError(
        f"{folder}: holds files of different columns: {first} has {_some(looks[first])}, {other} has "
        f"{_some(looks[other])}; name those that belong together, such as 'beamfeed init "
        f"{os.path.dirname(first) or '.'}/*{_ending(first)}'"
    )


def _some(look: Look) -> str:
    names = [name for name in look.schema.names if name]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _find_keys(files: Sequence[FileStat]) -> tuple[dict[str, object], list[str]]:
    """What `source.csv` must say, as the files cannot be read as they are meant to without; and why."""
    texts = [file.path for file in files if is_csv(file.path)]
    keys: dict[str, object] = {}
    remarks: list[str] = []
    for path in _spread(texts, 3):
        for _ in range(4):  # one thing may hide the next
            found = _wanting(path, Csv.model_validate(keys))
            if found is None:
                break
            keys[found[0]] = found[1]
            remarks.append(found[2])
    return keys, remarks


def _wanting(path: str, csv: Csv) -> tuple[str, object, str] | None:
    """A key of `source.csv` that a file needs, its value, and why."""
    options = TextOptions(csv, lenient=True)
    try:
        look = look_at(path, options)
    except Unsure as unsure:
        if unsure.contradicts or csv.decimal != "auto":
            return None
        return "decimal", ".", f"CHECK THIS: {path}: {str(unsure).partition(';')[0]}. Here it is taken for decimals."
    except BadInput:
        return _without_quotes(path, csv)
    unquoted = _without_quotes(path, csv)
    if unquoted is not None:
        return unquoted
    if look.dialect is None:
        return None
    read = _read(path, _types([look]), options)
    if csv.header == "auto" and read is not None and _names_are_values(look, read.table):
        return "header", False, "The first line holds values that are in the rows too, so it is taken for a row."
    return None


def _names_are_values(look: Look, table: pa.Table) -> bool:
    """Whether what was taken for the line of names is a row: one of its values comes back in its own column."""
    if look.dialect is None or look.dialect.header_line is None:
        return False
    return any(
        pa.types.is_string(table.schema.field(name).type) and name in table.column(name).unique().to_pylist()
        for name in table.column_names
    )


def _without_quotes(path: str, csv: Csv) -> tuple[str, object, str] | None:
    """Whether quotes are a part of the text: with them as quotes rows are lost, without them none is."""
    if csv.quote is None:
        return None
    bad = {}
    for quote in (csv.quote, None):
        bad[quote] = _bad_rows(path, TextOptions(csv.model_copy(update={"quote": quote}), lenient=True))
    (rows, lost), (plain_rows, plain_lost) = bad[csv.quote], bad[None]
    if plain_rows - plain_lost > rows - lost and plain_lost <= lost:
        return "quote", None, f"Quotes are a part of the text: as quotes {plain_rows - rows + lost} rows would be lost."
    return None


def _bad_rows(path: str, options: TextOptions) -> tuple[int, int]:
    """How many rows the beginning of a text has, and how many of them cannot be read."""
    try:
        look = look_at(path, options)
        types = _types([look])
        _, _, batch = next(iter_batches(path, _Every(types, options), [*types, BAD]))
    except (BadInput, Unsure, StopIteration):
        return 0, 0
    return batch.num_rows, batch.num_rows - batch.column(batch.schema.names.index(BAD)).null_count


def _read(path: str, types: dict[str, pa.DataType], text: TextOptions) -> SampledFile | None:
    """The first rows of a file; None where it cannot be read. Rows of a text that cannot be read are left out."""
    batches: list[pa.RecordBatch] = []
    whole = False
    with suppress(BadInput, Unsure):
        found = iter_batches(path, _Every(types, text), [*types, BAD])
        while sum(map(len, batches)) < ROWS and (one := next(found, None)) is not None:
            batches.append(one[2])
        whole = next(found, None) is None
    if not batches:
        return None
    table = pa.Table.from_batches([pa.RecordBatch.from_arrays(one.columns, names=one.schema.names) for one in batches])
    return SampledFile(path, table, whole)


def _count(files: Sequence[FileStat], tables: Sequence[SampledFile]) -> tuple[dict[str, int], bool]:
    """Rows of each file, and whether all of them are counted."""
    known = {one.path: one.table.num_rows for one in tables if one.whole}
    footers = [file.path for file in files if is_parquet(file.path) and file.path not in known][:COUNTED]
    with ThreadPoolExecutor(8) as pool:
        known.update({path: rows for path, rows in zip(footers, pool.map(_footer_rows, footers), strict=True) if rows})
    sizes = {file.path: file.size for file in files}
    seen = {one.path: one.table.num_rows for one in tables} | known
    bytes_ = sum(sizes[path] if path in known else min(sizes[path], BLOCK_BYTES) for path in seen)
    per_row = max(1.0, bytes_ / max(1, sum(seen.values())))
    rows = {path: known.get(path) or max(seen.get(path, 0), round(size / per_row)) for path, size in sizes.items()}
    return rows, len(known) == len(files)


def _footer_rows(path: str) -> int:
    with suppress(BadInput, OSError), open_parquet(path) as file:
        return int(file.metadata.num_rows)
    return 0


def with_footer(sample: Sample, lines: int) -> Sample:
    """The same, where so many lines at the end of texts are no rows."""
    if not lines:
        return sample
    csv = {**sample.csv, "skip_last": lines}
    remark = f"The last {'line is' if lines == 1 else f'{lines} lines are'} no {'row' if lines == 1 else 'rows'}."
    text = replace(sample.text, keys=Csv.model_validate(csv))
    tables = tuple(replace(one, table=one.table.slice(0, one.table.num_rows - lines)) if one.whole and is_csv(one.path)
                   else one for one in sample.tables)  # fmt: skip
    rows = {path: count - lines if is_csv(path) else count for path, count in sample.rows.items()}
    return replace(sample, rows=rows, csv=csv, text=text, tables=tables, remarks=(*sample.remarks, remark))


def trailing_rows(sample: Sample, valid: Sequence[np.ndarray] | None) -> int:
    """Lines at the end of every text that are no rows: sums, remarks. 0 where files differ in that.

    Args:
      sample: of the files.
      valid: bool [rows] of each table, whether a row has a time; None where there are no times.
    """
    ends = set()
    for place, one in enumerate(sample.tables):
        if not (one.whole and is_csv(one.path)):
            continue
        fine = one.table.column(BAD).combine_chunks().is_null().to_numpy(zero_copy_only=False)
        if valid is not None:
            fine = fine & valid[place]
        if fine.any():
            ends.add(len(fine) - int(np.flatnonzero(fine)[-1]) - 1)
    return ends.pop() if len(ends) == 1 else 0
