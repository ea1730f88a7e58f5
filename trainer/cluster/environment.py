"""What the environment variables say about this process among the workers -> a `WorkerInfo`.

Pure: no sockets, no TensorFlow. Read in this order, and the first that names a cluster counts:

1. `TF_CONFIG` (`tf_config.py`).
2. `PET_*` of Kubeflow Trainer, or `WORLD_SIZE` and `RANK` of torchrun (`torchrun.py`).
3. `SLURM_*` (`slurm.py`).

With none of them this process is alone. docs/training.md shows each of them.
"""

from collections.abc import Mapping, MutableMapping

from beamfeed.contract.errors import UserError
from beamfeed.trainer.cluster.slurm import from_slurm
from beamfeed.trainer.cluster.tf_config import from_tf_config
from beamfeed.trainer.cluster.torchrun import from_torchrun
from beamfeed.trainer.cluster.variables import value_of
from beamfeed.trainer.cluster.worker_info import WorkerInfo


def set_reads(environ: MutableMapping[str, str]) -> None:
    """Says how TensorFlow reads gs://, unless the user did; before it is imported.

    Left to itself it fetches 64 MB for every block of records that is asked for,
    and keeps none. Measured in docs/gs.md.
    """
    environ.setdefault("GCS_READ_CACHE_BLOCK_SIZE_MB", "1")
    environ.setdefault("GCS_READ_CACHE_MAX_SIZE_MB", "256")


def read_worker_info(environ: Mapping[str, str]) -> WorkerInfo:
    """Finds this process among the workers.

    Raises:
      UserError: if the variables are wrong, or some of a set are missing.
    """
    for read in (from_tf_config, from_torchrun, from_slurm):
        worker = read(environ)
        if worker is not None:
            return worker if worker.count > 1 else WorkerInfo()
    for name, partners in (("MASTER_ADDR", "WORLD_SIZE and RANK"), ("PET_MASTER_ADDR", "PET_NNODES and PET_NODE_RANK")):
        if value := value_of(environ, name):
            # Left alone, every one of the processes would train by itself and call itself the chief.
            raise UserError(f"{name}: is {value!r}, so {partners} must be set too (or unset it, to train alone)")
    return WorkerInfo()
