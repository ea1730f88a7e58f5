"""What is counted of images; it adds up in any order to equal numbers."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.transforms.sources.image.picture import Picture
from beamfeed.transforms.sources.image.run_file import label_column
from beamfeed.transforms.sources.image.schema import ImageSchema
from beamfeed.transforms.statistics.sums import add_fields
from beamfeed.transforms.statistics.value_counts import ValueCounts


@dataclass(frozen=True)
class ImageStatistics:
    """Of some images of all splits.

    Attributes:
      images: how many.
      kept: of how many the bytes of the file are stored.
      formats: how many are of each.
      widths, heights: the least and the most pixels; none of no image.
      labels: of each label with classes: auto, its values in training rows, and
      elsewhere: in other rows.
    """

    labels: tuple[ValueCounts, ...]
    elsewhere: tuple[ValueCounts, ...]
    images: int = 0
    kept: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    widths: tuple[int, ...] = ()
    heights: tuple[int, ...] = ()

    @classmethod
    def zero(cls, schema: ImageSchema) -> "ImageStatistics":
        """Of no image."""
        no_counts = tuple(ValueCounts.zero(MOST_CLASSES) for label in schema.labels if label.auto)
        return cls(no_counts, no_counts)

    @classmethod
    def of(
        cls, pictures: Sequence[Picture], labels: tuple[ValueCounts, ...], elsewhere: tuple[ValueCounts, ...]
    ) -> "ImageStatistics":
        """Of some images."""
        return cls(
            labels,
            elsewhere,
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


def count_labels(table: pa.Table, schema: ImageSchema) -> tuple[ValueCounts, ...]:
    """The values of each label with classes: auto in some rows."""
    return tuple(
        ValueCounts.of(table[label_column(number)].combine_chunks(), MOST_CLASSES)
        for number, label in enumerate(schema.labels)
        if label.auto
    )
