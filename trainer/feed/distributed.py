"""The distributed batches of each split, as a job's feed section asks for them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.cluster.strategy import Cluster
from beamfeed.trainer.decode.preparation import Preparation
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.options import FeedOptions, Tuning
from beamfeed.trainer.feed.sharding import Distribution


class Feed:
    """The distributed batches of each split. Iterators without end are kept for all epochs.

    Each one is put into `iterators`, too. While tf.data tunes a pipeline, taking that apart waits for the tuning, which
    was seen to take two minutes; who ends the process without taking anything apart need not wait.
    """

    def __init__(
        self,
        job: TrainingJob,
        manifest: Manifest,
        cluster: Cluster,
        fields: Sequence[str],
        preparation: Preparation | None = None,
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

    def padded(self, split: SplitName) -> Iterator[Any]:
        """The windows of a split, each once, again and again; the last batch of each time is filled up."""
        if split not in self._padded:
            self._padded[split] = self._open(split, self._options, remainder="pad")
        return self._padded[split]

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
