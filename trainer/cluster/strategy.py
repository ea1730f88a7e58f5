"""The workers and their devices -> a `tf.distribute` strategy, and what the workers do together."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from beamfeed.contract.cluster.tf_config import tf_config
from beamfeed.contract.cluster.variables import number_of, value_of
from beamfeed.contract.cluster.worker_info import GPUS, SHARE, WorkerInfo
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.trainer.cluster.watchdog import Watchdog

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

TELL_SECONDS = 0.5  # between signs of life

Device = TypeVar("Device")


def take_share() -> None:
    """Lets TensorFlow see this process's part of the GPUs. To be called before it uses any.

    Raises:
      UserError: if there are GPUs, and fewer of them than processes.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus and (share := os.environ.get(SHARE)):
        index, count = map(int, share.split("/"))
        tf.config.set_visible_devices(share_of(gpus, index, count), "GPU")


def share_of(devices: Sequence[Device], index: int, count: int) -> Sequence[Device]:
    """The devices of one of so many processes: as many for each, since a step takes as long as its slowest device.

    Raises:
      UserError: if there are fewer devices than processes.
    """
    size = len(devices) // count
    if not size:
        have = f"{len(devices)} GPU" + "s" * (len(devices) > 1)
        raise UserError(
            f"launch.train.workers, or --parallel of a sweep: is {count}, but this machine has {have}; one process "
            "uses all of them"
        )
    return devices[index * size : (index + 1) * size]


@dataclass(frozen=True)
class Cluster:
    """This process among the workers, and the strategy that joins them.

    Attributes:
      collectives: how several workers add up their gradients: auto, ring or nccl.
    """

    strategy: "tf.distribute.Strategy"
    worker: WorkerInfo = field(default_factory=WorkerInfo)
    collectives: str = "auto"

    @property
    def replicas(self) -> int:
        """Devices of each worker."""
        return self.strategy.num_replicas_in_sync // self.worker.count

    def barrier(self) -> None:
        """Returns when every worker has come here."""
        if self.worker.count > 1:
            self._add_up([0])

    def all_are(self, done: bool) -> bool:
        """Whether every worker calls this with True."""
        return done if self.worker.count == 1 else self._add_up([int(not done)]) == [0]

    def all_same(self, value: int) -> bool:
        """Whether every worker calls this with the same value, below 2**24."""
        return not self.differing([value])

    def differing(self, values: Sequence[int]) -> list[int]:
        """The places of the values that are not the same on every worker; every worker is told the same.

        Args:
          values: below 2**24, as many as the other workers have.
        """
        if self.worker.count == 1:
            return []
        # In halves of 12 bits, so that sums of float32 are exact; a worker in the middle of others may hold the mean.
        halves = [half for value in values for half in divmod(value, 1 << 12)]
        replicas = self.strategy.num_replicas_in_sync
        sums = self._add_up(halves)
        differs = self._add_up([int(replicas * half != total) for half, total in zip(halves, sums, strict=True)])
        return [place for place in range(len(values)) if differs[2 * place] or differs[2 * place + 1]]

    def from_chief(self, values: "Sequence[np.ndarray]") -> "list[np.ndarray]":
        """The chief's arrays, float32, on every worker.

        Args:
          values: of the same shapes on all workers.
        """
        if self.worker.count == 1:
            return list(values)
        import numpy as np
        import tensorflow as tf

        shares = values if self.worker.is_chief else [np.zeros_like(value) for value in values]
        sums = self._sum(tf.concat([tf.reshape(value, [-1]) for value in shares], 0)).numpy() / self.replicas
        ends = np.cumsum([value.size for value in values])[:-1]
        return [part.reshape(value.shape) for part, value in zip(np.split(sums, ends), values, strict=True)]

    def _add_up(self, values: Sequence[int]) -> list[int]:
        import tensorflow as tf

        return [int(total) for total in self._sum(tf.constant(values, tf.float32)).numpy()]

    @cached_property
    def _sum(self) -> "Callable[[tf.Tensor], tf.Tensor]":
        import tensorflow as tf

        # Of values of many lengths, for which it is not traced again and again.
        return tf.function(
            lambda x: self.strategy.reduce("SUM", self.strategy.run(lambda: x), axis=None),
            input_signature=[tf.TensorSpec([None], tf.float32)],
            autograph=False,
        )


class Together:
    """Lets the chief do what may take long, such as writing to a storage that is slow today.

    The workers ask each other again and again whether it is done. So each of them gives signs of life, and one that is
    gone meanwhile is noticed.
    """

    def __init__(self, cluster: Cluster, watchdog: Watchdog):
        self.cluster, self.watchdog = cluster, watchdog
        self._thread = ThreadPoolExecutor(1)

    def __call__(self, activity: str, work: Callable[[], None]) -> None:
        """The chief does the work, and no worker returns before it is done. Every worker calls this.

        What the work raises is raised on the chief.
        """
        if self.cluster.worker.count == 1:
            work()
            return
        doing = [self._thread.submit(work)] if self.cluster.worker.is_chief else []
        self.watchdog.alive(activity)
        while not self.cluster.all_are(not wait(doing, TELL_SECONDS).not_done):
            self.watchdog.alive(activity)
        for future in doing:
            future.result()

    def close(self) -> None:
        """Ends its thread."""
        self._thread.shutdown()


def connect(worker: WorkerInfo, collectives: str = "auto") -> Cluster:
    """Joins the workers, and the devices of this one.

    Several workers: MultiWorkerMirroredStrategy, which waits until all have come
    and must be made before any other TensorFlow operation. Several GPUs, or
    several logical CPUs: MirroredStrategy. Else TensorFlow's default strategy.

    Args:
      worker: with the addresses of all workers; `beamfeed.trainer.cluster.rendezvous.resolve` fills them in.
      collectives: auto (TensorFlow chooses), ring (over the network, CPUs and GPUs) or nccl (GPUs only).

    Raises:
      UserError: if `collectives` cannot be had, or TensorFlow sees fewer GPUs than this worker was given.
      JobFailed: if this worker cannot listen at its address.
    """
    import tensorflow as tf

    _check_gpus(os.environ, len(tf.config.list_physical_devices("GPU")))
    if worker.count > 1:
        if collectives == "nccl" and not tf.config.list_physical_devices("GPU"):
            raise UserError("train.devices.collectives: is 'nccl', which needs a GPU in each worker; use ring or auto")
        return Cluster(_join(worker, collectives), worker, collectives)
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    if len(devices) == 1:
        return Cluster(tf.distribute.get_strategy(), worker)
    return Cluster(tf.distribute.MirroredStrategy([device.name for device in devices]), worker)


def _check_gpus(environ: Mapping[str, str], found: int) -> None:
    """Without its libraries TensorFlow sees no GPU, and would train on the CPU for days."""
    given = number_of(GPUS, text, 0) if (text := value_of(environ, GPUS)) else 0
    if found < given:
        raise UserError(
            f"gpus: is {given}, of which TensorFlow sees {found}; the image or environment needs the CUDA of "
            "requirements-gpu.lock, and the node a driver"
        )


def _join(worker: WorkerInfo, collectives: str) -> "tf.distribute.Strategy":
    import tensorflow as tf

    # TensorFlow and Keras read the variable themselves. Whatever the launcher wrote, they find workers only.
    os.environ["TF_CONFIG"] = tf_config(worker.addresses, worker.index)
    implementation = tf.distribute.experimental.CommunicationImplementation(collectives.upper())
    options = tf.distribute.experimental.CommunicationOptions(implementation=implementation)
    try:
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    except (tf.errors.UnknownError, tf.errors.InternalError) as error:
        if "grpc server" not in error.message.lower():
            raise
        own = worker.addresses[worker.index]
        raise JobFailed(f"worker {worker.index} cannot listen at {own}: the port is taken, or is not allowed") from None


def describe(cluster: Cluster) -> str:
    """`2 processes on this machine (launch.train.workers), each on the CPU`; `worker 0 of 4 (Slurm), on 2 GPUs`."""
    import tensorflow as tf

    worker = cluster.worker
    kind = "GPU" if tf.config.list_logical_devices("GPU") else "CPU"
    devices = f"on {cluster.replicas} {kind}s" if cluster.replicas > 1 else f"on the {kind}"
    if worker.count == 1:
        return devices
    exchange = "" if cluster.collectives == "auto" else f", {cluster.collectives} collectives"
    if SHARE in os.environ:
        return f"{worker.count} processes on this machine (launch.train.workers), each {devices}{exchange}"
    return f"worker {worker.index} of {worker.count} ({worker.source}), each {devices}{exchange}"
