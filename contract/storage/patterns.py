"""Paths and globs: a path that is there as it is written is taken as it is, before it is tried as a glob.

So a pattern has several readings: as a path, and as globs below each of the folders that it begins with. Which one
holds is asked of a disk or a bucket once, when files are listed; a path that was listed fits no other one.
"""

import fnmatch
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_MAGIC = re.compile(r"[*?\[]")


class Reading(NamedTuple):
    """A way to read a pattern.

    Attributes:
      folder: as it is written; of a pattern that is read as a path all of it.
      rest: the glob below it; nothing where the pattern is read as a path.
      is_glob: whether there is one.
      regex: that the paths of a glob match.
    """

    folder: str
    rest: str
    is_glob: bool
    regex: re.Pattern[str]

    def fits(self, path: str, pattern: str) -> bool:
        """Whether the pattern, read so, names a path: itself, or one of its files."""
        if self.is_glob:
            return self.regex.fullmatch(path) is not None
        return path == pattern or _lies_in(path, self.folder)


def has_glob(pattern: str) -> bool:
    """Whether a pattern can be read as a glob."""
    return _MAGIC.search(pattern) is not None


def escaped_glob(path: str) -> str:
    """A glob that names a path and no other."""
    return _MAGIC.sub(lambda match: f"[{match[0]}]", path)


@lru_cache(256)
def readings(pattern: str) -> tuple[Reading, ...]:
    """The ways to read a pattern, the longest path first; the last holds where none of the paths is there."""
    literal = Reading(pattern.rstrip("/"), "", False, re.compile(""))
    magic = _MAGIC.search(pattern)
    if magic is None:
        return (literal,)
    slashes = [slash.start() for slash in re.finditer("/", pattern) if slash.start() > magic.start()]
    tops = [pattern[:at] for at in reversed(slashes) if has_glob(pattern[at:])]
    below = [Reading(top, pattern[len(top) + 1 :], True, _compiled(top, pattern[len(top) :])) for top in tops]
    folder = pattern[: magic.start()].rpartition("/")[0]
    last = Reading(folder, pattern[len(folder) :].removeprefix("/"), True, _compiled("", pattern))
    return (literal, *below, last)


def _compiled(folder: str, glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", glob)
    special = {"**/": r"(?:.*/)?", "**": r".*", "*": r"[^/]*", "?": r"[^/]"}
    plain = (special.get(part) or (_class(part) if part[:1] + part[-1:] == "[]" else re.escape(part)) for part in parts)
    return re.compile(re.escape(folder) + "".join(plain), re.DOTALL)


def _class(text: str) -> str:
    """Some characters as the shell has them: `[!a]` is any other one, and a bracket in brackets is one."""
    return f"(?!/){fnmatch.translate(text)[4:-3]}"


def _lies_in(path: str, folder: str) -> bool:
    if folder == ".":  # paths in the current folder do not begin with it
        return not path.startswith(("/", "gs://"))
    return path.startswith(f"{folder}/")


def fits(path: str, pattern: str) -> bool:
    """Whether a file, a folder or a glob names a path: itself, or one of its files."""
    return any(reading.fits(path, pattern) for reading in readings(pattern))


def below(path: str, patterns: Sequence[str]) -> str:
    """What of a path stands below the folder that its pattern begins with: the same wherever that folder is.

    Args:
      path: of a file.
      patterns: files, folders or globs; the first that names the path counts.

    Returns:
      `day=1/a.parquet` of `/lake/day=1/a.parquet` and `/lake/*/*.parquet`; of a file that a pattern spells out its
      name. Of the patterns after the first, their places before it: `1:a.parquet`. The path itself where no pattern
      names it.
    """
    for place, pattern in enumerate(patterns):
        reading = next((candidate for candidate in readings(pattern) if candidate.fits(path, pattern)), None)
        if reading is None:
            continue
        if path == pattern:
            inside = path.rpartition("/")[2]
        else:
            inside = path.removeprefix(reading.folder if reading.folder != "." else "./").strip("/")
        return f"{place}:{inside}" if place else inside
    return path


def is_hidden(path: str, pattern: str) -> bool:
    """Whether a path that a pattern names is what another program keeps for itself.

    Such are names that begin with a dot, and with `_` where folders are crossed: `_temporary/`, `_delta_log/`,
    `_SUCCESS`, `._a.csv`. One that the pattern spells out, as in `fleet/_old/*.csv`, is none.
    """
    ways = readings(pattern)
    reading = next((candidate for candidate in ways if candidate.fits(path, pattern)), ways[-1])
    folder = "" if reading.folder == "." else reading.folder  # paths in the current folder need not begin with it
    path = path.removeprefix("./") if not folder else path
    spelled = {part[0] for part in reading.rest.split("/") if part}
    *folders, name = path[len(folder) :].strip("/").split("/")
    crosses = not reading.is_glob or "**" in reading.rest
    begin = {part[0] for part in folders if part.startswith((".", "_"))}
    begin |= {name[:1]} & ({".", "_"} if crosses else {"."})
    return bool(begin - spelled)
