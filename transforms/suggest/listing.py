"""Which files of a folder belong together, and the globs that name them."""

import os
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress

from beamfeed.contract import storage
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.errors import UserError, first_line
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.sources.readers import Look
from beamfeed.transforms.suggest.dialects import find_keys
from beamfeed.transforms.suggest.look import look_at_files

SUFFIXES = TableSource.suffixes


def list_files(folder: str) -> list[FileStat]:
    """The files of a folder, a glob, or one file.

    Raises:
      UserError: if there are none.
    """
    try:
        files, _ = storage.match_inputs([folder], SUFFIXES, TableSource.other_suffixes)
        exists = bool(files) or storage.exists(folder)
    except OSError as error:
        raise UserError(f"{folder}: cannot be listed: {first_line(error)}") from None
    if not exists:
        problem = "no file matches" if storage.has_glob(folder) else "there is no such file or folder"
        raise UserError(f"{folder}: {problem}")
    if not files:
        raise UserError(f"{folder}: holds no file that can be read (suffixes: {TableSource.suffix_text()})")
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
