"""The tracking server of a team: what must be there before a training run can write to it."""

import importlib.util
from collections.abc import Mapping, Sequence

from beamfeed.contract.errors import UserError

ADDRESS = "MLFLOW_TRACKING_URI"
MLFLOW = "mlflow"  # of train.writers, and the name of the package


def address(environ: Mapping[str, str]) -> str:
    """The address of the MLflow server.

    Raises:
      UserError: if there is none.
    """
    if not environ.get(ADDRESS):
        raise UserError(
            f"train.writers: {MLFLOW} needs the address of a tracking server in the variable {ADDRESS}, "
            f"such as {ADDRESS}=http://localhost:5000"
        )
    return environ[ADDRESS]


def check_writers(writers: Sequence[str], environ: Mapping[str, str]) -> None:
    """What a chief needs in order to write there.

    Raises:
      UserError: if the address or the package is missing.
    """
    if MLFLOW not in writers:
        return
    address(environ)
    if importlib.util.find_spec(MLFLOW) is None:
        raise UserError(f"train.writers: {MLFLOW} needs the package mlflow-skinny: pip install 'beamfeed[mlflow]'")
