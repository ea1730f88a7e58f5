"""What the environment variables say about this process among the workers -> a `WorkerInfo`.

Pure: no sockets, no TensorFlow. Read in this order, and the first that names a cluster counts:

1. `TF_CONFIG` (`tf_config.py`).
2. `PET_*` of Kubeflow Trainer, or `WORLD_SIZE` and `RANK` of torchrun (`torchrun.py`).
3. `SLURM_*` (`slurm.py`).

With none of them this process is alone. docs/cluster.md shows each of them.
"""

from collections.abc import Mapping

from beamfeed.contract.cluster.slurm import from_slurm
from beamfeed.contract.cluster.tf_config import from_tf_config
from beamfeed.contract.cluster.torchrun import from_torchrun
from beamfeed.contract.cluster.variables import value_of
from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import UserError


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
