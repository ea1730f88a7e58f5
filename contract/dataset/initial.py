"""The model whose weights a training run begins with: where it is."""

import os

from beamfeed.contract import storage
from beamfeed.contract.config.train import Init, Train
from beamfeed.contract.dataset.checkpoints import find_checkpoints
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.errors import UserError

KEY = "train.init"


def initial_model(init: Init) -> str:
    """The path of the .keras file."""
    return init.from_ if init.from_.endswith(".keras") else RunLayout(init.from_).model


def _real(path: str) -> str:
    return path.rstrip("/") if storage.is_remote(path) else os.path.realpath(path)


def check_init(train: Train, anew: bool = False) -> None:
    """Looks for the model, where a training run begins.

    Args:
      train: the section of the job.
      anew: whether the checkpoints that are there will not count.

    Raises:
      UserError: if it is not there, or is the run's own.
    """
    if train.init is None or (not anew and find_checkpoints(RunLayout(train.workdir).checkpoints)):
        return
    path = initial_model(train.init)
    if _real(path).startswith(f"{_real(train.workdir)}/"):
        raise UserError(f"{KEY}.from: {train.init.from_} is of the same train.workdir; choose another train.workdir")
    if not storage.exists(path):
        raise UserError(
            f"{KEY}.from: {train.init.from_} is neither the train.workdir of a finished run nor a .keras file: "
            f"there is no {path}"
        )
