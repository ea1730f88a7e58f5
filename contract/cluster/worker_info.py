"""This process among the workers that train together."""

from dataclasses import dataclass

SHARE = "BEAMFEED_SHARE"  # variable: `0/2` is the first of two processes that share the GPUs of a machine
GPUS = "BEAMFEED_GPUS"  # variable: how many of them a worker was given, by what started it


@dataclass(frozen=True)
class WorkerInfo:
    """This process among the workers.

    Attributes:
      index: of this process, from 0; the chief is 0.
      count: how many workers there are.
      addresses: host:port of each worker's TensorFlow server, in order of their index.
        Empty for one worker, and until `trainer.cluster.rendezvous.resolve` has asked around.
      source: what said so: TF_CONFIG, Kubeflow Trainer, torchrun, Slurm; empty for one worker.
      master: host:port where worker 0 collects the addresses, if they have to be collected.
    """

    index: int = 0
    count: int = 1
    addresses: tuple[str, ...] = ()
    source: str = ""
    master: str | None = None

    @property
    def is_chief(self) -> bool:
        return self.index == 0
