"""A split of a dataset as batches of NumPy arrays, in the order that `load_dataset` has."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.windows import MISMATCH
from beamfeed.contract.errors import UserError
from beamfeed.contract.records.examples import features_of, find_lists
from beamfeed.trainer.feed.batching import Batching, set_up_split
from beamfeed.trainer.feed.order import Line, Order
from beamfeed.trainer.feed.shards import copy_shards, find_shards
from beamfeed.trainer.numpy_feed.columns import Columns, read_columns
from beamfeed.trainer.numpy_feed.shards import ShardReader
from beamfeed.trainer.numpy_feed.windows import Ragged, Values, gather
from beamfeed.trainer.operations import NUMPY

CHUNK_BYTES = 2 << 20  # of windows gathered at a time, as whole batches: calls for small ones would cost more


@dataclass(frozen=True)
class Batch:
    """Some windows.

    Attributes:
      fields: by name; see `beamfeed.trainer.numpy_feed.windows.gather`.
      weights: float32 `[windows]`, 0 for what was filled in; None where nothing is.
    """

    fields: Mapping[str, Values]
    weights: np.ndarray | None


@dataclass(frozen=True)
class Loaded:
    """A round that was read: its values, and the places of the windows of each batch, int64 `[batches, rows]`."""

    columns: Columns
    place: np.ndarray


class BatchReader:
    """The batches of one split, those that `beamfeed.load_dataset` gives for equal arguments.

    Raises:
      ValueError: if an argument is out of its range, or PyTorch's feed has no such option.
      UserError: as `set_up_split`.
    """

    def __init__(
        self, path: str | os.PathLike[str], split: SplitName, batching: Batching, fields: Sequence[str] | None = None
    ):
        path = storage.absolute(os.fspath(path))  # shards are opened later, by other processes, too
        batching.options.allow("torch_dataset", "start", "lanes", "where", "manifest")
        if batching.distribution.replicas != 1:
            raise ValueError(
                f"replicas is {batching.distribution.replicas}: each process of PyTorch reads for one device"
            )
        setup = set_up_split(path, split, fields, batching, NUMPY)
        self.order, manifest = setup.order, setup.manifest
        self.steps = self.order.steps
        self.first_epoch, self.begin = batching.options.start
        left = batching.left(self.steps)
        self.end = None if left is None else self.begin + left
        self.fingerprint = manifest.fingerprint
        self._pads, self._selection = batching.is_padded, setup.selection
        self._features = features_of(manifest.fields)
        self._remedy = manifest.remedy
        self._shards = ShardReader(_shard_paths(manifest, path, split, self.order), self.order.index, manifest.remedy)
        self._chunk = max(1, CHUNK_BYTES // (self.order.share.size * setup.window_bytes))  # batches

    def __len__(self) -> int:
        """Batches from `start` to the end.

        Raises:
          TypeError: if there is no end.
        """
        if self.end is None:
            raise TypeError("epochs is None: the batches have no end")
        return self.end - self.begin

    def read(self, first: int = 0, stride: int = 1, epoch: int | None = None) -> Iterator[Batch]:
        """The batches `first`, `first + stride`, ..., counted from `start`; the next round is read meanwhile.

        Args:
          first: which one comes first.
          stride: how many readers share the batches.
          epoch: in the place of the first epoch of `start`.

        Raises:
          UserError: if a shard is missing, damaged, or not as the manifest says.
        """
        rounds = self._rounds(self.begin + first, stride, self.first_epoch if epoch is None else epoch)
        pool, is_finalizing = ThreadPoolExecutor(1, "beamfeed-read"), sys.is_finalizing
        try:
            ahead: Future[Loaded] | None = None
            for task in rounds:
                following = pool.submit(self._load, *task)
                if ahead is not None:
                    yield from self._cut(ahead.result())
                ahead = following
            if ahead is not None:
                yield from self._cut(ahead.result())
        finally:
            if not is_finalizing():  # else its thread has ended, and the modules that it needs are being taken apart
                pool.shutdown(wait=False, cancel_futures=True)

    def _rounds(self, at: int, stride: int, first_epoch: int) -> Iterator[tuple[Line, int, int, int]]:
        """The rounds that hold wanted batches: what `Order.round` takes of each."""
        known: tuple[int, Line] | None = None
        while self.end is None or at < self.end:
            epoch, step = divmod(at, self.steps)
            number, skip = divmod(step, self.order.round_steps)
            count = min(self.order.round_steps, self.steps - number * self.order.round_steps)
            if known is None or known[0] != epoch:
                known = epoch, self.order.line(first_epoch + epoch)
            yield known[1], number, skip, stride
            at += len(range(skip, count, stride)) * stride

    def _load(self, line: Line, number: int, skip: int, stride: int) -> Loaded:
        index = self.order.index
        round_ = self.order.round(line, number, skip, stride)
        lists = find_lists(self._shards.read(round_.blocks), self._features, self._remedy)
        columns = read_columns(lists, self._selection, self._remedy)
        edges = columns.first[np.concatenate([[0], np.cumsum(index.records[round_.blocks])])]
        if (np.diff(edges) != index.windows[round_.blocks]).any():
            raise UserError(f"{MISMATCH}; {self._remedy}")
        place = np.where(round_.present, (edges[:-1] - round_.first)[round_.block] + round_.place, -1)
        return Loaded(columns, place.reshape(-1, self.order.share.size))

    def _cut(self, loaded: Loaded) -> Iterator[Batch]:
        """The batches of a round; those of a chunk share the memory of its arrays, none of them with another."""
        rows = loaded.place.shape[1]
        for first in range(0, len(loaded.place), self._chunk):
            place = loaded.place[first : first + self._chunk]
            windows = gather(loaded.columns, place.ravel(), self._selection)
            for batch in range(len(place)):
                part = slice(batch * rows, (batch + 1) * rows)
                weights = (place[batch] >= 0).astype(np.float32) if self._pads else None
                yield Batch({name: _part(values, part) for name, values in windows.items()}, weights)


def _part(values: Values, part: slice) -> Values:
    """Some windows of many."""
    if not isinstance(values, Ragged):
        return values[part]
    before, here = values.lengths[: part.start].sum(), values.lengths[part]
    return Ragged(values.values[before : before + here.sum()], here)


def _shard_paths(manifest: Manifest, path: str, split: SplitName, order: Order) -> list[str]:
    """The shards of a split, in the manifest's order; of compressed ones, copies that are not."""
    if manifest.compression != "none":
        return copy_shards(manifest, path, split, order.index.shard[order.blocks()])
    if manifest.adopted is not None:
        return [stat.path for stat in find_shards(manifest, path, split)]
    return manifest.shard_paths(path, split)  # reading tells which one is missing
