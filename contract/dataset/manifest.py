"""A dataset's manifest: all that a reader needs to know, in one small file written last."""

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, Field, ValidationError, field_serializer, field_validator

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.config.section import OneOf
from beamfeed.contract.config.sources import SOURCES
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset import layout
from beamfeed.contract.dataset.fields import Field as DataField
from beamfeed.contract.dataset.strict import Strict
from beamfeed.contract.errors import UserError, near_miss

FORMAT: Literal[4] = 4

_PLAIN = re.compile(r'\[[\w\s,."+-]*\]')  # a list of numbers or words, which JSON with indents gives a line each


def _stays_below(path: str) -> str:
    """A path of a manifest, which somebody else may have written: it leads to nothing outside of its folder."""
    if path.startswith(("/", "gs://")) or ".." in path.split("/"):
        raise ValueError(f"{path!r} leads out of the dataset's folder")
    return path


Below = Annotated[str, AfterValidator(_stays_below)]


class Shard(Strict):
    """One TFRecord file, as it was read back; its name is `layout.shard_name` of its place, or `file`."""

    records: int
    windows: int
    rows: int = Field(description="Rows in the records; rows that two records share count twice.")
    bytes: int
    crc32c: str = Field(description="CRC-32C of the whole file, 8 hex digits.")
    folder: Below = Field(default="", description="Of its partition, below the split's: country=DE.")
    file: Below = Field(
        default="",
        description="Of one that others wrote: its path below the folder of all of them. Of one in a dataset that has "
        "grown: below the folder of the manifest.",
    )


_RARE = ("folder", "file", "drift")  # columns that are left out where they are empty


def from_columns(model: type[BaseModel], value: Any) -> Any:
    """What `to_columns` gave -> a list of sections; other values as they are.

    Raises:
      ValueError: if these are other columns than the model has.
    """
    if not isinstance(value, dict):
        return value
    names = [name for name in model.model_fields if name not in _RARE or name in value]
    columns = [value.get(name) for name in names]
    if set(value) != set(names) or not all(isinstance(column, list) for column in columns):
        raise ValueError(f"must hold the lists {', '.join(names)}")
    if len({len(column) for column in columns}) > 1:  # type: ignore[arg-type]
        raise ValueError("its lists differ in length")
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_columns(model: type[BaseModel], items: Sequence[BaseModel]) -> dict[str, list[Any]]:
    """Many sections as columns by name, which are smaller in a file."""
    rare = [name for name in _RARE if any(getattr(item, name, None) for item in items)]
    names = [name for name in model.model_fields if name not in _RARE or name in rare]
    return {name: [getattr(item, name) for item in items] for name in names}


class Target(Strict):
    """The values of a target, or of a weight, over the windows of a split."""

    counts: list[int] = Field(default=[], description="Windows of each class, in the order of the field's classes.")
    mean: float | None = Field(default=None, description="Of numbers.")
    std: float | None = Field(default=None, description="Of the whole population.")
    min: float | None = None
    max: float | None = None


class SplitInfo(Strict):
    """One split of the dataset. In the file its shards stand as columns, which keeps it small."""

    assets: int = Field(description="Assets with at least one window in this split.")
    windows: int
    records: int
    bytes: int
    targets: dict[str, Target] = Field(default={}, description="By the name of the field.")
    shards: list[Shard]
    chosen: list[int] | None = Field(
        default=None, exclude=True, description="The numbers of the shards, where they are some of those on disk."
    )
    written: int | None = Field(default=None, exclude=True, description="How many there are on disk, likewise.")

    @classmethod
    def of(cls, assets: int, shards: Sequence[Shard], targets: dict[str, Target]) -> "SplitInfo":
        """A split of these shards, with what they hold together."""
        return cls(assets=assets, **_sums(shards), targets=targets, shards=list(shards))

    @property
    def numbers(self) -> list[int]:
        """The number of each shard among those on disk."""
        return list(range(len(self.shards))) if self.chosen is None else self.chosen

    def some_of(self, places: Collection[int]) -> "SplitInfo":
        """The split with the shards in these places alone. What it says of targets stays that of all."""
        shards = [shard for place, shard in enumerate(self.shards) if place in places]
        chosen = [number for place, number in enumerate(self.numbers) if place in places]
        written = len(self.shards) if self.written is None else self.written
        return self.model_copy(update={"shards": shards, "chosen": chosen, "written": written, **_sums(shards)})

    @field_validator("shards", mode="before")
    @classmethod
    def _from_columns(cls, value: Any) -> Any:
        return from_columns(Shard, value)

    @field_serializer("shards")
    def _to_columns(self, shards: list[Shard]) -> dict[str, list[Any]]:
        return to_columns(Shard, shards)


def _sums(shards: Sequence[Shard]) -> dict[str, int]:
    return {key: sum(getattr(shard, key) for shard in shards) for key in ("windows", "records", "bytes")}


class Counts(Strict):
    """What was found in the input."""

    files: int
    assets: int = Field(description="Assets found, rejected ones included.")
    rejected_assets: int
    rejected_files: int
    rows_read: int = Field(description="Rows of the accepted assets, and of those that lost rows and have none left.")
    rejected_rows: int = Field(default=0, description="Of these, rows that were set aside by themselves.")

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})

    def __sub__(self, other: "Counts") -> "Counts":
        return Counts(**{name: getattr(self, name) - getattr(other, name) for name in Counts.model_fields})


class Increment(Counts):
    """What one run added to a dataset that grows, and what it found in the files that it prepared."""

    data: Below = Field(description="The data folder of its shards.")
    fingerprint: str = Field(description="Of the dataset, as it then was.")
    windows: int = Field(description="Of all its splits.")
    in_splits: list[int] = Field(description="Its assets with something in train, eval and test.")
    drift: dict[str, float] = Field(
        default={},
        description="Features whose mean in its training rows is far from that of the first run's, in deviations.",
    )


class Grows(Strict):
    """By what later runs know a dataset that they may add to."""

    job: str = Field(description="The fingerprint of its job, whatever the files hold.")
    first: str = Field(description="That of the dataset of the first run, whose statistics it has.")
    compacted: str = Field(
        default="", description="By what the last `compact` took records away, or put them into another order."
    )

    @property
    def made_of(self) -> str:
        """What is counted in the fingerprint of the dataset beside its job and files."""
        return f"{self.first} {self.compacted}" if self.compacted else self.first


class Manifest(Strict):
    """The published dataset. Paths in it are relative to the folder that holds it."""

    format: Literal[4] = FORMAT
    name: str
    kind: str = Field(description="Of the source.")
    source: list[str] = Field(default=[], description="The job's source.files, as it has them; empty where none has.")
    fingerprint: str
    data: Below = Field(description="The data folder, such as data-0f3a…")
    previous: Below | None = Field(None, description="The data folder before it, which a trainer may still read.")
    older: list[Below] = Field(
        default=[], description="The data folders beside `previous` of the dataset before it, where that had grown."
    )
    grows: Grows | None = Field(default=None, description="Of a dataset that grows, what it grows by.")
    base: list[Below] = Field(
        default=[],
        description="The data folder of the dataset before the last run, to which the next may go back, and those of "
        "its shards.",
    )
    increments: list[Increment] = Field(
        default=[], description="Of a dataset that grows: what each run added, the first one first."
    )
    adopted: str | None = Field(
        default=None, description="Where shards lie that others wrote; empty: in the folder of the manifest."
    )
    fields: list[DataField] = Field(description="What a record holds.")
    windows: Windows = Field(description="Where windows are in the rows of a record; of one row where rows are single.")
    prepared: dict[str, Any] | None = Field(
        default=None, description="What the job says of how values are prepared, by key, but for what is left out."
    )
    records: Literal["segments", "windows"]
    compression: Literal["none", "gzip"]
    counts: Counts
    notes: list[str] = Field(default=[], description="What was left out or changed on the way, a line each.")
    splits: dict[SplitName, SplitInfo]

    @field_validator("increments", mode="before")
    @classmethod
    def _from_columns(cls, value: Any) -> Any:
        return from_columns(Increment, value)

    @field_serializer("increments")
    def _to_columns(self, increments: list[Increment]) -> dict[str, list[Any]] | list[Any]:
        return to_columns(Increment, increments) if increments else []

    @property
    def has_grown(self) -> bool:
        """Whether its shards lie in the data folders of several runs."""
        return self.adopted is None and any(shard.file for info in self.splits.values() for shard in info.shards)

    @property
    def fingerprints(self) -> list[str]:
        """Its own, and before it those of what it has grown from by adding: with these it shares its statistics."""
        before = (increment.fingerprint for increment in self.increments)
        return [*dict.fromkeys([*before, self.fingerprint])]

    @property
    def folders(self) -> list[str]:
        """The data folders that hold something of it."""
        files = (shard.file for info in self.splits.values() for shard in info.shards if self.adopted is None)
        of_shards = (file.partition("/")[0] for file in files if file)
        return list(dict.fromkeys([self.data, *of_shards, *self.base]))

    @property
    def features(self) -> list[str]:
        """The columns of the inputs, in order."""
        return [column for field in self.fields if field.role == "input" for column in field.columns]

    @property
    def rows_ahead(self) -> int:
        """Rows of a window that no input has: those that are forecast."""
        length = self.windows.length
        ends = [field.rows_of(length)[1] for field in self.fields if field.role == "input" and field.per == "row"]
        return length - max(ends, default=length)

    @property
    def noun(self) -> str:
        """What people call a window of it: window, row or image."""
        nouns = {kind: source.noun for source in SOURCES for kind in OneOf("kind", (source,)).names()}
        return nouns.get(self.kind) or ("window" if self.windows.length > 1 else "row")

    def field(self, name: str) -> DataField:
        """The field of this name.

        Raises:
          UserError: if there is none.
        """
        names = [field.name for field in self.fields]
        if name not in names:
            hint = near_miss(name, names)
            raise UserError(f"dataset {self.name}: has no field {name!r}{hint} (it has: {', '.join(names)})")
        return self.fields[names.index(name)]

    def data_layout(self, output: str) -> layout.DataLayout:
        """The names inside the data folder."""
        return layout.DataLayout(output, self.data)

    def shard_paths(self, output: str, split: SplitName) -> list[str]:
        """The split's shards in order. Readers open these and nothing else."""
        names, info = self.data_layout(output), self.splits[split]
        if self.adopted is not None or self.has_grown:
            return [below(self.adopted or output, shard.file) for shard in info.shards]
        count = len(info.shards) if info.written is None else info.written
        return [
            names.shard(split, number, count, shard.folder)
            for number, shard in zip(info.numbers, info.shards, strict=True)
        ]

    def list_shards(self, output: str, *splits: SplitName) -> dict[str, storage.FileStat]:
        """What lies where the shards of these splits are, by path; their indices too, if they lie there.

        Of shards that others wrote, each is asked for: beside them may lie any number of other files.
        """
        if self.adopted is not None:
            return storage.stat_all([path for split in splits for path in self.shard_paths(output, split)])
        folders = [output] if self.has_grown else [self.data_layout(output).split(split) for split in splits]
        suffixes = (layout.SHARD_SUFFIX, layout.BLOCKS)
        return {stat.path: stat for folder in folders for stat in storage.match(folder, suffixes)}

    @property
    def remedy(self) -> str:
        """What makes the dataset good again."""
        return "preprocess again" if self.adopted is None else "adopt the folder again"

    def with_shards(self, places: Mapping[SplitName, Collection[int]]) -> "Manifest":
        """The manifest of some shards alone, see `SplitInfo.some_of`; splits that are not named have all of theirs."""
        some = {split: self.splits[split].some_of(chosen) for split, chosen in places.items()}
        return self.model_copy(update={"splits": {**self.splits, **some}})

    def select(self, partitions: Mapping[str, Sequence[str]]) -> "Manifest":
        """The manifest of the shards of some partitions alone: by column, the values that are wanted.

        What it says of targets stays that of all.

        Raises:
          UserError: if the dataset has no such partitions.
        """
        if not partitions:
            return self
        folders = {shard.folder for info in self.splits.values() for shard in info.shards}
        by_folder = {folder: partition_values(folder) for folder in folders}
        _check_where(partitions, by_folder.values(), f"dataset {self.name}")
        keep = {
            folder
            for folder, values in by_folder.items()
            if all(values.get(column) in chosen for column, chosen in partitions.items())
        }
        return self.with_shards(
            {
                split: {place for place, shard in enumerate(info.shards) if shard.folder in keep}
                for split, info in self.splits.items()
            }
        )


def below(folder: str, file: str) -> str:
    """The path of a file in a folder, as a listing of that folder has it."""
    return file if folder.rstrip("/") in (".", "") and not folder.startswith("/") else storage.join(folder, file)


class OldFormat(UserError):
    """The dataset was written by another version.

    Attributes:
      data: its data folder.
    """

    def __init__(self, message: str, reason: str | None = None, *, data: str | None = None):
        super().__init__(message, reason)
        self.data = data


def find_manifest(output: str) -> Manifest | None:
    """Reads the manifest of the dataset at `output`; None where none is published.

    Raises:
      OldFormat: if it is of another version.
      UserError: if it cannot be understood.
    """
    path = layout.manifest_path(output)
    try:
        text = storage.read_text(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UserError(f"{output}: is a file, not the folder of a dataset (output.path of a job)") from None
    except IsADirectoryError:
        raise UserError(f"{path}: is a folder, where the manifest of a dataset should be") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not a manifest: it is not text in UTF-8; remove it and preprocess again") from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise UserError(f"{path}: is not a manifest: it is not JSON; remove it and preprocess again") from None
    if isinstance(content, dict) and isinstance(written := content.get("format"), int) and written != FORMAT:
        data = content.get("data")
        raise OldFormat(
            f"{path}: the dataset is of format {written}, this version reads format {FORMAT}; preprocess it again",
            data=data if isinstance(data, str) and data.startswith(layout.DATA_PREFIX) else None,
        )
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        problem = "is missing" if first["type"] == "missing" else first["msg"].removeprefix("Value error, ")
        raise UserError(f"{path}: is not a manifest of this version: {place}: {problem}; preprocess again") from None


def find_replaceable(output: str) -> tuple[Manifest | None, str | None]:
    """For who is to publish: the manifest of this version, if one is published, and the data folder of any.

    Raises:
      UserError: if there is a manifest that cannot be understood.
    """
    try:
        manifest = find_manifest(output)
    except OldFormat as old:
        return None, old.data
    return manifest, manifest.data if manifest else None


def find_fingerprint(output: str) -> str | None:
    """The fingerprint of the dataset at `output`, without a look at the rest of its manifest; None if there is none."""
    fingerprint: str | None = storage.read_mapping(layout.manifest_path(output)).get("fingerprint")
    return fingerprint


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """Reads the manifest of the dataset in the folder `path`, local or gs://.

    Raises:
      UserError: if there is none, or one that cannot be understood.

    Example:
      >>> manifest = beamfeed.read_manifest("out/data")
      >>> manifest.features
      ['inlet_bar', 'outlet_bar', 'flow_m3h']
    """
    path = os.fspath(path)
    manifest = find_manifest(path)
    if manifest is None:
        raise UserError(
            f"{path}: there is no dataset (no {layout.MANIFEST}); "
            "'beamfeed preprocess' writes one to a job's output.path"
        )
    return manifest


def write_manifest(output: str, manifest: Manifest) -> None:
    """Publishes the dataset: from here on readers see it."""
    text = manifest.model_dump_json(indent=1)
    one_line = _PLAIN.sub(lambda match: re.sub(r"\n\s*", "", match[0]), text)
    storage.write_text(layout.manifest_path(output), one_line + "\n")


def partition_values(folder: str) -> dict[str, str]:
    """The columns of a partition and their values: `country=DE/kind=a%2Fb` -> country DE, kind a/b."""
    parts = (part.partition("=") for part in folder.split("/") if part)
    return {unquote(column): unquote(value) for column, _, value in parts}


def _check_where(where: Mapping[str, Sequence[str]], partitions: Collection[Mapping[str, str]], dataset: str) -> None:
    """Raises UserError if there is no such column of partitions, or a value never occurs."""
    key, columns = "train.feed.where", sorted({column for values in partitions for column in values})
    for column, chosen in where.items():
        actual = sorted({values[column] for values in partitions if column in values})
        if not actual:
            has = f"it has {', '.join(columns)}" if columns else "it has none, see output.partition_by"
            hint = near_miss(column, columns)
            raise UserError(f"{key}: {dataset} has no partitions by {column!r}{hint} ({has})")
        for value in chosen:
            if value not in actual:
                examples = ", ".join(actual[:10]) + (" ..." if len(actual) > 10 else "")
                raise UserError(f"{key}: {column} is never {value!r}{near_miss(value, actual)} (it is {examples})")
