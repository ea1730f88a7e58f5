"""`beamfeed.torch_dataset`: a split for PyTorch. This module loads no PyTorch before it is asked for a dataset."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.batching import Batching, Remainder
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.feed.sharding import Distribution
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
    remainder: Remainder = "drop",
    distribution: Distribution = Distribution(),
    options: FeedOptions = FeedOptions(),
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
      remainder: drop leaves the last windows of an epoch out, fewer than a batch. pad fills with zeros, and gives
        pairs of a batch and its weights, 0 for what was filled in.
      distribution: whose rows of each global batch are read, such as `Distribution(worker=rank, workers=world_size)`.
      options: `start`, `lanes`, `where` and `manifest`.

    Returns:
      A dataset of dicts by the name of the field: tensors of the field's dtype, `[batch, time, *shape]` of the rows of
      a window, and `[batch, *shape]` of what each window or its record has one of, or where windows are of one row.
      Strings are lists of bytes. Values of any length are a pair `Ragged(values, lengths)`: all entries one after the
      other, and int64 `[batch]` (`[batch, time]`), how many each value has. `len` counts its batches. `set_epoch`
      sets the first epoch of the next pass; `state_dict` and `load_state_dict` are for torchdata's
      `StatefulDataLoader`.

    Raises:
      TypeError: if a number is not whole.
      ValueError: if an argument is out of its range.
      UserError: if there is no dataset or no such field, if the split holds no full batch (padded: no window), or if
        PyTorch is not installed. Reading raises it where a shard is missing, damaged, or not as the manifest says.

    Example:
      >>> windows = beamfeed.torch_dataset("out/data", "train", batch_size=16, shuffle=1000)
      >>> next(iter(windows))["values"].shape
      torch.Size([16, 8, 3])
    """
    batching = Batching(batch_size, shuffle, seed, epochs, remainder, distribution, options)
    reader = BatchReader(path, split, batching, fields)
    try:
        from beamfeed.trainer.numpy_feed.torch_batches import TorchBatches
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError("PyTorch is not installed; pip install 'beamfeed[torch]' installs it") from None
    identity = {
        "split": split, "batch_size": batching.batch_size, "shuffle": batching.shuffle, "seed": batching.seed,
        "start": list(options.start), "lanes": options.lanes, "remainder": remainder,
        "where": dict(options.where or {}),
    }  # fmt: skip
    return TorchBatches(reader, identity)
