"""`beamfeed.torch_dataset`: a split for PyTorch. This module loads no PyTorch before it is asked for a dataset."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.sharding import LANES, Distribution
from beamfeed.trainer.numpy_feed.batches import BatchReader

if TYPE_CHECKING:
    from beamfeed.trainer.numpy_feed.torch_batches import TorchBatches


def torch_dataset(
    path: str | os.PathLike[str],
    split: SplitName,
    *,
    batch_size: int,
    fields: Sequence[str] | None = None,
    shuffle: int = 0,
    seed: int = 7,
    epochs: int | None = 1,
    start: tuple[int, int] = (0, 0),
    remainder: Literal["drop", "pad"] = "drop",
    lanes: int = LANES,
    distribution: Distribution = Distribution(),
    where: Mapping[str, Sequence[str]] | None = None,
) -> "TorchBatches":
    """The windows of one split as a `torch.utils.data.IterableDataset` of batches. TensorFlow is not needed.

    Batches, order and arguments are those of `load_dataset`: equal arguments give equal batches, one for one. Give it
    to a `DataLoader` with `batch_size=None`, as batches are made here. The workers of a loader share the batches, and
    the loader gives them in the same order whatever their number is.

    Args:
      path: the folder of the dataset, local or gs://
      split: train, eval or test.
      batch_size: windows in a global batch, over all processes of `distribution` together.
      fields: the names of those that a batch holds; left out, all but the keys. `.place` as for `load_dataset`.
      shuffle: windows that are mixed at a time; 0 keeps the order.
      seed: of the order.
      epochs: how many epochs; None reads without end.
      start: the first epoch to read, and the first of its batches.
      remainder: drop leaves the last windows of an epoch out, fewer than a batch. pad fills with zeros, and gives
        pairs of a batch and its weights, 0 for what was filled in.
      lanes: places of the split that a batch is drawn from.
      distribution: whose rows of each global batch are read, such as `Distribution(worker=rank, workers=world_size)`.
      where: reads some partitions alone: by column, the values that are wanted.

    Returns:
      A dataset of dicts by the name of the field: tensors of the field's dtype, `[batch, time, *shape]` of the rows of
      a window, and `[batch, *shape]` of what each window or its record has one of, or where windows are of one row.
      Strings are lists of bytes. Values of any length are a pair `Ragged(values, lengths)`: all entries one after the
      other, and int64 `[batch]` (`[batch, time]`), how many each value has. `len` counts its batches. `set_epoch`
      sets the first epoch of the next pass; `state_dict` and `load_state_dict` are for torchdata's
      `StatefulDataLoader`.

    Raises:
      ValueError: if an argument is out of its range.
      UserError: if there is no dataset or no such field, if the split holds no full batch (padded: no window), or if
        PyTorch is not installed. Reading raises it where a shard is missing, damaged, or not as the manifest says.

    Example:
      >>> windows = beamfeed.torch_dataset("out/data", "train", batch_size=16, shuffle=1000)
      >>> next(iter(windows))["values"].shape
      torch.Size([16, 8, 3])
    """
    reader = BatchReader(
        path, split, batch_size=batch_size, fields=fields, shuffle=shuffle, seed=seed, epochs=epochs, start=start,
        remainder=remainder, lanes=lanes, distribution=distribution, where=where,
    )  # fmt: skip
    try:
        from beamfeed.trainer.numpy_feed.torch_batches import TorchBatches
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError("PyTorch is not installed; pip install 'beamfeed[torch]' installs it") from None
    identity = {"split": split, "batch_size": batch_size, "shuffle": shuffle, "seed": seed, "start": list(start)}
    return TorchBatches(reader, {**identity, "lanes": lanes, "remainder": remainder, "where": dict(where or {})})
