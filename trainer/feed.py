"""The distributed batches of each split, as a job's feed section asks for them."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from contract.errors import JobFailed, UserError
from contract.job import Job, SplitName
from contract.manifest import Manifest
from trainer.dataset import load
from trainer.scratch import scratch_folder
from trainer.shares import eval_steps, windows_in
from trainer.strategy import Cluster


class Feed:
    """The distributed batches of each split. Iterators are kept, so that a cache serves all epochs."""

    def __init__(self, job: Job, manifest: Manifest, cluster: Cluster, cache_folder: str | None):
        self._job, self._manifest, self._cluster = job, manifest, cluster
        self._cache_folder = cache_folder
        self._padded: dict[SplitName, Iterator[Any]] = {}

    def train(self, epoch: int) -> Iterator[Any]:
        """Shuffled training batches without end, from this epoch on."""
        feed = self._job.train.feed
        return self._open("train", shuffle=feed.shuffle, seed=feed.seed, deterministic=feed.deterministic, epoch=epoch)

    def evaluate(self, eval_step: Any, split: SplitName) -> float | None:
        """The mean loss over all windows of a split, each counted once; None if it is empty."""
        windows = windows_in(self._manifest, split)
        if windows == 0:
            return None
        if split not in self._padded:
            self._padded[split] = self._open(split, remainder="pad")
        total = tf.zeros([2], tf.float64)
        for _ in range(eval_steps(windows, self._job.train.feed.batch)):
            total = eval_step(next(self._padded[split]), total)
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
            cache_folder=self._cache_folder,
            skip_corrupt=feed.skip_corrupt,
            **options,
        )
        return iter(self._cluster.strategy.distribute_datasets_from_function(lambda _: dataset))


@contextmanager
def open_feed(job: Job, manifest: Manifest, cluster: Cluster) -> Iterator[Feed]:
    """The feed of a job, with a folder for its cache if that is in a file."""
    if job.train.feed.cache != "file":
        yield Feed(job, manifest, cluster, None)
        return
    with scratch_folder() as folder:
        yield Feed(job, manifest, cluster, folder)
