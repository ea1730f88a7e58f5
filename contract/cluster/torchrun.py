"""The variables of torchrun, and of Kubeflow Trainer, which speaks torchrun's language.

They tell where the first worker is and not where the others are: `beamfeed.trainer.cluster.rendezvous` finds that out.
"""

from collections.abc import Mapping

from beamfeed.contract.cluster.variables import LARGEST_PORT, is_address, number_of, require, value_of
from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.errors import UserError


def from_torchrun(environ: Mapping[str, str]) -> WorkerInfo | None:
    """`PET_*` are torchrun's arguments, given to each node; RANK and its like are what it gives its children.

    PET_NPROC_PER_NODE is not read: one process serves all devices of its node.
    """
    is_child = bool(value_of(environ, "LOCAL_RANK") and value_of(environ, "RANK"))
    if not is_child and (value_of(environ, "PET_NNODES") or value_of(environ, "PET_NODE_RANK")):
        source, size, rank, prefix = "Kubeflow Trainer", "PET_NNODES", "PET_NODE_RANK", "PET_"
    elif value_of(environ, "WORLD_SIZE") or value_of(environ, "RANK"):
        source, size, rank, prefix = "torchrun", "WORLD_SIZE", "RANK", ""
    else:
        return None
    _, count = require(environ, size)
    low, _, high = count.partition(":")
    if high and high != low:
        raise UserError(f"{size}: is {count!r}, a number of workers that changes; it must be one number from 1")
    workers = number_of(size, low, 1)
    if workers == 1 and not value_of(environ, rank):
        return WorkerInfo()
    worker = number_of(*require(environ, rank), 0, workers - 1)
    if workers == 1:
        return WorkerInfo()
    host_name, host = require(environ, f"{prefix}MASTER_ADDR", "MASTER_ADDR")
    port_name, port_text = require(environ, f"{prefix}MASTER_PORT", "MASTER_PORT")
    port = number_of(port_name, port_text, 1, LARGEST_PORT)
    if is_child and value_of(environ, "TORCHELASTIC_USE_AGENT_STORE").lower() == "true":
        port += 1 if port < LARGEST_PORT else -1  # torchrun itself listens on MASTER_PORT
    host = f"[{host}]" if ":" in host and not host.startswith("[") else host
    if not is_address(f"{host}:{port}"):
        raise UserError(f"{host_name}: is {host!r}, it must be a host name or an IP address")
    return WorkerInfo(worker, workers, (), source, f"{host}:{port}")
