"""Who reads what: the arithmetic of batches, steps and shares. Pure; no TensorFlow.

How a batch is distributed is decided here and nowhere else. There is one stream
of global batches, and each worker takes its own consecutive rows of each: of a
batch of 10, the second of three workers takes rows 3, 4 and 5. So the global
batches, and with them the training run, do not depend on the number of workers, and
no worker can have more steps than another. A worker with several replicas (GPUs)
cuts its rows among them in the same way. Which windows fill these rows, so that a
worker need not read the others, is in beamfeed.trainer.feed.order.
"""

import itertools
from dataclasses import dataclass

from beamfeed.contract.errors import UserError

LANES = 16  # of each global batch, unless there are more workers; see beamfeed.trainer.feed.order


@dataclass(frozen=True)
class Distribution:
    """One worker among those that share each global batch.

    Attributes:
      worker: this worker's index, from 0.
      workers: how many workers there are.
      replicas: devices of each worker.

    Raises:
      ValueError: if there is no such worker.
    """

    worker: int = 0
    workers: int = 1
    replicas: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.worker < self.workers:
            raise ValueError(f"worker is {self.worker}, it must be from 0 to {self.workers - 1}")
        if self.replicas < 1:
            raise ValueError(f"replicas is {self.replicas}, it must be at least 1")

    @property
    def devices(self) -> int:
        """Of all workers."""
        return self.workers * self.replicas


@dataclass(frozen=True)
class Share:
    """One worker's part of every global batch.

    Attributes:
      batch_size: windows in a global batch.
      of: the worker, among those that share it.
    """

    batch_size: int
    of: Distribution = Distribution()

    def __post_init__(self) -> None:
        if self.batch_size < self.of.devices:
            raise UserError(
                f"the batch size (train.feed.batch_size) is {self.batch_size}, it must be at least the number of "
                f"devices, {self.of.devices} ({self.of.workers} workers with {self.of.replicas} each)"
            )

    @property
    def first(self) -> int:
        """The first row of a global batch that is this worker's."""
        return self.of.worker * self.batch_size // self.of.workers

    @property
    def end(self) -> int:
        """The row after this worker's last one."""
        return (self.of.worker + 1) * self.batch_size // self.of.workers

    @property
    def size(self) -> int:
        """Rows that this worker takes of each global batch."""
        return self.end - self.first

    @property
    def replica_sizes(self) -> list[int]:
        """Rows of each of this worker's replicas, in order; they add up to `size`."""
        first = self.of.worker * self.of.replicas
        edges = [(first + i) * self.batch_size // self.of.devices for i in range(self.of.replicas + 1)]
        return [end - start for start, end in itertools.pairwise(edges)]


def lanes_of(lanes: int | None, workers: int) -> int:
    """The lanes of a training run that begins with so many workers: where they are many, one for each.

    With 16 or fewer workers there are 16 lanes, so that the order of windows is the same for all these numbers; those
    that do not divide 16 read some lanes twice.
    """
    return lanes or max(LANES, workers)
