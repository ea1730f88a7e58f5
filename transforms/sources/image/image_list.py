"""A list of images: its rows, and which file each of them names."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage.patterns import readings
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import class_names
from beamfeed.transforms.sources.columns.numbers import plain
from beamfeed.transforms.sources.readers import Columns, iter_batches, place_of_row

_Key = Callable[[str], str]


@dataclass(frozen=True)
class Joined:
    """The rows of a list beside some files.

    Attributes:
      columns: of the list, by name, in the order of its rows.
      row: int64 [files], the row of each file; -1 where there is none.
      absent: rows that name no file.
      paths: as the list has them, by row.
    """

    columns: dict[str, pa.Array]
    row: np.ndarray
    absent: list[int]
    paths: list[str | None]


def join_list(source: ImageSource, schema: Columns, files: Sequence[str]) -> Joined:
    """Reads the list of a job, which has that schema, and finds those of the files, by their paths, that it names.

    Raises:
      UserError: if it cannot be read, names a file twice, or none of the files.
    """
    assert source.list is not None
    list_path = source.list.file
    columns = _read(list_path, schema)
    texts = class_names(columns[source.list.path])
    paths = [None if path is None else _plain(path) for path in texts.to_pylist()]
    key_of_file, key_of_row = _choose(source, list_path, [path for path in paths if path is not None], files)
    places = {key_of_file(path): place for place, path in enumerate(files)}
    row, absent, first = np.full(len(files), -1), [], dict[str, int]()
    for number, path in enumerate(paths):
        if path is None:
            continue
        key = key_of_row(path)
        if key in first:
            first_row, two = (place_of_row(list_path, place, schema) for place in (first[key], number))
            raise UserError(f"source.list.file: {list_path}: {first_row} and {two} both name {path}")
        first[key] = number
        place = places.get(key)
        if place is None:
            absent.append(number)
        else:
            row[place] = number
    return Joined(columns, row, absent, paths)


def _read(path: str, schema: Columns) -> dict[str, pa.Array]:
    try:
        batches = [batch for _, _, batch in iter_batches(path, schema, schema.names)]
    except BadInput as bad:
        raise UserError(f"source.list.file: {bad}") from None
    if not sum(batch.num_rows for batch in batches):
        raise UserError(f"source.list.file: {path}: holds no rows")
    by_name = {}
    for name in schema.names:
        columns = [batch.column(name) for batch in batches]
        types = {column.type for column in columns if not pa.types.is_null(column.type)}
        type_ = types.pop() if types else pa.string()
        by_name[name] = plain(pa.chunked_array([column.cast(type_) for column in columns]).combine_chunks())
    return by_name


def _plain(path: str) -> str:
    """A path with / between its parts, and none that mean nothing."""
    path = path.strip().replace("\\", "/")
    while path.startswith("./"):
        path = path[2:]
    return path


def _choose(source: ImageSource, list_path: str, listed: Sequence[str], files: Sequence[str]) -> tuple[_Key, _Key]:
    """How paths of files and of the list are compared: in the first of these ways that finds the most files.

    Whole paths; below a folder of the job's files; below the folder of the list; names without folders; and each of
    these without suffixes. A way counts only if it tells the files apart.
    """
    folders = [reading.folder for pattern in source.patterns for reading in readings(_plain(pattern))]
    roots = ["", *folders, _plain(list_path).rpartition("/")[0]]

    def below(root: str) -> _Key:
        return lambda path: path if path.startswith(("/", storage.GS)) or not root else f"{root}/{path}"

    ways: list[tuple[_Key, _Key]] = [(_plain, below(root)) for root in dict.fromkeys(roots)]
    ways.append((storage.absolute, _plain))
    ways.append((_name, _name))
    ways += [(_without(of_file, source.suffixes), _without(two, source.suffixes)) for of_file, two in ways]
    best, most = ways[0], 0
    for of_file, of_row in ways:
        counts = Counter(map(of_file, files))
        keys = [of_row(path) for path in listed]
        matches = sum(counts[key] == 1 for key in keys)
        if matches > most and not any(counts[key] > 1 for key in keys):
            best, most = (of_file, of_row), matches
        if most == len(listed):
            break
    if not most:
        problem = f"none of its {len(listed):,} paths names a file of source.files" if listed else "names no path"
        examples = f", such as {listed[0]!r}; the files are such as {files[0]!r}" if listed else ""
        raise UserError(f"source.list.file: {list_path}: {problem}{examples}")
    return best


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _without(key: _Key, suffixes: tuple[str, ...]) -> _Key:
    def stem(path: str) -> str:
        named = key(path)
        return next((named[: -len(suffix)] for suffix in suffixes if named.lower().endswith(suffix)), named)

    return stem
