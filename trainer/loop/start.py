"""How a training run is started: what its command line says beside the job."""

from dataclasses import dataclass, field
from typing import Any

from beamfeed.contract.progress import Progress


@dataclass(frozen=True)
class Start:
    """How a training run is started.

    Attributes:
      restart: whether what the working folder holds is removed first.
      from_step: go back to the checkpoint of this step.
      once: names this start; see `beamfeed.trainer.loop.workdir.was_done`.
      profile: the first and the last step that TensorFlow's profiler records.
      progress: where the chief reports how far it is.
      kept: what is to live until the process ends is put into it; see `beamfeed.trainer.feed.distributed.Feed`.
    """

    restart: bool = False
    from_step: int | None = None
    once: str = ""
    profile: tuple[int, int] | None = None
    kept: list[Any] = field(default_factory=list, repr=False)
    progress: Progress = field(default_factory=Progress)
