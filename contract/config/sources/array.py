"""Arrays side by side: the section `source` with `kind: array`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract import storage
from beamfeed.contract.arrays.catalog import ArraySpec
from beamfeed.contract.arrays.stored import HDF5, NPY, NPZ, SUFFIXES, ZARR_FILE, ZARR_FOLDER
from beamfeed.contract.config.label import wrong_classes
from beamfeed.contract.config.section import FieldName, FilePath, Section, short_for
from beamfeed.contract.config.sources.base import SourceSection, Tells
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat

ROW = "row"  # the field of the rows' numbers

Files = FilePath | Annotated[list[FilePath], Field(min_length=1)]


class NamedFiles(Section):
    """An array, in one file or in several, one after the other."""

    example: ClassVar[str] = "{files: x-*.npy}"

    files: Files = Field(
        description="Local or gs:// file or glob, or a list of them. Files of a glob come in the order of their names."
    )
    array: str | Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="Its name in files of several arrays (.npz, HDF5, Zarr), or a list of names whose rows come one "
        "after the other; left out, this array's own, or the only one.",
    )

    @field_validator("array")
    @classmethod
    def _names_differ(cls, value: str | list[str] | None) -> str | list[str] | None:
        if isinstance(value, list) and (twice := [name for name in value if value.count(name) > 1]):
            raise ValueError(f"the array {twice[0]!r} is given twice")
        return value

    @property
    def patterns(self) -> tuple[str, ...]:
        """`files` as a list, whether it is one or not."""
        return (self.files,) if isinstance(self.files, str) else tuple(self.files)

    @property
    def members(self) -> tuple[str | None, ...]:
        """`array` as a list."""
        return tuple(self.array) if isinstance(self.array, list) else (self.array,)


class InputArray(NamedFiles):
    """An input array."""

    scale: Literal["none", "standard", "minmax"] = Field(
        default="none",
        description="none: the values as they are, in their own dtype. standard: mean 0, deviation 1; minmax: from 0 "
        "to 1; as float32. Where a row has one axis, each of its values is scaled by itself, else all alike.",
    )
    missing: Literal["reject", "keep"] = Field(
        default="reject", description="What becomes of a row with NaN or infinity in it: it is set aside, or kept."
    )


class OutputArray(NamedFiles):
    """A target array."""

    classes: Literal["auto"] | list[str | int | bool] | None = Field(
        default=None,
        description="The values are classes: a list of them, or auto for those of the training rows, in order. Left "
        "out, they are numbers.",
    )

    @model_validator(mode="after")
    def _classes_differ(self) -> "OutputArray":
        if isinstance(self.classes, list) and (problem := wrong_classes(self.classes)):
            raise ValueError(f"classes: {problem}")
        return self


Short = short_for("files", str, list)  # `image: x-*.npy`


class ArraySource(SourceSection):
    """NumPy, HDF5 or Zarr arrays that match row by row: a model's inputs and its targets."""

    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    sections: ClassVar[dict[str, bool]] = {}
    split_by: ClassVar[tuple[str, ...]] = ("row", "rows", "column")
    has_graph: ClassVar[bool] = True
    output_keys: ClassVar[tuple[str, ...]] = ("rows_per_record", "grow")

    kind: Literal["array"] = Field(description="What the files hold.")
    files: FilePath | None = Field(  # type: ignore[assignment]
        default=None, description="The folder of the arrays' files; left out, their paths are used as they are."
    )
    inputs: Annotated[dict[FieldName, InputArray], Short] = Field(
        min_length=1, description="The model's inputs, arrays by name: {image: x1-*.npy, meta: x2-*.npy}."
    )
    outputs: Annotated[dict[FieldName, OutputArray], Short] = Field(
        default={}, description="The model's targets, arrays by name, for train.task."
    )
    weights: Annotated[dict[FieldName, NamedFiles], Short] = Field(
        default={}, description="Weights of the rows, arrays by name, for train.task.sample_weight."
    )
    keys: Annotated[dict[FieldName, NamedFiles], Short] = Field(
        default={},
        description="Arrays by name that are only passed through, such as row names; split.column may be one.",
    )

    @field_validator("files")
    @classmethod
    def _no_empty_path(cls, value: str | None) -> str | None:  # type: ignore[override]
        if value == "":
            raise ValueError("'' is not allowed, it must be a folder")
        return value

    @model_validator(mode="after")
    def _names_differ(self) -> "ArraySource":
        names = [name for _, name, _ in self.arrays()]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two arrays have the name {twice[0]!r}; give each its own")
        if ROW in names:
            raise ValueError(f"{ROW!r} is the name of the rows' numbers in the dataset; give the array another one")
        return self

    def arrays(self) -> Iterator[tuple[str, str, NamedFiles]]:
        """Each array: its group (inputs, outputs, ...), its name and its section."""
        for group in ("inputs", "outputs", "weights", "keys"):
            for name, section in getattr(self, group).items():
                yield group, name, section

    def paths_of(self, section: NamedFiles) -> tuple[str, ...]:
        """The patterns of an array, in the folder `files` where there is one; of Zarr, the file that describes it."""
        placed = (
            pattern
            if self.files is None or pattern.startswith("/") or storage.is_remote(pattern)
            else storage.join(self.files, pattern)
            for pattern in section.patterns
        )
        return tuple(
            storage.join(path, ZARR_FILE) if path.rstrip("/").endswith(ZARR_FOLDER) else path for path in placed
        )

    def array_specs(self, files: Sequence[FileStat], prefix: str = "source.") -> list[ArraySpec]:
        """Each array with those of the listed files that are its own, in the order of `arrays`.

        Args:
          files: of all arrays.
          prefix: of the keys that messages name.

        Raises:
          UserError: if an array has none.
        """
        specs = []
        for group, name, section in self.arrays():
            matching: dict[str, FileStat] = {}
            for pattern in self.paths_of(section):
                matching |= {file.path: file for file in files if storage.fits(file.path, pattern)}
            key = f"{prefix}{group}.{name}"
            if not matching:
                raise UserError(f"{key}: no file matches {section.patterns[0]} (suffixes: {self.suffix_text()})")
            specs.append(ArraySpec(name, key, tuple(matching.values()), section.members))
        return specs

    @property
    def patterns(self) -> tuple[str, ...]:
        """Those of all arrays, each once."""
        return tuple(dict.fromkeys(path for _, _, section in self.arrays() for path in self.paths_of(section)))

    def key_of(self, pattern: str) -> str:
        """The key of the first array that names a pattern."""
        return next(
            (f"source.{group}.{name}" for group, name, section in self.arrays() if pattern in self.paths_of(section)),
            "source.inputs",
        )

    @classmethod
    def suffix_text(cls) -> str:
        return " ".join((*NPY, *NPZ, *HDF5, ZARR_FOLDER))

    def with_classes(self, classes: Mapping[str, list[str]]) -> "ArraySource":
        """The outputs with classes: auto have these."""
        outputs = {
            name: section.model_copy(update={"classes": classes[name]}) if section.classes == "auto" else section
            for name, section in self.outputs.items()
        }
        return self.model_copy(update={"outputs": outputs})

    @property
    def labels(self) -> list[Tells]:
        """The outputs and the weights."""
        outputs = [Tells(name, "target", section.classes is not None) for name, section in self.outputs.items()]
        return [*outputs, *(Tells(name, "weight", False) for name in self.weights)]
