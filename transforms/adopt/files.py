"""Which files of a folder are shards, and what their paths say: a split, a partition."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLIT_WORDS, SPLITS, Split, SplitName
from beamfeed.contract.dataset.layout import LOCK, MANIFEST
from beamfeed.contract.dataset.manifest import below
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.adopt.request import Request
from beamfeed.transforms.adopt.scan import find_compression
from beamfeed.transforms.splits import find_seed, split_of_asset, wanted_splits

# Names that say that a file holds TFRecords: then one that does not is told of, and not passed over.
RECORDS = re.compile(r"tf_?rec(ord)?s?\b|(^|/)part-|\d{5}-of-\d{5}", re.IGNORECASE)
THREADS = 16
PARTITION = re.compile(r"([^=/]+)=([^/]*)")


@dataclass(frozen=True)
class Candidates:
    """The files of a folder.

    Attributes:
      shards: that are, or by their names should be, TFRecord files.
      empty: of no byte.
      others: how many hold something else.
    """

    shards: list[FileStat]
    empty: int
    others: int


def list_shards(folder: str) -> Candidates:
    """Looks at the beginning of each file below a folder, but for what other programs keep for themselves.

    Raises:
      UserError: if there is no such folder, or no TFRecord file in it.
      OSError: if a file cannot be read.
    """
    listed = storage.match(folder.rstrip("/") or "/", ("",), hidden=False)
    if not listed or (len(listed) == 1 and listed[0].path == folder):
        raise UserError(f"{folder}: is not a folder with files; give the folder of the TFRecord files")
    listed = [stat for stat in listed if stat.path not in (below(folder, MANIFEST), below(folder, LOCK))]
    filled = [stat for stat in listed if stat.size]
    with ThreadPoolExecutor(THREADS) as pool:  # from a bucket each is a request
        is_shard = list(pool.map(lambda stat: find_compression(stat.path) is not None, filled))
    shards = [
        stat
        for stat, is_one in zip(filled, is_shard, strict=True)
        if is_one or RECORDS.search(storage.below(stat.path, [folder]))
    ]
    if not any(is_shard):
        content = f"{len(filled):,} files, such as {filled[0].path}" if filled else "no file with anything in it"
        raise UserError(f"{folder}: holds no TFRecord file (it has {content})")
    return Candidates(shards, len(listed) - len(filled), len(filled) - len(shards))


def named_split(path: str) -> SplitName | None:
    """The split that a path names: its last part that names one, and no other.

    Example:
      >>> named_split("train/part-0.tfrecord"), named_split("flowers-validation.tfrecord-00000-of-00002")
      ('train', 'eval')
    """
    for part in reversed(path.split("/")):
        named = {SPLIT_WORDS[word] for word in re.split(r"[^a-zA-Z]+", part.lower()) if word in SPLIT_WORDS}
        if len(named) == 1:
            return named.pop()
    return None


def partition_of(path: str) -> str:
    """The folders `key=value` of a path, but for one that names the split: `country=DE`."""
    return "/".join(part for part in path.split("/")[:-1] if PARTITION.fullmatch(part) and named_split(part) is None)


@dataclass(frozen=True)
class Dealt:
    """Which split each file is in.

    Attributes:
      splits: by the file's path below its folder; files that are in none are not there.
      how: in words, for the notes.
    """

    splits: dict[str, SplitName]
    how: str


def deal(paths: Sequence[str], request: Request) -> Dealt:
    """Deals files out to splits.

    Args:
      paths: below the folder.
      request: what the user asks for.

    Raises:
      UserError: if a glob fits no file, or there are too few files.
    """
    globs = {name: value for name, value in request.splits.items() if isinstance(value, str)}
    parts = {name: value for name, value in request.splits.items() if not isinstance(value, str)}
    if globs:
        return _by_globs(paths, globs)
    if parts:
        return _by_hash(paths, _fractions(parts), required=True)
    by_path = {path: split for path in paths if (split := named_split(path)) is not None}
    if not by_path:
        return _by_hash(paths, Split(), required=False)
    unnamed = len(paths) - len(by_path)
    rest = f"; {unnamed:,} files whose names give no split are in none" if unnamed else ""
    return Dealt(by_path, f"splits: by the names of folders and files{rest}")


def _by_globs(paths: Sequence[str], globs: Mapping[SplitName, str]) -> Dealt:
    by_path: dict[str, SplitName] = {}
    for name, pattern in globs.items():
        fits = [path for path in paths if fnmatchcase(path, pattern)]
        if not fits:
            raise UserError(f"--split {name}={pattern}: no file fits (there is {paths[0]})")
        if twice := [path for path in fits if path in by_path]:
            raise UserError(f"--split {name}={pattern}: {twice[0]} is in {by_path[twice[0]]} as well")
        by_path |= dict.fromkeys(fits, name)
    unmatched = len(paths) - len(by_path)
    return Dealt(by_path, f"splits: as given{f'; {unmatched:,} files are in none' if unmatched else ''}")


def _fractions(parts: Mapping[SplitName, float]) -> Split:
    """The fractions of all splits: train has what the others leave."""
    rest = {name: float(parts.get(name, 0.0)) for name in SPLITS}
    if "train" not in parts:
        rest["train"] = round(1 - sum(rest.values()), 9)
    if abs(sum(rest.values()) - 1) > 1e-6 or rest["train"] <= 0:
        shares = ", ".join(f"{name} {rest[name]:g}" for name in SPLITS)
        raise UserError(f"--split: the fractions must add up to 1, with something for train; they are {shares}")
    return Split(by="asset", **rest)


def _by_hash(paths: Sequence[str], split: Split, *, required: bool) -> Dealt:
    """By a hash of each path, with the first seed that leaves no split empty."""
    filled = wanted_splits(split)
    is_enough = {split_of_asset(path, split) for path in paths} == {*filled}
    seed = split.seed if is_enough else find_seed(paths, split)
    if seed is None:
        if required:
            raise UserError(f"--split: there are {len(paths)} files for {len(filled)} splits; a file is in one of them")
        noun = f"{len(paths)} file{'s are' if len(paths) > 1 else ' is'}"
        return Dealt(dict.fromkeys(paths, "train"), f"splits: no name gives one, and {noun} too few to split: train")
    dealt = {path: split_of_asset(path, split, seed) for path in paths}
    fractions = ", ".join(f"{name} {getattr(split, name):g}" for name in filled)
    return Dealt(dealt, f"splits: by a hash of each file's path, seed {seed}: {fractions}")
