"""The devices of this process, where several processes train on one machine."""

import os
from collections.abc import Mapping, Sequence
from typing import TypeVar

from beamfeed.contract.cluster.worker_info import SHARE
from beamfeed.contract.errors import UserError

Device = TypeVar("Device")


def take_share(environ: Mapping[str, str] = os.environ) -> None:
    """Lets TensorFlow see this process's part of the GPUs. To be called before it uses any.

    Raises:
      UserError: if there are GPUs, and fewer of them than processes.
    """
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if gpus and (share := environ.get(SHARE)):
        index, count = map(int, share.split("/"))
        tf.config.set_visible_devices(share_of(gpus, index, count), "GPU")


def share_of(devices: Sequence[Device], index: int, count: int) -> Sequence[Device]:
    """The devices of one of so many processes: as many for each, since a step takes as long as its slowest device.

    Raises:
      UserError: if there are fewer devices than processes.
    """
    each = len(devices) // count
    if not each:
        have = f"{len(devices)} GPU" + "s" * (len(devices) > 1)
        raise UserError(f"launch.train.workers: is {count}, but this machine has {have}; one worker uses all of them")
    return devices[index * each : (index + 1) * each]
