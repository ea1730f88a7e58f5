"""The distributed batches of each split, as a job's feed section asks for them."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from beamfeed.contract.config.job import Job, SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.feed.dataset import load
from beamfeed.trainer.feed.sharding import eval_steps, windows_in


class Feed:
    """The distributed batches of each split. Iterators without end are kept for all epochs."""

    def __init__(self, job: Job, manifest: Manifest, cluster: Cluster):
        self._job, self._manifest, self._cluster = job, manifest, cluster
        self._padded: dict[SplitName, Iterator[Any]] = {}

    def train(self, epoch: int, step: int = 0) -> Iterator[Any]:
        """Shuffled training batches without end, from this step of this epoch on."""
        feed = self._job.train.feed
        return self._open("train", shuffle=feed.shuffle, seed=feed.seed, lanes=feed.lanes, epoch=epoch, step=step)

    def evaluate(self, run: Any, split: SplitName, at_a_time: int, alive: Callable[[], None]) -> float | None:
        """The mean loss over all windows of a split, each counted once; None if it is empty.

        Args:
          run: as `beamfeed.trainer.loop.steps.make_eval_steps` returns it.
          at_a_time: steps in a call.
          alive: is called after each.
        """
        windows = windows_in(self._manifest, split)
        if windows == 0:
            return None
        if split not in self._padded:
            self._padded[split] = self._open(split, remainder="pad")
        total, left = tf.zeros([2], tf.float64), eval_steps(windows, self._job.train.feed.batch)
        while left:
            steps = min(left, at_a_time)
            total = run(self._padded[split], tf.constant(steps), total)
            total.numpy()  # waits
            left -= steps
            alive()
        loss, count = (float(number) for number in total.numpy())
        if (count != windows and not self._job.train.feed.skip_corrupt) or count == 0:
            raise UserError(
                f"{self._job.output.path}: the split {split} held {count:.0f} windows, the manifest says {windows}; "
                "prepare the data set again"
            )
        if not math.isfinite(loss):
            raise JobFailed(f"the loss on the split {split} is {loss}; look for extreme values in the data")
        return loss / count

    def _open(self, split: SplitName, **options: Any) -> Iterator[Any]:
        feed, place = self._job.train.feed, self._cluster.place
        dataset = load(
            self._manifest,
            self._job.output.path,
            split,
            batch=feed.batch,
            # Without end: the loop counts the steps, and the workers need not
            # ask each other at every step whether there is another one.
            epochs=None,
            worker=place.worker,
            workers=place.workers,
            replicas=self._cluster.replicas,
            cache=feed.cache,
            skip_corrupt=feed.skip_corrupt,
            **options,
        )
        return iter(self._cluster.strategy.distribute_datasets_from_function(lambda _: dataset))
