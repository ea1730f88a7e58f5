"""Which arrays the files of a folder hold, by their names: parts of one, one after the other, and splits."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import BadArray
from beamfeed.contract.arrays.stored import HDF5, NPY, NPZ, Stored, find_array, names_in
from beamfeed.contract.config.sources.array import ROW
from beamfeed.contract.splits import SPLIT_WORDS, SPLITS
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.suggest.columns import tokens

SUFFIXES = (*NPY, *NPZ, *HDF5)
_UNNAMED = "arr_0"  # what NumPy calls an array of a .npz that was given no name


@dataclass(frozen=True)
class Name:
    """What a name tells of an array, or of a file.

    Attributes:
      words: in small letters, without one for a split and the number at the end.
      number: at the end.
      split: that a word of it tells.
    """

    words: tuple[str, ...]
    number: int | None = None
    split: str | None = None

    @classmethod
    def of(cls, text: str) -> "Name":
        words = [word for part in text.split("/") for word in tokens(part)]
        splits = [word for word in words if word in SPLIT_WORDS]
        split = SPLIT_WORDS[splits[0]] if len(splits) == 1 else None
        words = [word for word in words if split is None or word not in SPLIT_WORDS]
        if words and (ends := re.fullmatch(r"(\D*)(\d+)", words[-1])):
            return cls((*words[:-1], *filter(None, [ends[1]])), int(ends[2]), split)
        return cls(tuple(words), None, split)

    def field(self, *, numbered: bool = False) -> str:
        """As the field of a dataset may be called, with the number or without."""
        number = str(self.number) if numbered and self.number is not None else ""
        name = re.sub(r"[^a-z0-9_]+", "", "_".join(self.words) + number).strip("_") or "x"
        name = name if name[0].isalpha() else f"x_{name}"
        return f"{name}_" if name == ROW else name


@dataclass(frozen=True)
class ArrayPart:
    """What one file holds of an array, and what it is called there."""

    stored: Stored
    name: Name


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
            rows[part.name.split] += part.stored.rows
        return dict(rows)

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
        alike = {(part.stored.dtype, part.stored.shape[1:]) for part in self.parts}
        if len(alike) > 1:
            return "its parts differ in dtype or shape"
        places = [(member, file) for member in self.members for file in self.files]
        if places != [(part.stored.member, part.stored.file.path) for part in self.parts]:
            return "its files have it under different names"
        return ""


def group_arrays(folder: str, files: Sequence[FileStat]) -> tuple[list[ArrayGroup], dict[str, str]]:
    """The arrays that go together row by row; and others, with why they do not.

    Arrays whose names end in numbers are parts of one, or arrays of their own, as it fits the others' rows.

    Args:
      folder: a folder, a glob or a file.
      files: that it names.
    """
    parts, problems = _parts(folder, files)
    divided = {part.name.words for part in parts if part.name.split == "train"}
    for part in parts:
        if part.name.split is None and part.name.words in divided:
            problems[part.stored.member or storage.below(part.stored.file.path, [folder])] = "others are its splits"
    parts = [part for part in parts if part.name.split or part.name.words not in divided]
    joined, apart = _groups(parts), _groups(parts, numbered=True)
    groups = max(joined, apart, key=lambda some: sum(len(group.parts) for group in _side_by_side(some)))
    fitting = {group.name for group in _side_by_side(groups)}
    problems |= {
        group.name: group.problem() or f"it has {sum(group.rows.values()):,} rows, unlike others"
        for group in groups
        if group.name not in fitting
    }
    return [group for group in groups if group.name in fitting], problems


def _parts(folder: str, files: Sequence[FileStat]) -> tuple[list[ArrayPart], dict[str, str]]:
    """What each file holds; and what cannot be used, with why."""
    parts, problems = [], dict[str, str]()
    places = {file.path: storage.below(file.path, [folder]) for file in files}
    names = {path: Name.of(place.rpartition(".")[0]) for path, place in places.items()}
    several = [path for path in names if not path.lower().endswith(NPY)]
    differ = len({names[path].words for path in several}) > 1
    for file in files:
        try:
            members = names_in(file)
        except BadArray as bad:
            problems[places[file.path]] = str(bad)
            continue
        for member in members:
            name = _name(names[file.path], member, alone=members == [_UNNAMED], differ=differ)
            try:
                parts.append(ArrayPart(find_array(file, name.field(), member or None), name))
            except BadArray as bad:
                problems[member or places[file.path]] = str(bad)
    return parts, problems


def _name(file: Name, member: str, *, alone: bool, differ: bool) -> Name:
    """The name of an array, by those of its file and of its place there; `alone`: it has only that which NumPy gives.

    The words of files count where files are of different ones.
    """
    if not member or alone:
        return file
    inside = Name.of(member)
    words = (*(file.words if differ else ()), *inside.words)
    number = file.number if inside.number is None else inside.number
    return Name(words, number, inside.split or file.split)


def _groups(parts: Sequence[ArrayPart], *, numbered: bool = False) -> list[ArrayGroup]:
    """Parts of one name, in the order of splits, of numbers and of paths; of one with its number, if `numbered`."""
    named: dict[str, list[ArrayPart]] = {}
    for part in parts:
        named.setdefault(part.name.field(numbered=numbered), []).append(part)
    splits: list[str | None] = [None, *SPLITS]

    def order(part: ArrayPart) -> tuple[int, int, str]:
        return splits.index(part.name.split), part.name.number or 0, part.stored.file.path

    return [ArrayGroup(name, tuple(sorted(some, key=order))) for name, some in named.items()]


def _side_by_side(groups: Sequence[ArrayGroup]) -> list[ArrayGroup]:
    """Those of equal rows that have most parts together, of all that a job can name."""
    alike: dict[frozenset[tuple[str | None, int]], list[ArrayGroup]] = {}
    for group in groups:
        if not group.problem():
            alike.setdefault(frozenset(group.rows.items()), []).append(group)
    return max(alike.values(), key=lambda some: sum(len(group.parts) for group in some), default=[])


def globbed(folder: str, files: Sequence[FileStat], paths: Sequence[str]) -> Iterator[str]:
    """Patterns that name some files in their order, below a folder."""
    stems = [re.sub(r"\d+(?=\.\w+$)", "*", path) for path in paths]
    if len(paths) > 2 and len({*stems}) == 1 and list(paths) == sorted(paths):
        named = [file.path for file in files if storage.fits(file.path, stems[0])]
        if named == sorted(paths) and not any(map(storage.has_glob, paths)):
            paths = stems[:1]
    for path in paths:
        yield path[len(folder) :].lstrip("/") if path.startswith(folder.rstrip("/") + "/") else path
