"""What the environment says about the machines -> a `tf.distribute` strategy."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from contract.errors import UserError

if TYPE_CHECKING:
    import tensorflow as tf

VARIABLE = "TF_CONFIG"


@dataclass(frozen=True)
class Place:
    """This process among the workers.

    Attributes:
      worker: index from 0; the chief is 0.
      workers: how many there are.
    """

    worker: int = 0
    workers: int = 1

    @property
    def is_chief(self) -> bool:
        return self.worker == 0


@dataclass(frozen=True)
class Cluster:
    """This process among the workers, and the strategy that joins them."""

    strategy: "tf.distribute.Strategy"
    place: Place = Place()

    @property
    def replicas(self) -> int:
        """Devices of each worker."""
        return self.strategy.num_replicas_in_sync // self.place.workers

    def barrier(self) -> None:
        """Returns when every worker has come here."""
        if self.place.workers > 1:
            self._mean(0.0)

    def all_same(self, value: int) -> bool:
        """Whether every worker calls this with the same value, below 2**24."""
        if self.place.workers == 1:
            return True
        # The mean of squared differences from the mean is 0 on every worker or on none.
        return self._mean((value - self._mean(float(value))) ** 2) == 0

    def _mean(self, value: float) -> float:
        import tensorflow as tf

        return float(self._sum(tf.constant(value, tf.float32))) / self.strategy.num_replicas_in_sync

    @cached_property
    def _sum(self) -> "Callable[[tf.Tensor], tf.Tensor]":
        import tensorflow as tf

        return tf.function(lambda x: self.strategy.reduce("SUM", self.strategy.run(lambda: x), axis=None))


def read_place(environ: Mapping[str, str]) -> Place:
    """Reads TF_CONFIG: `{"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", "index": 0}}`.

    A `chief` is the first of the workers. Without the variable this process is alone.

    Raises:
      UserError: if the variable does not say this.
    """
    text = environ.get(VARIABLE, "").strip()
    if not text:
        return Place()
    try:
        config = json.loads(text)
    except ValueError as error:
        raise UserError(f"{VARIABLE}: is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise UserError(f"{VARIABLE}: is {type(config).__name__}, it must be a mapping with cluster and task")
    if not config.get("cluster"):
        return Place()
    cluster = config["cluster"]
    if not isinstance(cluster, dict) or set(cluster) - {"chief", "worker"}:
        raise UserError(f"{VARIABLE}: cluster must hold 'worker', and may hold 'chief', not {_names(cluster)}")
    sizes = {}
    for kind, addresses in cluster.items():
        if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
            raise UserError(f"{VARIABLE}: cluster.{kind} must be a list of host:port, not {addresses!r}")
        sizes[kind] = len(addresses)
    task = config.get("task")
    if not isinstance(task, dict) or task.get("type") not in sizes:
        raise UserError(f"{VARIABLE}: task.type must be one of {', '.join(sizes)}, task is {task!r}")
    try:
        index = int(task["index"])
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{VARIABLE}: task.index must be a number from 0, task is {task!r}") from None
    if not 0 <= index < sizes[task["type"]]:
        raise UserError(f"{VARIABLE}: task.index is {index}, cluster.{task['type']} has {sizes[task['type']]} entries")
    before = sizes.get("chief", 0) if task["type"] == "worker" else 0
    return Place(before + index, sum(sizes.values()))


def _names(value: object) -> str:
    return ", ".join(sorted(map(str, value))) if isinstance(value, dict) else repr(value)


def connect(place: Place) -> Cluster:
    """Joins the workers, and the devices of this one.

    Several workers: MultiWorkerMirroredStrategy, which waits until all have come
    and must be made before any other TensorFlow operation. Several GPUs, or
    several logical CPUs: MirroredStrategy. Else TensorFlow's default strategy.
    """
    import tensorflow as tf

    if place.workers > 1:
        return Cluster(tf.distribute.MultiWorkerMirroredStrategy(), place)
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    if len(devices) > 1:
        return Cluster(tf.distribute.MirroredStrategy([device.name for device in devices]), place)
    return Cluster(tf.distribute.get_strategy(), place)
