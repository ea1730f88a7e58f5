"""Which arrays the files of a folder hold, by their names: parts of one, one after the other, and splits."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import BadArray
from beamfeed.contract.arrays.stored import HDF5, NPY, NPZ, Stored, find_arrays_of
from beamfeed.contract.config.sources.array import ROW
from beamfeed.contract.splits import SPLIT_WORDS, SPLITS
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.suggest.columns import tokens

SUFFIXES = (*NPY, *NPZ, *HDF5)
_UNNAMED = "arr_0"  # what NumPy calls an array of a .npz that was given no name
_OF_PARTS = frozenset(("part", "parts", "shard", "shards", "chunk", "chunks", "batch", "file"))  # before a number
_XY_SPLIT = re.compile(rf"([xy])({'|'.join(SPLIT_WORDS)})")  # xtrain


@dataclass(frozen=True)
class Name:
    """What a name tells.

    Attributes:
      words: in small letters, without one for a split, numbers, and words such as `part` before these.
      numbers: in it.
      split: that a word of it tells.
    """

    words: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    split: str | None = None

    @classmethod
    def of(cls, text: str) -> "Name":
        kept = re.sub(r"(?i)[\W_]+of[\W_]+\d+", "", text)  # 00000-of-00003
        words: list[str] = []
        numbers: list[int] = []
        for token in (part for word in tokens(kept) for part in re.findall(r"\d+|\D+", word)):
            if not token.isdecimal():
                xy = _XY_SPLIT.fullmatch(token)
                words += xy.groups() if xy else (token,)
                continue
            numbers.append(int(token))
            if words and words[-1] in _OF_PARTS:
                words.pop()
        splits = [word for word in words if word in SPLIT_WORDS]
        split = SPLIT_WORDS[splits[0]] if len(splits) == 1 else None
        return cls(tuple(word for word in words if split is None or word not in SPLIT_WORDS), tuple(numbers), split)


@dataclass(frozen=True)
class ArrayPart:
    """What one file holds of an array.

    Attributes:
      stored: where.
      folder, file, member: what these are called; `member` says nothing in a file of one array without a name.
      split: that one of them tells.
      key: which part of its array it is; that of another array with the same rows has the same.
    """

    stored: Stored
    folder: Name
    file: Name
    member: Name
    split: str | None
    key: tuple[object, ...] = ()

    @property
    def place(self) -> str:
        """What it is called for people."""
        return self.stored.member or self.stored.file.path.rpartition("/")[2]

    @property
    def order(self) -> tuple[object, ...]:
        """Its place among the parts of its array: by split, then by numbers, then by names."""
        splits: list[str | None] = [None, *SPLITS]
        names = self.folder.numbers, self.folder.words, self.file.numbers, self.stored.file.path, self.member.numbers
        return splits.index(self.split), *names


@dataclass(frozen=True)
class ArrayGroup:
    """An array.

    Attributes:
      name: that a job may give it.
      parts: in the order of its rows.
    """

    name: str
    parts: tuple[ArrayPart, ...]

    @property
    def first(self) -> Stored:
        """The first part: others are of the same dtype and shape."""
        return self.parts[0].stored

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a row."""
        return self.first.shape[1:]

    @property
    def rows(self) -> dict[str | None, int]:
        """How many, by the split that names tell."""
        rows: Counter[str | None] = Counter()
        for part in self.parts:
            rows[part.split] += part.stored.rows
        return dict(rows)

    @property
    def sequence(self) -> tuple[object, ...]:
        """Which parts follow each other, of how many rows; empty where each split is one."""
        if len(self.parts) == len(self.rows):
            return ()
        return tuple((part.split, part.key, part.stored.rows) for part in self.parts)

    @property
    def files(self) -> list[str]:
        """The paths of its files, each once."""
        return list(dict.fromkeys(part.stored.file.path for part in self.parts))

    @property
    def members(self) -> list[str]:
        """Its names in files of several arrays, each once."""
        return list(dict.fromkeys(part.stored.member for part in self.parts))

    def problem(self) -> str:
        """Why a job cannot name it; empty where it can."""
        if len({(part.split, part.key) for part in self.parts}) < len(self.parts):
            return "several have this name"
        if len({(part.stored.dtype, part.stored.shape[1:]) for part in self.parts}) > 1:
            return "its parts differ in dtype or shape"
        places = [(part.stored.member, part.stored.file.path) for part in self.parts]
        if places != [place for place in product(self.members, self.files) if place in places]:
            return "its files have it under names whose order is not that of its rows"
        return ""


Words = tuple[object, ...]
# Gives the words of the array's name, and what tells its parts apart.
Naming = Callable[[ArrayPart], tuple[Words, Words]]


def _by_words(part: ArrayPart) -> tuple[Words, Words]:
    """Folders and files hold parts of the same arrays, and numbers tell these apart."""
    folder, file, member = part.folder, part.file, part.member
    if member.words:
        return member.words, (folder, file, member.numbers)
    return (file.words, (folder, file.numbers)) if file.words else (folder.words, (folder.numbers, file.numbers))


def _by_numbers(part: ArrayPart) -> tuple[Words, Words]:
    """As `_by_words`, but x1 and x2 are two arrays."""
    folder, file, member = part.folder, part.file, part.member
    if member.words:
        return (*member.words, *member.numbers), (folder, file)
    return (*file.words, *file.numbers), (folder,)


def _by_files(part: ArrayPart) -> tuple[Words, Words]:
    """Files and folders of different names hold arrays of their own; numbers tell parts apart."""
    names = part.folder, part.file, part.member
    return tuple(word for name in names for word in name.words), tuple(name.numbers for name in names)


def _by_all(part: ArrayPart) -> tuple[Words, Words]:
    """Each part is an array."""
    return tuple(word for name in (part.folder, part.file, part.member) for word in (*name.words, *name.numbers)), ()


def group_arrays(folder: str, files: Sequence[FileStat]) -> tuple[list[ArrayGroup], dict[str, str]]:
    """The arrays that go together row by row; and others, with why they do not.

    Names may mean several things: what counts is by which of these most parts lie side by side. Where several arrays
    can be put together of parts, they are: else rows that have nothing to do with each other would be one example.

    Args:
      folder: a folder, a glob or a file.
      files: that it names.
    """
    parts, problems = _parts(folder, files)
    groups, whole = _groups(parts, _by_words)
    in_parts = sum(bool(group.sequence) and not group.problem() for group in groups)
    best, left = _side_by_side(groups)
    left |= whole
    for naming in (_by_numbers, _by_files, _by_all) if in_parts < 2 else ():
        groups, whole = _groups(parts, naming)
        alike, others = _side_by_side(groups)
        if _size(alike) > _size(best):
            best, left = alike, whole | others
    return best, problems | left


def _size(groups: Sequence[ArrayGroup]) -> tuple[int, int]:
    """Arrays' parts, then rows."""
    return sum(len(group.parts) for group in groups), sum(sum(group.rows.values()) for group in groups)


def _parts(folder: str, files: Sequence[FileStat]) -> tuple[list[ArrayPart], dict[str, str]]:
    """What each file holds; and what cannot be used, with why."""
    parts, problems = [], dict[str, str]()
    for file in files:
        place = storage.below(file.path, [folder])
        above, _, last = place.rpartition("/")
        of_folder, of_file = Name.of(above), Name.of(last.rpartition(".")[0])
        try:
            arrays, wrong = find_arrays_of(file)
        except BadArray as bad:
            problems[place] = str(bad)
            continue
        except OSError as error:
            problems[place] = f"cannot be read: {error.strerror or error}"
            continue
        problems |= {name or place: why for name, why in wrong.items()}
        for stored in arrays:
            is_named = stored.member and not (len(arrays) == 1 and stored.member == _UNNAMED)
            member = Name.of(stored.member) if is_named else Name()
            if stored.rows:
                split = member.split or of_file.split or of_folder.split
                parts.append(ArrayPart(stored, of_folder, of_file, member, split))
            else:
                problems[stored.member or place] = "it has no rows"
    return parts, problems


def _groups(parts: Sequence[ArrayPart], naming: Naming) -> tuple[list[ArrayGroup], dict[str, str]]:
    """Parts of one name, in their order; and what is left out, as the splits of it are there.

    A word for a split counts where the array has a part that trains: one named so, or one that names no split.
    """
    named: dict[Words, list[ArrayPart]] = {}
    for part in parts:
        words, key = naming(part)
        named.setdefault(words, []).append(replace(part, key=key))
    groups, whole, used = [], dict[str, str](), Counter[str]()
    for words, some in named.items():
        splits = {part.split for part in some}
        if "train" in splits:
            whole |= {part.place: "others are its splits" for part in some if part.split is None}
            by_name = {words: [part for part in some if part.split is not None]}
        elif None in splits:
            train = "train" if len(splits) > 1 else None
            by_name = {words: [replace(part, split=part.split or train) for part in some]}
        else:
            by_name = {
                (*words, split): [replace(part, split=None) for part in some if part.split == split]
                for split in SPLITS
                if split in splits
            }
        for name, alike in by_name.items():
            field = _field(name)
            used[field] += 1
            field = f"{field}_{used[field]}" if used[field] > 1 else field
            groups.append(ArrayGroup(field, tuple(sorted(alike, key=lambda part: part.order))))
    return groups, whole


def _field(words: Sequence[object]) -> str:
    """As the field of a dataset may be called; letters that it cannot have are their code points."""
    joined = ""
    for word in map(str, words):
        joined += "_" if joined and word and not (word.isdecimal() and joined[-1].isalpha()) else ""
        joined += "".join(letter if letter.isascii() else f"u{ord(letter):x}" for letter in word)
    name = re.sub(r"[^a-z0-9_]+", "", joined).strip("_") or "x"
    name = name if name[0].isalpha() else f"x_{name}"
    return f"{name}_" if name == ROW else name


def _side_by_side(groups: Sequence[ArrayGroup]) -> tuple[list[ArrayGroup], dict[str, str]]:
    """Those that have equal rows in the same parts, of which there are most; and why others are none of them.

    An array that trains alone goes with the training part of one that tells more splits.
    """
    problems = {group.name: why for group in groups if (why := group.problem())}
    able = {group.name: group for group in groups if group.name not in problems}
    ways = {tuple(group.rows) for group in able.values()}
    ways |= {("train",) for way in ways if "train" in way}
    best: list[ArrayGroup] = []
    for splits in sorted(ways, key=lambda way: (-len(way), str(way))):
        classes: dict[object, list[ArrayGroup]] = {}
        for group in filter(None, (_cut(group, splits) for group in able.values())):
            classes.setdefault(frozenset(group.rows.items()), []).append(group)
        for some in classes.values():
            sequences = Counter(group.sequence for group in some if group.sequence)
            usual = sequences.most_common(1)[0][0] if sequences else ()
            alike = [group for group in some if group.sequence in ((), usual)]
            best = max(best, alike, key=lambda some: (len(some), *_size(some)))
    kept = {id(part.stored) for group in best for part in group.parts}
    for name, group in able.items():
        places = [part.place for part in group.parts if id(part.stored) not in kept]
        if len(places) == len(group.parts):
            total = sum(group.rows.values())
            as_many = total == sum(best[0].rows.values())
            problems[name] = "its parts are not those of others" if as_many else f"it has {total:,} rows, unlike others"
        else:
            problems |= dict.fromkeys(places, "others have no such split")
    return best, problems


def _cut(group: ArrayGroup, splits: Sequence[str | None]) -> ArrayGroup | None:
    """The array with these splits alone; None where it has not all of them. One that names no split trains."""
    parts = group.parts
    if [*group.rows] == [None] and splits[0] == "train":
        parts = tuple(replace(part, split="train") for part in parts)
    parts = tuple(part for part in parts if part.split in splits)
    return ArrayGroup(group.name, parts) if {part.split for part in parts} == {*splits} else None


def globbed(folder: str, files: Sequence[FileStat], paths: Sequence[str]) -> Iterator[str]:
    """Patterns that name some files in their order, below a folder; an empty folder: as they are."""
    stems = [re.sub(r"\d+(?=\.\w+$)", "*", path) for path in paths]
    if len(paths) > 2 and len({*stems}) == 1 and list(paths) == sorted(paths):
        named = [file.path for file in files if storage.fits(file.path, stems[0])]
        if named == sorted(paths) and not any(map(storage.has_glob, paths)):
            paths = stems[:1]
    top = f"{folder.rstrip('/')}/"
    for path in paths:
        yield path.removeprefix(top) if folder else path
