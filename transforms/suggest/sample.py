"""The files of a folder that belong together: their columns, some of their rows, and how they are written."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.sources.csv import Csv
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.errors import UserError, first_line
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import BAD, Look, TextOptions, is_csv, is_parquet, open_parquet
from beamfeed.transforms.sources.readers.blocks import BLOCK_BYTES
from beamfeed.transforms.sources.readers.excerpt import spread
from beamfeed.transforms.suggest.dialects import find_keys
from beamfeed.transforms.suggest.look import SampledFile, look_at_files, names_of_several, read_rows, types_of

FILES = 12  # whose rows are looked at, as a rule
_SMALL = 16 << 20  # bytes of the files whose beginnings are looked at, up to which rows of all are
COUNTED = 2000  # files whose footers are read


@dataclass(frozen=True)
class Sample:
    """What was seen of the files.

    Attributes:
      files: all of them, in order of path.
      patterns: what names them: `source.files`.
      looks: at the beginning of some, by path.
      tables: rows of some.
      types: of the columns that most files have.
      rows: of all files, as far as footers or whole files tell; of others estimated by their size.
      exact: whether `rows` is of footers alone, or of files that were read to their end.
      text: how texts are written.
      csv: what a job file must say of that.
      remarks: why `csv` says it.
      wide: of files whose columns are times, `source.reshape.wide` and what is said of it; all else is then of the rows
        that they become.
    """

    files: tuple[FileStat, ...]
    patterns: tuple[str, ...]
    looks: dict[str, Look]
    tables: tuple[SampledFile, ...]
    types: dict[str, pa.DataType]
    rows: int
    exact: bool
    text: TextOptions
    csv: dict[str, object]
    remarks: tuple[str, ...]
    wide: tuple[tuple[str, ...], str] | None = None

    @property
    def batches(self) -> list[pa.RecordBatch]:
        """The rows of `tables`."""
        return [sampled.batch for sampled in self.tables]

    @property
    def whole(self) -> bool:
        """Whether `tables` are all rows of all files."""
        return len(self.tables) == len(self.files) and all(sampled.whole for sampled in self.tables)


def take_sample(folder: str) -> Sample:
    """Looks at the files of a folder, a glob, or at one file.

    Raises:
      UserError: if there are none, none can be read, or they do not belong together.
    """
    files, left_out = of_one_kind(folder, list_files(folder))
    patterns = patterns_of(folder, files)
    csv, remarks = find_keys(files)
    if left_out:
        remarks.insert(0, f"Left out: {', '.join(sorted(left_out))}, which hold something else.")
    looks, text = look_at_files(folder, files, csv)
    check_alike(folder, looks)
    types = types_of(list(looks.values()))
    if twice := sorted(filter(None, names_of_several(list(looks.values())))):
        remarks.append(f"Left out: {', '.join(map(repr, twice))}, as several columns of a file have that name.")
    small = sum(file.size for file in files if file.path in looks) <= _SMALL
    chosen = list(looks) if small else spread(list(looks), FILES)
    with ThreadPoolExecutor(8) as pool:
        read = list(pool.map(lambda path: read_rows(path, types, text), chosen))
    tables = tuple(table for table in read if table is not None and table.batch.num_rows)
    if not tables:
        raise UserError(f"{folder}: none of the files that were looked at holds rows, such as {files[0].path}")
    rows, exact = _count(files, tables)
    return Sample(tuple(files), patterns, looks, tables, types, rows, exact, text, csv, tuple(remarks))


def _count(files: Sequence[FileStat], tables: Sequence[SampledFile]) -> tuple[int, bool]:
    """Rows of all files, and whether all of them are counted."""
    known = {table.path: table.rows for table in tables if table.counted}
    footers = [file.path for file in files if is_parquet(file.path) and file.path not in known][:COUNTED]
    with ThreadPoolExecutor(8) as pool:
        known.update({path: rows for path, rows in zip(footers, pool.map(_footer_rows, footers), strict=True) if rows})
    sizes = {file.path: file.size for file in files}
    rows = {table.path: table.rows for table in tables} | known
    bytes_ = sum(sizes[path] if path in known else min(sizes[path], BLOCK_BYTES) for path in rows)
    per_row = max(1.0, bytes_ / max(1, sum(rows.values())))
    every = (known.get(path) or max(rows.get(path, 0), round(size / per_row)) for path, size in sizes.items())
    return sum(every), len(known) == len(files)


def _footer_rows(path: str) -> int:
    with suppress(BadInput, OSError), open_parquet(path) as file:
        return int(file.metadata.num_rows)
    return 0


def with_footer(sample: Sample, lines: int) -> Sample:
    """The same, where so many lines at the end of texts are no rows."""
    csv = {**sample.csv, "skip_last": lines}
    remark = f"The last {'line is' if lines == 1 else f'{lines} lines are'} no {'row' if lines == 1 else 'rows'}."
    text = replace(sample.text, keys=Csv.model_validate(csv))
    tables = tuple(
        replace(sampled, batch=sampled.batch.slice(0, sampled.batch.num_rows - lines))
        if sampled.whole and is_csv(sampled.path)
        else sampled
        for sampled in sample.tables
    )
    rows = sample.rows - lines * sum(is_csv(file.path) for file in sample.files)
    return replace(sample, rows=rows, csv=csv, text=text, tables=tables, remarks=(*sample.remarks, remark))


def trailing_rows(sample: Sample, valid: Sequence[np.ndarray] | None) -> int:
    """Lines at the end of every text that are no rows: sums, remarks. 0 where files differ in that.

    Args:
      sample: of the files.
      valid: bool [rows] of each table, whether a row has a time; None where there are no times.
    """
    ends = set()
    for place, table in enumerate(sample.tables):
        if not (table.whole and is_csv(table.path)):
            continue
        fine = table.batch.column(BAD).is_null().to_numpy(zero_copy_only=False)
        if valid is not None:
            fine = fine & valid[place]
        if fine.any():
            ends.add(len(fine) - int(np.flatnonzero(fine)[-1]) - 1)
    return ends.pop() if len(ends) == 1 else 0


def list_files(folder: str) -> list[FileStat]:
    """The files of a folder, a glob, or one file.

    Raises:
      UserError: if there are none.
    """
    try:
        files, _ = storage.match_inputs([folder], TableSource.suffixes, TableSource.other_suffixes)
        exists = bool(files) or storage.exists(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed: {first_line(error)}") from None
    if not exists:
        problem = "no file matches" if storage.has_glob(folder) else "there is no such file or folder"
        raise UserError(f"{folder}: {problem}")
    if not files:
        hint = storage.left_out(folder, (*TableSource.suffixes, *TableSource.other_suffixes))
        raise UserError(f"{folder}: holds no file that can be read (suffixes: {TableSource.suffix_text()}){hint}")
    return files


def of_one_kind(folder: str, files: list[FileStat]) -> tuple[list[FileStat], set[str]]:
    """The files of a folder without those of other suffixes that hold something else; and the globs of these.

    A text that lies beside the data, such as a README.txt, is no reason to give up.
    """
    endings = Counter(_ending(file.path) for file in files)
    (usual, most), *rest = endings.most_common()
    if not rest or (storage.has_glob(folder) and not storage.exists(folder)):
        return files, set()
    columns_of = {}
    for ending in endings:
        first_files = [file for file in files if _ending(file.path) == ending][:3]
        with suppress(UserError):
            looks, _ = look_at_files(folder, first_files, find_keys(first_files)[0])
            columns_of[ending] = {name for look in looks.values() for name in look.schema.names}
    strange = {
        ending
        for ending, _ in rest
        if usual in columns_of and not _are_one_kind(columns_of.get(ending, set()), columns_of[usual])
    }
    rare = {ending for ending in strange if endings[ending] < most}
    return [file for file in files if _ending(file.path) not in rare], {f"*{ending}" for ending in rare}


def _are_one_kind(left: Collection[str], right: Collection[str]) -> bool:
    """Whether columns are those of one kind of files: at least half of them are common."""
    return 2 * len({*left} & {*right}) >= max(len(left), len(right))


def patterns_of(folder: str, files: Sequence[FileStat]) -> tuple[str, ...]:
    """Globs of the files as short as they can be: `fleet/*.parquet`, `lake/**/*.parquet`."""
    if (len(files) == 1 and files[0].path == folder) or (storage.has_glob(folder) and not storage.exists(folder)):
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


def check_alike(folder: str, looks: dict[str, Look]) -> None:
    """Raises UserError if files hold different columns, so that no job could read them together."""
    kinds: dict[frozenset[str], list[str]] = {}
    for path, look in looks.items():
        kinds.setdefault(frozenset(look.schema.names), []).append(path)
    if len(kinds) < 2:
        return
    usual = max(kinds, key=lambda names: len(kinds[names]))
    strange = [names for names in kinds if not _are_one_kind(names, usual)]
    if not strange:
        return
    first, second = kinds[usual][0], kinds[strange[0]][0]
    raise UserError(
        f"{folder}: holds files of different columns: {first} has {_first_names(looks[first])}, {second} has "
        f"{_first_names(looks[second])}; name those that belong together, such as 'beamfeed init "
        f"{os.path.dirname(first) or '.'}/*{_ending(first)}'"
    )


def _first_names(look: Look) -> str:
    names = [name for name in look.schema.names if name]
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
