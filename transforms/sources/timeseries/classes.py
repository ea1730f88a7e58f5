"""Which classes the rows of an asset name: are they in the job's list, or, with classes: auto, in training rows?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from beamfeed.contract.config.label import MOST_CLASSES
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.columns.labels import LabelColumn, find_unlisted

if TYPE_CHECKING:
    from beamfeed.transforms.sources.timeseries.read import Chunk

_MOST_NAMES = MOST_CLASSES + 1  # of the names that are found: enough to tell that they are too many
Names = tuple[frozenset[str], ...]  # for each label, the classes found
Place = tuple[str, int]  # a file and its row


@dataclass(frozen=True)
class SeenClasses:
    """The classes that rows name, for each label with classes: auto; of the others nothing is kept.

    Attributes:
      training: those of training rows.
      elsewhere: those of eval and test rows, each with the first place.
    """

    training: Names
    elsewhere: tuple[Mapping[str, Place], ...]

    @classmethod
    def zero(cls, labels: Sequence[LabelColumn]) -> "SeenClasses":
        """Of no rows."""
        return cls((frozenset(),) * len(labels), ({},) * len(labels))

    def __add__(self, other: "SeenClasses") -> "SeenClasses":
        return SeenClasses(
            add_names(self.training, other.training),
            tuple(_first({**b, **a}) for a, b in zip(self.elsewhere, other.elsewhere, strict=True)),
        )


def add_names(left: Names, right: Names) -> Names:
    """The classes of both; the first in order where there are too many."""
    return tuple(frozenset(sorted(a | b)[:_MOST_NAMES]) for a, b in zip(left, right, strict=True))


def _first(places: Mapping[str, Place]) -> dict[str, Place]:
    return {name: places[name] for name in sorted(places)[:_MOST_NAMES]}


def see_classes(chunk: "Chunk", labels: Sequence[LabelColumn], training: np.ndarray, used: np.ndarray) -> SeenClasses:
    """The classes of some rows of a file.

    Args:
      chunk: the rows.
      labels: their specs.
      training: bool [n], the rows that train.
      used: bool [n], those of any split.

    Raises:
      BadInput: at a value that the job's list of classes does not hold.
    """
    path = chunk.path
    classes = SeenClasses.zero(labels)
    names, elsewhere = list(classes.training), list(classes.elsewhere)
    for k, (column, label) in enumerate(zip(chunk.labels, labels, strict=True)):
        if label.auto:
            names[k] = frozenset(_first_rows(column, training))
            held_out = _first_rows(column, used & ~training)
            elsewhere[k] = {name: (path, int(chunk.file_row[at])) for name, at in held_out.items()}
        elif (bad := used & find_unlisted(column, label)).any():
            at = int(bad.argmax())
            raise BadInput(path, f"row {chunk.file_row[at]}", label.why_unlisted(column[at]))
    return SeenClasses(tuple(names), tuple(elsewhere)) + classes


def _first_rows(column: pa.Array, mask: np.ndarray) -> dict[str, int]:
    """The names in some of the rows, bool [n], and the first row of each."""
    rows = np.flatnonzero(mask & column.is_valid().to_numpy(zero_copy_only=False))
    encoded = column.take(pa.array(rows)).dictionary_encode()
    codes, first = np.unique(encoded.indices.to_numpy(), return_index=True)
    names = encoded.dictionary.to_pylist()
    return {names[code]: int(rows[at]) for code, at in zip(codes, first, strict=True)}
