"""Some windows of a split as a review reads them: eagerly, each once, and no more than a bound."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import eval_steps, windows_in
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.times import time_text
from beamfeed.trainer.decode.preparation import Preparation
from beamfeed.trainer.feed.batching import Batching
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.fields import PLACE
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.feed.sharding import LANES
from beamfeed.trainer.numpy_feed.batches import Batch, BatchReader
from beamfeed.trainer.tasks.objective import Objective

BATCH = 256  # windows at a time, unless a device trains on fewer
PLACES = 64  # of a split that is not read as a whole: that many its windows come from

Fields = dict[str, Any]


def open_split(
    job: TrainingJob, manifest: Manifest, split: SplitName, batches: int, *, fields: list[str], batch_size: int,
    preparation: Preparation | None = None, lanes: int = LANES, **arguments: Any,
) -> Iterable[Any]:  # fmt: skip
    """The first batches of a split of the job's dataset, for a short look; `arguments` are those of `load_dataset`."""
    options = FeedOptions(lanes=lanes, manifest=manifest)
    skip_corrupt = job.train.feed.skip_corrupt
    is_ragged = any(field.is_ragged for field in manifest.fields if field.name in fields)
    if preparation is None and not skip_corrupt and not is_ragged:
        # The same batches: to trace and optimize a graph would take longer than to read.
        batching = Batching(batch_size, options=options, **arguments)
        return map(_to_tensors, islice(BatchReader(job.output.path, split, batching, fields).read(), batches))
    options = replace(options, skip_corrupt=skip_corrupt, preparation=preparation)
    dataset = load_dataset(
        job.output.path, split, fields=fields, batch_size=batch_size, options=options, **arguments
    ).take(batches)  # fmt: skip
    quick_to_end = tf.data.Options()
    quick_to_end.autotune.enabled = False  # taking a pipeline apart that is being tuned may wait for minutes
    quick_to_end.experimental_optimization.apply_default_optimizations = False  # takes longer than it saves here
    return dataset.with_options(quick_to_end)


def _to_tensors(batch: Batch) -> Any:
    """A batch without values of any length as `load_dataset` gives it."""
    fields = {name: tf.constant(values) for name, values in batch.fields.items()}
    return fields if batch.weights is None else (fields, tf.constant(batch.weights))


def read_windows(
    job: TrainingJob, manifest: Manifest, split: SplitName, names: list[str], batch: int, most: int,
    preparation: Preparation | None = None,
) -> Iterator[tuple[Fields, tf.Tensor]]:  # fmt: skip
    """Batches of a split's windows, the same ones in the same order each time, and which of them are no padding.

    Args:
      job: `output.path` is where the dataset is.
      manifest: of the dataset.
      split: with at least one window.
      names: of the fields.
      batch: windows in each; they are filled up with padding.
      most: windows in all, about; of a split with more, some from all over it.
      preparation: changes the fields of a batch.

    Returns:
      Pairs of a batch with at least one window, and weights `[batch]`, 0 for padding.
    """
    windows = windows_in(manifest, split)
    for fields, present in open_split(
        job, manifest, split, eval_steps(min(most, windows), batch), batch_size=batch, fields=names,
        shuffle=most if windows > most else 0, lanes=PLACES, remainder="pad", preparation=preparation,
    ):  # fmt: skip
        if tf.reduce_any(present > 0):
            yield fields, present


def training_windows(
    job: TrainingJob, manifest: Manifest, objective: Objective, count: int, batch: int = BATCH
) -> Iterator[Fields]:
    """The fields of about so many windows of training, a batch at a time, as the objective takes them."""
    for fields, present in read_windows(job, manifest, "train", objective.fields(), batch, count, objective.once):
        yield without_padding(fields, present)


def without_padding(fields: Fields, present: tf.Tensor) -> Fields:
    """The windows of a batch that are no padding."""
    return some_of(fields, tf.where(present > 0)[:, 0])


def some_of(fields: Fields, numbers: tf.Tensor) -> Fields:
    """The windows of a batch with these numbers."""
    return {name: tf.gather(values, numbers) for name, values in fields.items()}


@dataclass(frozen=True)
class Keys:
    """The fields that say where a window is from.

    Attributes:
      asset: the record's asset; None where records name none.
      times: of the first and the last row of a record; none where they are not known.
      row: names each row, where windows are of one and are to be named.
    """

    asset: Field | None
    times: tuple[Field, ...]
    row: Field | None = None

    @classmethod
    def of(cls, manifest: Manifest, rows: bool = False) -> "Keys":
        """Those of a dataset: the first name that a record has, and its times; with `rows`, what names a row too."""
        of_rows = [
            field
            for field in manifest.fields
            if (field.role, field.per, field.dtype, field.shape) == ("key", "row", "bytes", ())
        ]
        row = of_rows[0] if rows and of_rows and manifest.windows.length == 1 else None
        keys = [field for field in manifest.fields if field.role == "key" and field.per == "record"]
        names = [field for field in keys if field.dtype == "bytes" and field.shape == ()]
        times = tuple(field for field in keys if field.time is not None)
        return cls(names[0] if names else None, times if len(times) == 2 else (), row)

    @property
    def names(self) -> list[str]:
        """Of the fields to read."""
        fields = [*([self.asset] if self.asset else []), *self.times, *([PLACE] if self.times else [])]
        fields += [self.row] if self.row else []
        return [field.name for field in fields]

    def assets(self, fields: Fields) -> np.ndarray:
        """The asset of each window of a batch, strings `[batch]`; empty ones where there is none."""
        if self.asset is None:
            return np.full(len(next(iter(fields.values()))), "", object)
        return np.array([name.decode(errors="replace") for name in fields[self.asset.name].numpy()], object)

    def describe(self, fields: Fields, at: int) -> str:
        """Where a window of a batch is from: `pump-03, 2024-03-01 12:00:05`."""
        parts = [self.assets(fields)[at]] if self.asset else []
        if self.row:
            parts.append(fields[self.row.name].numpy()[at].decode(errors="replace"))
        if self.times:
            first, last = (int(fields[field.name][at]) for field in self.times)
            row, rows = (int(number) for number in fields[PLACE.name][at])
            # Between the first and the last row they are as far apart as on a regular grid, which most are on.
            parts.append(time_text(first + (last - first) * row // max(1, rows - 1), self.times[0].time))
        return ", ".join(parts)
