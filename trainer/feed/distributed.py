"""The distributed batches of each split, as a job's feed section asks for them."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.batches import eval_steps, windows_in
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import FeedOptions, Tuning
from beamfeed.trainer.feed.preparation import Preparation
from beamfeed.trainer.feed.sharding import Distribution


class Evaluation(Protocol):
    """Steps of evaluation, see `beamfeed.trainer.loop.evaluation.EvalSteps`."""

    def begin(self) -> Any:
        """The sums over nothing."""

    def run(self, batches: Any, steps: int, sums: Any) -> Any:
        """Adds so many batches to the sums; returns when that is done."""

    def end(self, sums: Any) -> dict[str, np.ndarray]:
        """The sums of all workers, `loss` and `windows` among them."""


class Prepared(Preparation, Protocol):
    """What changes the fields of a batch, and how it does so in training."""

    @property
    def training(self) -> Preparation:
        """The one for training batches."""


class Feed:
    """The distributed batches of each split. Iterators without end are kept for all epochs.

    Args:
      job: the job; `output.path` is where the dataset is.
      manifest: the dataset's manifest.
      cluster: whose worker reads.
      fields: the names of those that are read.
      preparation: changes the fields of a batch; in `training` it may do so by chance.
      iterators: each one is put into it too. While tf.data tunes a pipeline, taking that apart waits for the tuning,
        which was seen to take two minutes; who ends the process without taking anything apart need not wait.
    """

    def __init__(
        self,
        job: TrainingJob,
        manifest: Manifest,
        cluster: Cluster,
        fields: Sequence[str],
        preparation: Prepared | None = None,
        iterators: list[Any] | None = None,
    ):
        self._preparation = preparation
        self._job, self._manifest, self._cluster, self._fields = job, manifest, cluster, fields
        self._iterators = [] if iterators is None else iterators
        self._padded: dict[SplitName, Iterator[Any]] = {}

    def train(self, epoch: int, step: int, lanes: int) -> Iterator[Any]:
        """Shuffled training batches without end, from this step of this epoch on; see `lanes_of`."""
        feed = self._job.train.feed
        options = replace(
            self._options,
            preparation=self._preparation and self._preparation.training,
            lanes=lanes,
            start=(epoch, step),
        )
        return self._open("train", options, shuffle=feed.shuffle, seed=feed.seed)

    def evaluate(
        self,
        evaluation: Evaluation,
        split: SplitName,
        at_a_time: int,
        alive: Callable[[], None],
        wait: Callable[[], None],
    ) -> dict[str, np.ndarray] | None:
        """The sums over all windows of a split, each counted once, as NumPy arrays; None if it is empty.

        Args:
          evaluation: its steps.
          split: train, eval or test.
          at_a_time: steps in a call.
          alive: is called after each.
          wait: is called before the other workers are waited for.
        """
        windows = windows_in(self._manifest, split)
        if windows == 0:
            return None
        if split not in self._padded:
            self._padded[split] = self._open(split, self._options, remainder="pad")
        totals, left = evaluation.begin(), eval_steps(windows, self._job.train.feed.batch_size)
        while left:
            steps = min(left, at_a_time)
            totals = evaluation.run(self._padded[split], steps, totals)
            left -= steps
            alive()
        wait()
        sums = evaluation.end(totals)
        loss, count = float(sums["loss"]), float(sums["windows"])
        if (count != windows and not self._job.train.feed.skip_corrupt) or count == 0:
            raise UserError(
                f"{self._job.output.path}: the split {split} held {count:.0f} windows, the manifest says {windows}; "
                f"{self._manifest.remedy}"
            )
        if not math.isfinite(loss):
            raise JobFailed(f"the loss on the split {split} is {loss}; look for extreme values in the data")
        return sums

    @property
    def _options(self) -> FeedOptions:
        feed = self._job.train.feed
        return FeedOptions(
            manifest=self._manifest,
            skip_corrupt=feed.skip_corrupt,
            preparation=self._preparation,
            tuning=Tuning(cache=feed.cache),
        )

    def _open(self, split: SplitName, options: FeedOptions, **order: Any) -> Iterator[Any]:
        feed, worker = self._job.train.feed, self._cluster.worker
        dataset = load_dataset(
            self._job.output.path,
            split,
            batch_size=feed.batch_size,
            fields=self._fields,
            # Without end: the loop counts the steps, and the workers need not
            # ask each other at every step whether there is another one.
            epochs=None,
            distribution=Distribution(worker.index, worker.count, self._cluster.replicas),
            options=options,
            **order,
        )
        batches = iter(self._cluster.strategy.distribute_datasets_from_function(lambda _: dataset))
        self._iterators.append(batches)
        return batches
