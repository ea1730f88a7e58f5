"""What every kind of source has in the job file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator

from beamfeed.contract import storage
from beamfeed.contract.config.section import FilePath, Positive, Section
from beamfeed.contract.errors import UserError, first_line
from beamfeed.contract.storage import FileStat


@dataclass(frozen=True)
class Tells:
    """What a kind of source says of a field that is learned, or of a weight, without a section `label`.

    Attributes:
      name: of the field.
      role: of it.
      has_classes: whether its values are classes.
      is_ahead: whether it is the rows behind a window.
    """

    name: str
    role: Literal["target", "weight"]
    has_classes: bool
    is_ahead: bool = False


class SourceSection(Section):
    """Which files to read, and what they hold.

    A kind adds its own keys, and narrows `kind` to a Literal of its name.

    Attributes:
      suffixes: of the files that the kind reads, in small letters; files may have them in capitals.
      other_suffixes: of files that are read where they are named, or where a folder has none of the others: beside
        data, such files mostly describe them.
      sections: of the job file beside those that every kind has: those that this kind uses; True where the
        section must be given.
      split_by: the values of `split.by` that the kind knows: asset, and others only if its source sees to them. The
        first is what a job has that says nothing.
      noun: what people call what a model takes one at a time.
      has_graph: whether its values are scaled or encoded by a transform graph, which TensorFlow traces.
      split_keys, output_keys: keys of `split` and `output` that not every kind knows: those that this kind does.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    other_suffixes: ClassVar[tuple[str, ...]] = ()
    sections: ClassVar[dict[str, bool]] = {}
    noun: ClassVar[str] = "row"
    split_by: ClassVar[tuple[str, ...]] = ("asset",)
    has_graph: ClassVar[bool] = False
    split_keys: ClassVar[tuple[str, ...]] = ()
    output_keys: ClassVar[tuple[str, ...]] = ()

    kind: str = Field(description="What the files hold.")
    files: FilePath | Annotated[list[FilePath], Field(min_length=1)] = Field(
        description="Local or gs:// file, glob (** crosses folders) or folder; or a list of them."
    )
    max_assets: Positive | None = Field(default=None, description="Only the first N assets: a smoke test.")

    @field_validator("files")
    @classmethod
    def _no_empty_path(cls, value: str | list[str]) -> str | list[str]:
        if "" in ([value] if isinstance(value, str) else value):
            raise ValueError("'' is not allowed, it must be a file, a glob or a folder")
        return value

    @property
    def patterns(self) -> tuple[str, ...]:
        """`files` as a list, whether it is one or not."""
        return (self.files,) if isinstance(self.files, str) else tuple(self.files)

    def key_of(self, pattern: str) -> str:
        """The key of the job that names a pattern, for messages."""
        return "source.files"

    def list_files(self, *, required: bool = True) -> list[FileStat]:
        """The one listing of the input.

        Args:
          required: whether each pattern has to match a file.

        Raises:
          UserError: if one matches none, or the place cannot be listed.
        """
        try:
            files, empty = storage.match_inputs(self.patterns, self.suffixes, self.other_suffixes)
        except OSError as error:
            reason = first_line(error)
            raise UserError(f"source.files: {', '.join(self.patterns)} cannot be listed: {reason}") from None
        if empty and required:
            hint = storage.left_out(empty[0], (*self.suffixes, *self.other_suffixes))
            raise UserError(
                f"{self.key_of(empty[0])}: no file matches {empty[0]} (suffixes: {self.suffix_text()}){hint}"
            )
        return files

    def with_classes(self, classes: Mapping[str, list[str]]) -> Self:
        """The same with the classes of a dataset, by field, where the kind itself says auto; by default it does not."""
        return self

    @property
    def labels(self) -> list[Tells]:
        """What can be learned, where the kind itself says it."""
        return []

    @property
    def beside(self) -> dict[str, str]:
        """Files that are read beside `files`, such as a list of labels, by their keys: they count for what data are."""
        return {}

    @classmethod
    def suffix_text(cls) -> str:
        """The suffixes for people."""
        return " ".join(cls.suffixes)

    @classmethod
    def stem(cls, path: str) -> str:
        """The name of a file without its suffix."""
        name = path.rpartition("/")[2]
        suffixes = [suffix for suffix in (*cls.suffixes, *cls.other_suffixes) if name.lower().endswith(suffix)]
        return name[: len(name) - len(max(suffixes, key=len, default=""))]
