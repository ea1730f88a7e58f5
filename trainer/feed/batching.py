"""The set-up of a feed: what it is asked for -> what it reads, and in which order. Pure; no TensorFlow.

`load_dataset`, `load_arrays` and `torch_dataset` are set up here; what they compute the order with is theirs to say.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import check_split, eval_steps, train_steps
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.trainer.feed.fields import (
    FieldSelection,
    choose_fields,
    data_fields,
    stored_bytes,
    window_bytes,
    windows_fitting,
)
from beamfeed.trainer.feed.options import FeedOptions, at_least, one_of, whole
from beamfeed.trainer.feed.order import Order
from beamfeed.trainer.feed.sharding import LANES, Distribution, Share
from beamfeed.trainer.feed.shards import Index
from beamfeed.trainer.operations import Operations

LEAST_BYTES, MOST_BYTES = 32 << 20, 64 << 20  # of rows in a round; some rounds are in memory at a time

Remainder = Literal["drop", "pad"]


@dataclass(frozen=True)
class Batching:
    """Which windows, or rows of arrays, make up the batches of a feed.

    Attributes:
      batch_size: windows in a global batch, over all workers together.
      shuffle: windows that are mixed at a time; 0 keeps the order.
      seed: of the order.
      epochs: how many; None reads without end.
      remainder: whether the last windows of an epoch, fewer than a batch, are left out or filled up with zeros.
      distribution: whose rows of each global batch are read.
      options: what is seldom asked for.

    Raises:
      TypeError: if a number is not whole.
      ValueError: if one is out of its range.
    """

    batch_size: int
    shuffle: int = 0
    seed: int = 7
    epochs: int | None = 1
    remainder: Remainder = "drop"
    distribution: Distribution = field(default_factory=Distribution)
    options: FeedOptions = field(default_factory=FeedOptions)

    def __post_init__(self) -> None:
        one_of("remainder", self.remainder, Remainder)
        for name in ("batch_size", "shuffle", "seed", "epochs"):  # NumPy's integers would overflow, or end as floats
            if name != "epochs" or self.epochs is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name)))
        at_least("batch_size", self.batch_size, 1)
        at_least("shuffle", self.shuffle, 0)
        if self.epochs is not None:
            at_least("epochs", self.epochs, 1)

    @property
    def is_padded(self) -> bool:
        return self.remainder == "pad"

    def order(self, operations: Operations, index: Index, windows: int, window_bytes: int, stored_bytes: int) -> Order:
        """The order of this worker's windows.

        Args:
          operations: what it is computed with.
          index: of the blocks.
          windows: how many there are, at least one batch (padded: one).
          window_bytes: of one by itself, about.
          stored_bytes: of all of them, as they lie in the blocks.

        Raises:
          ValueError: if there is no such `start`.
          UserError: if there are fewer rows in a batch than devices.
        """
        share = Share(self.batch_size, self.distribution)
        steps = (eval_steps if self.is_padded else train_steps)(windows, self.batch_size)
        start, epochs = self.options.start, self.epochs
        if min(start) < 0 or (epochs is not None and start[1] > epochs * steps):
            raise ValueError(f"start is {start}, there are {steps} batches in each of {epochs or 'many'} epochs")
        round_steps = self._mixed(windows, window_bytes, stored_bytes) // self.batch_size or 1
        lanes = self._lanes if self.shuffle else self.distribution.workers if self.is_padded else 1
        return Order(index, share, steps, round_steps, lanes, self.seed if self.shuffle else None, operations)

    def left(self, steps: int) -> int | None:
        """How many global batches there are from `start` on, with so many in an epoch; None: they have no end."""
        return None if self.epochs is None else self.epochs * steps - self.options.start[1]

    @property
    def _lanes(self) -> int:
        return min(self.options.lanes, self.batch_size)

    def _mixed(self, windows: int, window_bytes: int, stored_bytes: int) -> int:
        """How many windows are mixed at a time.

        More of them with more lanes: what a lane gives to a round would else be little more than the blocks at its
        ends, which are read again for the next.
        """
        least = windows_fitting(windows, stored_bytes, max(self.shuffle * window_bytes, LEAST_BYTES))
        mixed = min(max(self.shuffle, least), windows_fitting(windows, stored_bytes, MOST_BYTES))
        return mixed * max(1, self._lanes // LANES) if self.shuffle else mixed


@dataclass(frozen=True)
class SplitSetup:
    """A split that a feed reads.

    Attributes:
      manifest: of the partitions that are read.
      selection: what is read of each record.
      order: of its windows.
      window_bytes: of the wanted fields of a window, about.
    """

    manifest: Manifest
    selection: FieldSelection
    order: Order
    window_bytes: int


def set_up_split(
    path: str, split: SplitName, fields: Sequence[str] | None, batching: Batching, operations: Operations
) -> SplitSetup:
    """Sets up the feed of a split of the dataset at `path`. The order is the same whatever fields are wanted.

    Raises:
      ValueError: if an argument is out of its range.
      UserError: if there is no dataset, no such field, no full batch (padded: no window), or fewer rows in a batch than
        devices.
    """
    one_of("split", split, SplitName)
    options = batching.options
    manifest = read_manifest(path) if options.manifest is None else options.manifest
    manifest = manifest.select(options.where or {})
    selection = choose_fields(manifest, fields)
    info = check_split(manifest, split, batching.batch_size, full_batch=not batching.is_padded)
    index = Index.read(path, manifest, split)
    data, length, size = data_fields(manifest), manifest.windows.length, int(index.bytes.sum())
    order = batching.order(
        operations, index, info.windows, window_bytes(info, data, length, size), stored_bytes(info, data, size)
    )
    return SplitSetup(manifest, selection, order, window_bytes(info, selection.fields, length, size))
