"""What is known of an image beside its pixels: columns of its path and of a list, and which of them a job reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.sources.image import ImageSource
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import LabelColumn, check_of_rows, resolve_labels
from beamfeed.transforms.sources.columns.numbers import parse_numbers
from beamfeed.transforms.sources.columns.paths import key_columns
from beamfeed.transforms.sources.columns.sample import described, look_at_sample
from beamfeed.transforms.sources.readers import Columns, TextOptions

FOLDER, TOP_FOLDER = "folder", "top_folder"
RESERVED = ("image", "path")  # fields of every dataset of images
_LOOKED_AT = 100  # paths that tell whether a column of them holds numbers


@dataclass(frozen=True)
class ImageSchema:
    """What a job reads of images.

    Attributes:
      labels: the columns of labels.
      of_path: the columns that are read of paths.
      listed: what is read of the list, if there is one: the column of paths first.
      split, key: the columns that images are split by.
      remarks: what was found out of the list that the user did not say.
    """

    labels: tuple[LabelColumn, ...]
    of_path: tuple[str, ...]
    listed: Columns | None
    split: str | None
    key: str | None
    remarks: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str]:
        """All columns that are read, each once."""
        keys = [name for name in (self.split, self.key) if name is not None]
        return list(dict.fromkeys([*(label.column for label in self.labels), *keys]))


def image_source(job: Job) -> ImageSource:
    """The section `source` of a job on images."""
    assert isinstance(job.source, ImageSource)
    return job.source


def pattern_of(source: ImageSource) -> re.Pattern[str] | None:
    """What `source.pattern` says."""
    return None if source.pattern is None else re.compile(source.pattern)


def path_columns(path: str, name: str, pattern: re.Pattern[str] | None) -> dict[str, str | None]:
    """The columns that a path tells: its folders, those that name a key, and the groups of a pattern.

    Args:
      path: of an image.
      name: what of the path stands below the folder of the job's files.
      pattern: of the job.
    """
    *folders, _ = path.split("/")
    below = name.partition(":")[2] if re.match(r"\d+:", name) else name
    columns: dict[str, str | None] = {FOLDER: folders[-1] if folders else None}
    columns[TOP_FOLDER] = below.partition("/")[0] if "/" in below else None
    columns |= key_columns(path)
    if pattern is not None:
        match = pattern.search(path)
        columns |= dict.fromkeys(pattern.groupindex) if match is None else match.groupdict()
    return columns


def resolve_images(job: Job, files: Sequence[FileStat]) -> ImageSchema:
    """Resolves the columns of a job on images.

    Raises:
      UserError: if one is not there, or of a type that does not fit, or the list cannot be read.
    """
    source, split = image_source(job), job.split
    check_of_rows(job.label, split, "an image")
    for label in job.label:
        if label.name in RESERVED:
            raise UserError(f"label.name: {label.name!r} is another field of the dataset; give the label its own name")
    if split.by == "key" and source.key is None:
        raise UserError("split.by: key needs source.key, the column whose images belong together")
    types: dict[str, list[pa.DataType]] = {name: [type_] for name, type_ in _types_of_paths(source, files).items()}
    of_paths = list(types)
    text, remarks = TextOptions(), list[str]()
    if source.list is not None:
        of_list, text, remarks = _look(job, source)
        types |= of_list
    key = source.key if split.by == "key" else None
    keys = [("source.key", source.key), ("split.column", split.column)]
    if source.list is not None:
        keys.append(("source.list.path", source.list.path))
    for place, name in keys:
        columns = list(types) if place != "source.list.path" else [column for column in types if column in of_list]
        if name is not None and name not in columns:
            raise UserError(
                f"{place}: {name!r} is not a column{near_miss(name, columns)} (there are: {', '.join(columns)})"
            )
    labels = resolve_labels(job.label, types)
    schema = ImageSchema(labels, (), None, split.column, key, tuple(f"source.list: {line}" for line in remarks))
    listed = None
    if source.list is not None:
        names = list(dict.fromkeys([source.list.path, *(name for name in schema.columns if name in of_list)]))
        csv_types = dict.fromkeys(names, pa.string()) | {
            label.column: label.type for label in labels if label.column in names
        }
        listed = Columns(names, csv_types | {source.list.path: pa.string()}, text)
    of_path = (name for name in schema.columns if name in of_paths and (listed is None or name not in listed.names))
    return replace(schema, of_path=tuple(of_path), listed=listed)


def _types_of_paths(source: ImageSource, files: Sequence[FileStat]) -> dict[str, pa.DataType]:
    """The columns of paths, and whether they hold numbers, by some of the files.

    Raises:
      UserError: if the pattern is found in none of the paths.
    """
    pattern = pattern_of(source)
    by_path = [
        path_columns(file.path, storage.below(file.path, source.patterns), pattern) for file in files[:_LOOKED_AT]
    ]
    if pattern is not None and not any(pattern.search(file.path) for file in files):
        raise UserError(f"source.pattern: {source.pattern!r} is found in no path, such as {files[0].path}")
    types = {}
    for name in dict.fromkeys(name for values_of in by_path for name in values_of):
        values = [value for values_of in by_path if (value := values_of.get(name)) is not None]
        _, bad = parse_numbers(pa.array(values, pa.string()))
        types[name] = pa.float64() if values and not bad else pa.string()
    return types


def _look(job: Job, source: ImageSource) -> tuple[dict[str, list[pa.DataType]], TextOptions, list[str]]:
    """The columns of the list with their types, how it is written, and what of that is to be told.

    Raises:
      UserError: if it is not there or cannot be read.
    """
    assert source.list is not None
    list_ = source.list
    texts = [text for text in (list_.path, source.key, job.split.column) if text]
    texts += [label.column for label in job.label if label.column and label.classes is not None]
    columns = [*texts, *(label.column for label in job.label if label.column)]
    options = TextOptions(list_.csv, tuple(dict.fromkeys(columns)), texts=tuple(dict.fromkeys(texts)))
    try:
        looks, text = look_at_sample([storage.stat(list_.file)], options, "source.list.file")
    except FileNotFoundError:
        raise UserError(f"source.list.file: {list_.file}: there is no such file") from None
    except BadInput as bad:
        raise UserError(f"source.list.file: {bad}") from None
    (look,) = looks.values()
    return (
        {name: [type_] for name, type_ in zip(look.schema.names, look.schema.types, strict=True)},
        text,
        described(looks),
    )
