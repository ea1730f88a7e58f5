"""What a sample of the files tells of all: the types of columns, and how texts are written."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa

from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import Look, TextOptions, Unsure, look_at
from beamfeed.transforms.sources.readers.excerpt import spread

SAMPLE = 32  # files, spread evenly over the listing


def look_at_sample(
    files: Sequence[FileStat], text: TextOptions, key: str = "source.files"
) -> tuple[dict[str, Look], TextOptions]:
    """What a sample of the files tells, by their paths; and how numbers are written where a file does not tell.

    Args:
      files: of which some are looked at.
      text: how they are read.
      key: what names them, for messages.

    Raises:
      UserError: if none can be read, or one can be read in two ways and no other says in which.
    """
    paths = [file.path for file in spread(files, SAMPLE)]
    with ThreadPoolExecutor(8) as pool:
        read = dict(zip(paths, pool.map(lambda path: _look_or_reason(path, text), paths), strict=True))
        proven = Counter(
            look.dialect.numbers
            for look in read.values()
            if isinstance(look, Look) and look.dialect and look.dialect.proven
        )
        if proven:
            text = replace(text, numbers=proven.most_common(1)[0][0])
            open_ = [path for path, look in read.items() if not _tells_numbers(look)]
            read.update(zip(open_, pool.map(lambda path: _look_or_reason(path, text), open_), strict=True))
    for path, look in read.items():
        if isinstance(look, Unsure):
            raise UserError(f"{key}: {path}: {look}")
    looks = {path: look for path, look in read.items() if isinstance(look, Look)}
    if not looks:
        raise UserError(f"{key}: none of the sampled files can be read, such as {next(iter(read.values()))}")
    return looks, text


def _tells_numbers(look: Look | Unsure | str) -> bool:
    if isinstance(look, Look):
        return look.dialect is None or look.dialect.proven
    return not isinstance(look, Unsure)


def _look_or_reason(path: str, text: TextOptions) -> Look | Unsure | str:
    try:
        return look_at(path, text)
    except Unsure as unsure:
        return f"{path}: {unsure}" if unsure.contradicts else unsure
    except BadInput as bad:
        return f"{bad.file}: {'' if bad.place == 'file' else f'{bad.place}: '}{bad.reason}"


def column_types(
    schemas: Sequence[pa.Schema], rare: Callable[[str], bool] = lambda name: False
) -> dict[str, list[pa.DataType]]:
    """Of the columns that more than half of the schemas have, in the order of the first that has them: their types.

    Args:
      schemas: of some files.
      rare: whether it is enough for a column of this name that one file has it.
    """
    by_name: dict[str, list[pa.DataType]] = {}
    for schema in schemas:
        first: dict[str, pa.DataType] = {}
        for name, type_ in zip(schema.names, schema.types, strict=True):
            first.setdefault(name, type_)
        for name, type_ in first.items():
            if name:
                by_name.setdefault(name, []).append(type_)
    return {name: types for name, types in by_name.items() if 2 * len(types) > len(schemas) or rare(name)}


def check_once(looks: Mapping[str, Look], names: Sequence[str]) -> None:
    """Raises UserError if half of the files that were looked at have a column of the job twice; one is just broken."""
    counts = {path: Counter(look.schema.names) for path, look in looks.items()}
    for name in names:
        twice = [path for path, count in counts.items() if count[name] > 1]
        if 2 * len(twice) >= len(looks):
            count = counts[twice[0]][name]
            raise UserError(f"source.features: {twice[0]} has {count} columns of the name {name!r}")


def described(looks: Mapping[str, Look]) -> list[str]:
    """How the files are written, a line for each way that is not the plain one."""
    ways = Counter(look.dialect.describe() for look in looks.values() if look.dialect is not None)
    total = ways.total()
    return [
        f"{way} ({number} of {total} files looked at)" if number < total else way for way, number in ways.items() if way
    ]


def read_with(looks: Mapping[str, Look]) -> str:
    """How the files are read, for the end of a message."""
    ways = described(looks)
    return f"; read with {ways[0]}" if ways else ""


def most_common(values: Any) -> Any:
    """The value that comes most often."""
    return Counter(values).most_common(1)[0][0]
