"""Whether classes that were counted can be learned: those of labels with `classes: auto`."""

from collections.abc import Sequence

from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.statistics.value_counts import ValueCounts


def too_many_classes(label: LabelColumn) -> JobFailed:
    """What ends a job whose label has so many values that they hardly are classes."""
    return JobFailed(
        f"label.column: {label.column!r} has more than {MOST_CLASSES} values in training rows, "
        f"classes: auto takes at most {MOST_CLASSES}; for numbers leave 'classes' out"
    )


def check_classes(
    labels: Sequence[LabelColumn], training: Sequence[ValueCounts], elsewhere: Sequence[ValueCounts]
) -> None:
    """Refuses labels that cannot be learned.

    Args:
      labels: those whose classes are what is found, in order.
      training: how often their values come in training rows, and
      elsewhere: in other rows.

    Raises:
      JobFailed: with the label.
    """
    for label, trained, untrained in zip(labels, training, elsewhere, strict=True):
        if trained.over:
            raise too_many_classes(label)
        if untrained.over:
            raise JobFailed(
                f"label.column: {label.column!r} has more than {MOST_CLASSES} values in rows to evaluate or test, and "
                "fewer in training rows; list label.classes, and rows with other values are set aside"
            )
        classes = {value for value, _ in trained.items()}
        for value, count in untrained.items():
            if value not in classes:
                raise JobFailed(
                    f"label.column: {label.column!r} is {value!r} in {count:,} rows to evaluate or test and in no "
                    "training row; list label.classes, and rows with other values are set aside"
                )
