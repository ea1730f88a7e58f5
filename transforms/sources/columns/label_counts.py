"""Classes that were counted, those of labels with `classes: auto`: whether they can be learned, and which they are."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.sources.columns.labels import LabelColumn, in_order
from beamfeed.transforms.statistics.sums import add_fields
from beamfeed.transforms.statistics.value_counts import ValueCounts

C = TypeVar("C", bound=Any)  # a dataclass with `auto` and `classes`


@dataclass(frozen=True)
class ClassCounts:
    """How often each value comes, of each label whose classes are those that are found.

    Attributes:
      training: in training rows, and
      elsewhere: in other rows.
    """

    training: tuple[ValueCounts, ...]
    elsewhere: tuple[ValueCounts, ...]

    @classmethod
    def zero(cls, labels: Sequence[Any]) -> "ClassCounts":
        """Of no rows."""
        nothing = tuple(ValueCounts.zero(MOST_CLASSES) for label in labels if label.auto)
        return cls(nothing, nothing)

    @classmethod
    def of(cls, training: Iterable[pa.Array], elsewhere: Iterable[pa.Array]) -> "ClassCounts":
        """Of the columns of such labels, string [n]."""
        rows = (tuple(ValueCounts.of(column, MOST_CLASSES) for column in columns) for columns in (training, elsewhere))
        return cls(*rows)

    def __add__(self, other: "ClassCounts") -> "ClassCounts":
        return add_fields(self, other)


class UnseenClass(JobFailed):
    """A label has a class that no training row has."""


def too_many_classes(key: str) -> JobFailed:
    """What ends a job whose label, named by how messages begin, has so many values that they hardly are classes."""
    return JobFailed(
        f"{key} has more than {MOST_CLASSES} values in training rows, classes: auto takes at most {MOST_CLASSES}; for "
        "numbers leave 'classes' out"
    )


def check_classes(keys: Sequence[str], to_list: str, counts: ClassCounts) -> None:
    """Refuses labels that cannot be learned.

    Args:
      keys: how messages begin of each label whose classes are what is found.
      to_list: the key for classes that are listed.
      counts: of these labels.

    Raises:
      JobFailed: with the label.
      UnseenClass: likewise.
    """
    for key, trained, untrained in zip(keys, counts.training, counts.elsewhere, strict=True):
        if trained.over:
            raise too_many_classes(key)
        if untrained.over:
            raise JobFailed(
                f"{key} has more than {MOST_CLASSES} values in rows to evaluate or test, and fewer in training rows; "
                f"list {to_list}, and rows with other values are set aside"
            )
        classes = {value for value, _ in trained.items()}
        for value, count in untrained.items():
            if value not in classes:
                raise UnseenClass(
                    f"{key} is {value!r} in {count:,} rows to evaluate or test and in no training row; list {to_list}, "
                    "and rows with other values are set aside"
                )


def check_auto(labels: Sequence[LabelColumn], counts: ClassCounts) -> None:
    """As `check_classes`, of those labels of a job whose classes are what is found."""
    check_classes([f"label.column: {label.column!r}" for label in labels if label.auto], "label.classes", counts)


def settled(labels: Sequence[C], counts: ClassCounts) -> tuple[C, ...]:
    """Labels with the classes known that are `auto`: those that were counted."""
    counted = iter(counts.training)
    return tuple(
        replace(label, classes=in_order(value for value, _ in next(counted).items())) if label.auto else label
        for label in labels
    )
