"""Images: the section `source` with `kind: image`."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.section import FilePath, Section, names_groups
from beamfeed.contract.config.sources.base import SourceSection
from beamfeed.contract.config.sources.csv import Csv

Side = Annotated[int, Field(ge=1, le=65_535)]


class ImageList(Section):
    """A list of images: a row for each, with its path and what is known of it."""

    example: ClassVar[str] = "{file: labels.csv, path: filename}"

    file: FilePath = Field(min_length=1, description="CSV, JSON lines, Parquet or Arrow, local or gs://")
    path: str = Field(
        min_length=1,
        description="Its column of paths: as they are, or below source.files or the folder of the list; also names "
        "without a folder or without a suffix, where they are unambiguous.",
    )
    csv: Csv = Csv()


class Store(Section):
    """What of an image a record holds."""

    example: ClassVar[str] = "{format: jpeg, size: 256}"

    format: Literal["original", "jpeg", "png", "raw"] = Field(
        default="original",
        description="original: the bytes of the file (PNG where TensorFlow would decode them differently). jpeg, png: "
        "re-encoded. raw: uint8 [height, width, channels].",
    )
    size: Side | tuple[Side, Side] | None = Field(
        default=None,
        description="[height, width]; or a number, for the shorter side of larger images; raw needs [height, width].",
    )
    fit: Literal["crop", "stretch", "pad"] = Field(
        default="crop",
        description="How an image of another shape is fitted to [height, width]: cropped at the center, stretched, or "
        "padded with black.",
    )
    quality: Annotated[int, Field(ge=1, le=100)] = Field(default=90, description="Quality of JPEG images.")
    channels: Literal[1, 3] | None = Field(
        default=None, description="1: gray, 3: RGB. Left out, as the image has it; with raw 3."
    )

    @model_validator(mode="after")
    def _fits(self) -> "Store":
        if self.format == "original":
            for key in ("size", "fit", "quality", "channels"):
                if key in self.model_fields_set:
                    raise ValueError(f"{key} goes with format: jpeg, png or raw; original bytes stay as they are")
        if self.format == "raw" and not isinstance(self.size, tuple):
            raise ValueError("format: raw needs 'size: [height, width]', as all its images have one shape")
        if "fit" in self.model_fields_set and not isinstance(self.size, tuple):
            raise ValueError("fit goes with 'size: [height, width]'")
        if "quality" in self.model_fields_set and self.format != "jpeg":
            raise ValueError(f"quality goes with format: jpeg, not with format: {self.format}")
        return self


class ImageSource(SourceSection):
    """Images, one per file. Their columns come from folders, from groups of a pattern, or from a list."""

    suffixes: ClassVar[tuple[str, ...]] = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif")
    sections: ClassVar[dict[str, bool]] = {"label": False}
    noun: ClassVar[str] = "image"
    split_by: ClassVar[tuple[str, ...]] = ("row", "key", "column")
    split_keys: ClassVar[tuple[str, ...]] = ("stratify",)
    output_keys: ClassVar[tuple[str, ...]] = ("rows_per_record", "grow")

    kind: Literal["image"] = Field(description="What the files hold.")
    list: ImageList | None = Field(
        default=None, description="A file with a row for each image; images that are not in it take no part."
    )
    pattern: str | None = Field(
        default=None,
        description="Regular expression found in the path of an image; its named groups are columns, such as "
        "(?P<breed>[a-z]+)_[0-9]+",
    )
    key: str | None = Field(
        default=None, description="A column whose images belong together, such as a patient: for split.by: key."
    )
    store: Store = Store()
    max_pixels: Annotated[int, Field(ge=1, le=2_000_000_000)] = Field(
        default=100_000_000, description="An image with more pixels is set aside before it is decoded."
    )

    @field_validator("pattern")
    @classmethod
    def _pattern_has_groups(cls, value: str | None) -> str | None:
        return None if value is None else names_groups(value, "(?P<breed>[a-z]+)")

    @property
    def beside(self) -> dict[str, str]:
        return {} if self.list is None else {"source.list.file": self.list.file}
