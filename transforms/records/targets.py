"""What is in the records of a shard, counted while they are made; and whether its targets can be learned."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Target
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.records.pieces import ranges
from beamfeed.transforms.records.ranges import field_ranges
from beamfeed.transforms.sources.record_block import RecordBlock
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.statistics.sums import add_fields


@dataclass(frozen=True)
class TargetTally:
    """The values of one target, added up: how many there are of each class, or the moments of numbers."""

    moments: Moments
    counts: tuple[int, ...] = ()

    @classmethod
    def zero(cls, field: Field) -> "TargetTally":
        """Of no value."""
        return cls(Moments.zero(1), (0,) * len(field.classes))

    @classmethod
    def of(cls, values: np.ndarray, field: Field) -> "TargetTally":
        """Of some values."""
        if field.classes:
            counts = np.bincount(values.reshape(-1), minlength=len(field.classes))
            return cls(Moments.zero(1), tuple(counts.tolist()))
        return cls(Moments.of(values.reshape(-1, 1)))

    def __add__(self, other: "TargetTally") -> "TargetTally":
        return add_fields(self, other)

    def target(self) -> Target:
        """As the manifest has it."""
        moments = self.moments
        if self.counts or not moments.count[0]:
            return Target(counts=list(self.counts))
        mean, std = float(moments.mean()[0]), float(moments.std()[0])
        return Target(mean=mean, std=std, min=moments.low[0], max=moments.high[0])


@dataclass
class Tally:
    """What went into a file, counted on the way."""

    records: int = 0
    windows: int = 0
    rows: int = 0
    bytes: int = 0
    windows_by_asset: Counter[str] = dataclasses.field(default_factory=Counter)
    targets: dict[str, TargetTally] = dataclasses.field(default_factory=dict)

    def add(self, block: RecordBlock, fields: Sequence[Field], windows: Windows) -> None:
        """Counts what a block is encoded to, but for its bytes."""
        before = self.windows
        self.add_records(block.rows, windows, tally_targets(block, fields, windows))
        self.windows_by_asset[block.asset] += self.windows - before

    def add_records(self, rows: np.ndarray, windows: Windows, targets: Mapping[str, TargetTally]) -> None:
        """Counts records of so many rows each, int64 `[records]`, with the values of their targets."""
        self.records += len(rows)
        self.windows += int(count_windows(rows, windows.length, windows.stride).sum())
        self.rows += int(rows.sum())
        for name, tally in targets.items():
            self.targets[name] = self.targets[name] + tally if name in self.targets else tally


def is_target(field: Field) -> bool:
    """Whether the values of a field are told in the manifest: those of targets and weights that are numbers."""
    is_number = field.dtype != "bytes" and not field.is_ragged and not field.units  # units tell it by themselves
    return field.role in ("target", "weight") and is_number


def tally_targets(block: RecordBlock, fields: Sequence[Field], windows: Windows) -> dict[str, TargetTally]:
    """The values of each target in the records of a block; of one per row, those of all rows of the records."""
    tallies = {}
    for field, (first, end) in field_ranges(block, fields, windows) if any(map(is_target, fields)) else ():
        if is_target(field):
            at = ranges(first, end - first)
            tallies[field.name] = TargetTally.of(np.asarray(block.values[field.name])[at], field)
    return tallies


def check_targets(fields: Sequence[Field], targets: Mapping[SplitName, Mapping[str, Target]], noun: str) -> None:
    """Refuses what nothing can be learned from.

    Args:
      fields: of a record.
      targets: by split, and by field.
      noun: what people call a window.

    Raises:
      JobFailed: with the label and what is wrong with it.
    """
    for field in fields:
        for column, unit in zip(field.columns, field.units, strict=False):
            if not unit.std:
                raise JobFailed(
                    f"label {field.name!r}: {column} is the same in every training row, so there is nothing to "
                    "learn; leave it out of label.ahead.columns"
                )
    for field in filter(is_target, fields):
        by_split = {name: targets[name][field.name] for name in SPLITS}
        title = f"{'label' if field.role == 'target' else 'weight'} {field.name!r}:"
        train = by_split["train"]
        if field.classes:
            _check_classes(title, field.classes, {name: target.counts for name, target in by_split.items()}, noun)
        elif field.role == "target" and train.min == train.max:
            raise JobFailed(f"{title} is {train.min:g} in every training {noun}, so there is nothing to learn")
        elif field.role == "weight":
            lowest = min(target.min for target in by_split.values() if target.min is not None)
            if lowest < 0:
                raise JobFailed(f"{title} is {lowest:g} in one {noun}, a weight must not be negative")
            if not train.max:
                raise JobFailed(f"{title} is 0 in every training {noun}, so none of them counts")


def _check_classes(title: str, classes: Sequence[str], counts: Mapping[SplitName, Sequence[int]], noun: str) -> None:
    unseen = [i for i, count in enumerate(counts["train"]) if not count]
    for i in unseen:
        if elsewhere := [name for name in SPLITS if counts[name][i]]:
            raise JobFailed(
                f"{title} has values never seen in training: class {classes[i]!r} is in no training {noun}, "
                f"but in {counts[elsewhere[0]][i]:,} {noun}s of {elsewhere[0]}"
            )
    if len(unseen) >= len(classes) - 1:
        (only,) = set(range(len(classes))) - set(unseen)
        raise JobFailed(f"{title} is {classes[only]!r} in every training {noun}, so there is nothing to learn")
    if unseen:
        raise JobFailed(f"{title} class {classes[unseen[0]]!r} is in no training {noun}")
