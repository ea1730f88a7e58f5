"""What a folder of tensorflow-datasets says of its records, without the library.

features.json is the proto `Feature` (tensorflow_datasets/core/proto/feature.proto)
as JSON, dataset_info.json is `DatasetInfo`. The names of classes stand in a text
file for each feature. Features that are nested have `/` in their names.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.dataset.fields import LISTED, Dtype, Role
from beamfeed.contract.errors import UserError

FEATURES, INFO, LABELS = "features.json", "dataset_info.json", ".labels.txt"
TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"  # where dataset_info.json names no other
PARTS = {
    "{FILEFORMAT}": r"\w+",
    "{SHARD_X_OF_Y}": r"\d{5,}+-of-\d{5,}+",
    "{SHARD_INDEX}": r"\d{5,}+",
    "{NUM_SHARDS}": r"\d{5,}+",
}
MOST_CLASSES = 1_000_000  # that are named by their numbers: five times those of the library's largest dataset
IMAGE = "image"
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Hint:
    """What is known of a feature before a record is read.

    Attributes:
      shape: of its value; None where it is not known.
      classes: names of its classes.
      content: of strings: what is in them.
      raw: of strings: the dtype of the numbers whose memory each of them is.
      role: of the field.
    """

    shape: Shape | None = None
    classes: tuple[str, ...] = ()
    content: str = ""
    raw: Dtype | None = None
    role: Role | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of what is raw."""
        return tuple(size or 1 for size in self.shape or ())

    @property
    def bytes(self) -> int:
        """Of one number of what is raw."""
        return int(np.dtype(self.raw).itemsize)


@dataclass(frozen=True)
class Described:
    """What a folder of tensorflow-datasets says.

    Attributes:
      name: of the dataset.
      hints: by the name of the feature.
      splits: examples in each, by its name.
      templates: of the names of its files, by the split's name.
    """

    name: str = ""
    hints: Mapping[str, Hint] = field(default_factory=dict)
    splits: Mapping[str, int] = field(default_factory=dict)
    templates: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_target(self) -> bool:
        """Whether the dataset says what a model is to tell."""
        return any(hint.role == "target" for hint in self.hints.values())

    def split_of(self, path: str) -> str | None:
        """The split that a file is of, by its path below the folder; None if it is of none."""
        for split, template in self.templates.items():
            if re.fullmatch(_regex(template, self.name, split), path):
                return split
        return None


def describe(folder: str) -> Described | None:
    """What a folder says; None where it is not of tensorflow-datasets.

    Raises:
      UserError: if its files cannot be understood.
    """
    features = _read_json(folder, FEATURES)
    if features is None:
        return None
    info = _read_json(folder, INFO) or {}
    try:
        hints = dict(_walk(features, "", (), lambda name: _labels(folder, name)))
        hints = _with_roles(hints, _supervised(info))
        splits = {split["name"]: sum(map(int, split.get("shardLengths", []))) for split in info.get("splits", [])}
        templates = {split["name"]: _template(split) for split in info.get("splits", [])}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        path = storage.join(folder, FEATURES)
        raise UserError(f"{path}: is not as tensorflow-datasets writes it: {type(error).__name__}: {error}") from None
    return Described(str(info.get("name", "")), hints, splits, templates)


def _read_json(folder: str, name: str) -> dict[str, Any] | None:
    path = storage.join(folder, name)
    try:
        content = json.loads(storage.read_text(path))
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is not JSON") from None
    return content if isinstance(content, dict) else None


def _walk(
    feature: Any, path: str, outer: Shape, labels: Callable[[str], tuple[str, ...]]
) -> Iterator[tuple[str, Hint]]:
    """The features that records have, each with its hint; `outer` is the shape of the sequences around one."""
    if "featuresDict" in feature:
        for name, inner in feature["featuresDict"]["features"].items():
            yield from _walk(inner, f"{path}/{name}" if path else name, outer, labels)
    elif "sequence" in feature:
        length = int(feature["sequence"].get("length", -1))
        yield from _walk(feature["sequence"]["feature"], path, (*outer, None if length < 0 else length), labels)
    elif "classLabel" in feature:
        count = int(feature["classLabel"].get("numClasses", 0))
        if count > MOST_CLASSES:
            raise ValueError(f"{path} has {count:,} classes")
        yield path, Hint(_allowed(outer), labels(path) or tuple(map(str, range(count))))
    elif "image" in feature:
        yield path, Hint(_allowed(outer), content=IMAGE)
    elif "text" in feature:
        yield path, Hint(_allowed(outer))
    elif "boundingBox" in feature:
        yield path, Hint(_allowed((*outer, 4)))
    elif "tensor" in feature:
        yield path, _tensor(feature["tensor"], outer)


def _tensor(tensor: Any, outer: Shape) -> Hint:
    inner = tuple(None if int(size) < 0 else int(size) for size in tensor.get("shape", {}).get("dimensions", []))
    encoding, dtype = tensor.get("encoding", "none"), tensor.get("dtype", "")
    if encoding == "none":
        return Hint(_allowed((*outer, *inner)))
    dtypes = {str(name) for name in get_args(Dtype)} - {"bytes"}
    if encoding == "bytes" and not outer and None not in inner and dtype in dtypes - set(LISTED):
        return Hint(inner, raw=dtype)
    return Hint()


def _allowed(shape: Shape) -> Shape | None:
    """The shape, if a field can have it."""
    return None if None in shape[1:] or 0 in shape else shape


def _labels(folder: str, name: str) -> tuple[str, ...]:
    """The names of a feature's classes, a line each."""
    try:
        text = storage.read_text(storage.join(folder, name.replace("/", "-") + LABELS))
    except FileNotFoundError:
        return ()
    return tuple(text.splitlines())


def _supervised(info: Mapping[str, Any]) -> tuple[str, str] | None:
    """The features that a model gets and tells, where the dataset names one each."""
    keys = info.get("supervisedKeys", {})
    if "tuple" in keys:
        items = [item.get("featureKey") for item in keys["tuple"].get("items", [])]
        return (items[0], items[1]) if len(items) == 2 and all(items) else None
    return (keys["input"], keys["output"]) if {"input", "output"} <= set(keys) else None


def _with_roles(hints: dict[str, Hint], pair: tuple[str, str] | None) -> dict[str, Hint]:
    """With the roles of the pair; what is beside it is for no model."""
    if pair is None:
        return hints

    roles: dict[str, Role] = {pair[0]: "input", pair[1]: "target"}
    return {name: replace(hint, role=roles.get(name.partition("/")[0], "key")) for name, hint in hints.items()}


def _template(split: Mapping[str, Any]) -> str:
    template = str(split.get("filepathTemplate") or TEMPLATE)
    for part in PARTS:
        if template.count(part) > 1:  # a name could be matched in more ways than can be tried
            raise ValueError(f"filepathTemplate has {part} more than once")
    return template


def _regex(template: str, dataset: str, split: str) -> str:
    pattern = re.escape(template.replace("{DATASET}", dataset).replace("{SPLIT}", split))
    for part, regex in PARTS.items():
        pattern = pattern.replace(re.escape(part), regex)
    return pattern
