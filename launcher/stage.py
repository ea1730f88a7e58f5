"""One step of a job, as the plan describes it and a backend runs it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes long to load, and the help needs the names below
    import beamfeed.contract.config.job

PREPROCESS, TRAIN, FLOOR = "preprocess", "train", "floor"


def launch_key(name: str) -> str:
    """The key of `launch` that says how a stage of this name runs: the floor is trained as the model is."""
    return PREPROCESS if name == PREPROCESS else TRAIN


@dataclass(frozen=True)
class Stage:
    """A stage of a plan.

    Attributes:
      name: preprocess, floor or train.
      command: of each of its processes.
      backend: the name of what runs it.
      workers: processes that work together.
      logs: the folder for the output of all workers but the first.
      complete: whether there is nothing left to do.
      reason: why there is, or is not, something to do.
      restarts: how often it may be started again after a signal or a lost worker ended it.
      starts_anew: whether it does not just go on from its last checkpoint.
      once: the name of that start, where it has one.
      output: the folder that it writes to: the dataset's, or that of the training run.
      fingerprint: of that dataset.
      checkpoints: the folder of its checkpoints, if it writes any: a new one is progress.
      section: what the job file says of the backend.
      job: of which it is a stage, for a backend that sends the job file along.
      grace: seconds that its processes have to end by themselves when the launcher is asked to stop.
    """

    name: str
    command: tuple[str, ...]
    backend: str
    workers: int
    logs: str
    complete: bool
    reason: str
    restarts: int = 0
    starts_anew: bool = False
    once: str = ""
    output: str = ""
    fingerprint: str = ""
    checkpoints: str = ""
    section: Any = None
    job: "beamfeed.contract.config.job.Job | None" = None
    grace: float = 3.0
