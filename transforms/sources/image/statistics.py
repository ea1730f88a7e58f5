"""What is counted of images; it adds up in any order to equal numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from beamfeed.contract.config.split import SplitName
from beamfeed.transforms.sources.columns.label_counts import ClassCounts
from beamfeed.transforms.sources.image.picture import Picture
from beamfeed.transforms.sources.image.run_file import label_column
from beamfeed.transforms.sources.image.schema import ImageSchema
from beamfeed.transforms.statistics.sums import add_fields


@dataclass(frozen=True)
class ImageStatistics:
    """Of some images of all splits.

    Attributes:
      images: how many.
      kept: of how many the bytes of the file are stored.
      formats: how many are of each.
      widths, heights: the least and the most pixels; none of no image.
      classes: of the labels.
    """

    classes: ClassCounts
    images: int = 0
    kept: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    widths: tuple[int, ...] = ()
    heights: tuple[int, ...] = ()

    @classmethod
    def zero(cls, schema: ImageSchema) -> "ImageStatistics":
        """Of no image."""
        return cls(ClassCounts.zero(schema.labels))

    @classmethod
    def of(cls, pictures: Sequence[Picture], classes: ClassCounts) -> "ImageStatistics":
        """Of some images."""
        return cls(
            classes,
            len(pictures),
            sum(picture.is_original for picture in pictures),
            Counter(picture.format for picture in pictures),
            _ends(tuple(picture.width for picture in pictures)),
            _ends(tuple(picture.height for picture in pictures)),
        )

    def __add__(self, other: "ImageStatistics") -> "ImageStatistics":
        widths, heights = _ends(self.widths + other.widths), _ends(self.heights + other.heights)
        return add_fields(self, other, widths=widths, heights=heights)

    def to_json(self) -> dict[str, Any]:
        """For stats.json."""
        return {
            "images": self.images,
            "original_bytes": self.kept,
            "formats": dict(sorted(self.formats.items())),
            "width": dict(zip(("min", "max"), self.widths, strict=False)),
            "height": dict(zip(("min", "max"), self.heights, strict=False)),
        }


def _ends(values: tuple[int, ...]) -> tuple[int, ...]:
    return (min(values), max(values)) if values else ()


def count_classes(table: pa.Table, schema: ImageSchema, split: SplitName) -> ClassCounts:
    """The classes of the labels of some images that are in one split."""
    auto = [label_column(number) for number, label in enumerate(schema.labels) if label.auto]
    columns, nothing = ([rows[name].combine_chunks() for name in auto] for rows in (table, table[:0]))
    return ClassCounts.of(columns, nothing) if split == "train" else ClassCounts.of(nothing, columns)
