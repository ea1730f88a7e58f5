"""The job file of arrays that go together row by row: .npy, .npz and HDF5 files."""

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import TEXTS
from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.config.sources.table import TableSource
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import counted
from beamfeed.transforms.sources.array.read import is_packed, read_rows, unpack
from beamfeed.transforms.suggest.array_groups import SUFFIXES, ArrayGroup, globbed, group_arrays
from beamfeed.transforms.suggest.draft import Key, Part, Remark
from beamfeed.transforms.suggest.label import CLASSES, names_label
from beamfeed.transforms.suggest.look import files_ending
from beamfeed.transforms.suggest.options import NO_LABEL, Options
from beamfeed.transforms.suggest.shared import (
    ROWS_TRAINED,
    Places,
    left_out,
    output_key,
    schedule_of,
    single,
    split_by_hash,
    train_key,
)

_MOST_FILES = 2_000  # whose heads are read
_READ = 64 << 20  # bytes of an array whose values are counted
_SPLIT = 200  # rows, from which on some are held back
_OF_CLASS = 5  # rows of a class, on average, without which values are no classes
_OUTPUTS = frozenset(("y", "class", "classes", "output", "outputs"))
_PLAIN = frozenset(("data", "set", "array", "arrays", "values"))  # behind the word that tells
_WEIGHTS = frozenset(("weight", "weights"))
_KEYS = frozenset((
    "id", "ids", "index", "indices", "key", "keys", "name", "names", "fold", "folds", "group", "groups", "subject",
    "subjects", "path", "paths", "file", "files", "filename", "filenames", "time", "times", "timestamp", "timestamps",
))  # fmt: skip
_SMALL = 8  # pixels of a side to which convolutions bring an image
_IMAGES_TRAINED = 600_000  # in all epochs together
_FILTERS = (32, 64, 64, 128, 128)


@dataclass(frozen=True)
class ArrayFolder:
    """What was found of arrays.

    Attributes:
      folder: that was looked at, a glob or a file.
      files: of it.
      groups: the arrays that go together, by what they are for: `inputs`, `outputs`, `weights`, `keys`.
      classes: the outputs whose values are classes, and how many there are.
      ordered: whether rows of a class come one after the other, so that the last rows are not like the others.
      unused: other arrays, and why.
      why: what says which are outputs, for a comment.
    """

    folder: str
    files: tuple[FileStat, ...]
    groups: Mapping[str, list[ArrayGroup]]
    classes: Mapping[str, int]
    ordered: bool
    unused: Mapping[str, str]
    why: str

    @property
    def rows(self) -> dict[str | None, int]:
        """How many, by the split that names tell; all arrays have equally many."""
        return self.groups["inputs"][0].rows

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, not a glob or a file."""
        if self.folder in {file.path for file in self.files}:
            return False
        return not storage.has_glob(self.folder) or storage.exists(self.folder)

    @property
    def trains(self) -> bool:
        """Whether a job can train on them as they are."""
        return bool(self.groups["outputs"])


def find_arrays(folder: str, options: Options) -> ArrayFolder | None:
    """What a folder or a glob holds of arrays; None where it holds none, or also tables, unless asked for.

    Raises:
      UserError: if there are arrays alone, and nothing can be done with them, or they are not what the user says.
    """
    files, tables = list[FileStat](), list[FileStat]()
    with suppress(OSError):
        files = files_ending(folder, SUFFIXES)
        tables = files_ending(folder, TableSource.suffixes) if files else []
        tables = [file for file in tables if not file.path.lower().endswith((".txt", ".json"))]  # about the arrays
    return _look(folder, files, options) if files and (options.kind == "array" or not tables) else None


def _look(folder: str, files: Sequence[FileStat], options: Options) -> ArrayFolder:
    """What files of arrays hold, by their heads, and by the values of what may be classes.

    Raises:
      UserError: if no two go together, there is nothing to learn from, or they are not what the user says.
    """
    if len(files) > _MOST_FILES:
        raise UserError(
            f"{folder}: holds {len(files):,} files of arrays, more than {_MOST_FILES:,}; the rows of an array in many "
            "files come one after the other: docs/arrays.md says how a job names them"
        )
    groups, unused = group_arrays(folder, files)
    if not groups:
        name, why = next(iter(unused.items()))
        raise UserError(f"{folder}: no array can be used, such as {name}: {why}")
    label = options.check_arrays([group.name for group in groups])
    named: dict[str, list[ArrayGroup]] = {role: [] for role in ("inputs", "outputs", "weights", "keys")}
    for group in groups:
        role, why = _role(group, label)
        if why:
            unused[group.name] = why
        else:
            named[role].append(group)
    if not named["inputs"]:
        why = "".join(f"; {name}: {problem}" for name, problem in [*unused.items()][:1])
        raise UserError(f"{folder}: no array is an input (there are: {', '.join(group.name for group in groups)}){why}")
    train = named["inputs"][0].rows.get("train")
    values = {group.name: _values(group)[:train] for group in named["outputs"] if _may_be_classes(group)}
    classes = {name: len(np.unique(some)) for name, some in values.items() if _are_classes(some)}
    ordered = any((values[name][1:] >= values[name][:-1]).all() for name in classes)
    texts = [group for group in named["outputs"] if group.first.dtype in TEXTS and group.name not in classes]
    named["outputs"] = [group for group in named["outputs"] if group not in texts]
    named["keys"] += texts
    why = "as --label says" if options.label else "by its name"
    return ArrayFolder(folder, tuple(files), named, classes, ordered, unused, why)


def _role(group: ArrayGroup, label: str | None) -> tuple[str, str]:
    """What an array is for, by its name, unless `label` says what is learned; and why it is left out, if it is."""
    words = [word for word in re.split(r"[_\d]+", group.name) if word]
    while len(words) > 1 and words[-1] in _PLAIN:
        words.pop()
    dtype, is_scalar = group.first.dtype, math.prod(group.shape) == 1
    by_name = bool(names_label("_".join(words))) or words[-1] in _OUTPUTS
    is_output = group.name == label if label not in (None, NO_LABEL) else by_name
    if dtype.startswith("complex"):
        return "", "no model takes complex numbers"
    if is_output and label == NO_LABEL:
        return "", "no label is wanted"
    if is_output and len(group.shape) > 1 and not is_scalar:
        return "", "no task learns values of several axes"
    if is_output and (is_scalar or dtype not in TEXTS):
        return "outputs", ""
    if words[-1] in _WEIGHTS and is_scalar and dtype not in TEXTS:
        return "weights", ""
    is_key = dtype in TEXTS or (words[-1] in _KEYS and is_scalar)
    return ("keys" if is_key else "inputs"), ""


def _may_be_classes(group: ArrayGroup) -> bool:
    """Whether an output has one value in a row that is no fraction."""
    return math.prod(group.shape) == 1 and not group.first.dtype.startswith(("float", "complex"))


def _values(group: ArrayGroup) -> np.ndarray:
    """The values of an output, `[rows]`; of large files those at their beginnings."""
    most = max(1, _READ // group.first.row_bytes // len(group.parts))
    values = []
    with tempfile.TemporaryDirectory(prefix="beamfeed-init-") as scratch:
        for part in group.parts:
            stored, rows = part.stored, min(part.stored.rows, most)
            values.append(read_rows(unpack(stored, scratch, rows) if is_packed(stored) else stored, 0, rows))
    return np.concatenate(values).ravel()


def _are_classes(values: np.ndarray) -> bool:
    """Whether values are classes: texts and truth of two kinds or more, whole numbers that are few or without a gap."""
    distinct = np.unique(values)
    if distinct.dtype.kind in "iu":
        without_gap = int(distinct[-1]) - int(distinct[0]) + 1 == len(distinct)
        most = MOST_CLASSES if without_gap else CLASSES
        return 2 <= len(distinct) <= most and len(distinct) * _OF_CLASS <= len(values)
    return 2 <= len(distinct) <= min(MOST_CLASSES, len(values) // 2)


def draft_arrays(arrays: ArrayFolder, places: Places) -> list[Part]:
    """The sections of the job file."""
    rows = sum(arrays.rows.values())
    about = f"{counted(len(arrays.files), 'file')}, {rows:,} rows"
    files = [Key("files", arrays.folder, tail=about)] if arrays.is_folder else []
    kind = Key("kind", "array", tail=("" if arrays.is_folder else f"{about}; ") + "beamfeed schema lists the kinds")
    sections = [
        Key(role, tuple(_array_key(arrays, role, group) for group in groups), _said(arrays, role))
        for role, groups in arrays.groups.items()
        if groups
    ]
    split, tail, share = _split(arrays)
    return [
        Key("source", (kind, *files, *sections), ("What the files hold.", *left_out(arrays.unused))),
        Key("split", split, tail=tail),
        output_key(places),
        *_train(arrays, rows * share, places, held_back=split["eval"] != 0),
    ]


def _said(arrays: ArrayFolder, role: str) -> tuple[str, ...]:
    if role == "outputs":
        return (f"What is to be learned, {arrays.why}.",)
    return ("For readers of the dataset; no model gets them.",) if role == "keys" else ()


def _array_key(arrays: ArrayFolder, role: str, group: ArrayGroup) -> Key:
    folder = arrays.folder if arrays.is_folder else ""
    value: dict[str, Any] = {"files": single([*globbed(folder, arrays.files, group.files)])}
    if any(group.members) and group.members != [group.name]:
        value["array"] = single(group.members)
    are_pixels = group.first.dtype == "uint8" and len(group.shape) in (2, 3)  # which the model makes numbers up to 1
    if role == "inputs" and group.first.dtype != "bool" and not are_pixels:
        value["scale"] = "standard"
    tail = f"{group.first.dtype} {list(group.shape)}" if group.shape else group.first.dtype
    if group.name in arrays.classes:
        value["classes"] = "auto"
        tail += f", {arrays.classes[group.name]} classes"
    return Key(group.name, value if len(value) > 1 else value["files"], tail=tail)


def _split(arrays: ArrayFolder) -> tuple[dict[str, Any], str, float]:
    """The section `split`, what is said of it, and the share that trains."""
    rows = arrays.rows
    total, train = sum(rows.values()), rows.get("train")
    if train is None or len(rows) < 2:
        return split_by_hash(total, _SPLIT, "row", "its number")
    held = rows.get("eval", 0)
    why = "as the names say"
    if not held and train >= _SPLIT and not arrays.ordered:
        held = train // 10
        train -= held
        why += "; the last tenth of those that train chooses the best weights"
    elif not held and arrays.ordered:
        why += "; those that train lie class by class, so no last part of them is held back"
    rest = {"eval": held, "test": "rest"} if "test" in rows else {"eval": "rest", "test": 0}
    return {"by": "rows", "train": train, **rest}, why, train / total


def _train(arrays: ArrayFolder, rows: float, places: Places, *, held_back: bool) -> list[Part]:
    outputs = arrays.groups["outputs"]
    if not outputs:
        return [
            Remark(
                "No array is clearly what is to be learned. `beamfeed init ... --label NAME` writes the job that "
                "predicts one; until then the job only preprocesses."
            )
        ]
    weights = arrays.groups["weights"]
    weight = {"sample_weight": weights[0].name} if weights else {}
    tasks = {
        group.name: {"name": "classify" if group.name in arrays.classes else "regress", "target": group.name} | weight
        for group in outputs
    }
    task: dict[str, Any] = tasks[outputs[0].name] if len(outputs) == 1 else {"outputs": tasks}
    sides = [min(group.shape[:2]) for group in arrays.groups["inputs"] if len(group.shape) in (2, 3)]
    halvings = max(2, math.ceil(math.log2(max(sides, default=1) / _SMALL)) + 1) if sides else 2
    model = {"name": "multi_input", "filters": list(_FILTERS[:halvings]), "units": [128], "dropout": 0.4}
    return [
        train_key(
            Key("model", model),
            [Key("task", task)],
            choose_batch(rows),
            places.model,
            schedule_of(rows, held_back=held_back, trained=_IMAGES_TRAINED if sides else ROWS_TRAINED),
            trains=f"about {round(rows):,} rows train",
        )
    ]
