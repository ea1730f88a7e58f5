"""Where a stage runs. A backend is one file with one class of this interface."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the plan asks the backends' options, so that a dry run shows them
    from beamfeed.launcher.plan import Stage


class Backend(Protocol):
    def describe(self, stage: "Stage") -> list[str]:
        """The shell commands that `run` would start, without starting them."""

    def run(self, stage: "Stage") -> int:
        """Runs the stage to its end and returns its exit code: 0 done, 1 failed, 2 the user's mistake.

        What went wrong has been told on stderr by then. Nothing of the stage is
        left running when this returns or raises.
        """


def backend_named(name: str) -> Backend:
    """The backend that a job file calls `name`."""
    if name == "local":
        from beamfeed.launcher.backends.local.backend import LocalBackend

        return LocalBackend()
    if name == "dataflow":
        from beamfeed.launcher.backends.dataflow.backend import DataflowBackend

        return DataflowBackend()
    raise ValueError(f"no backend {name!r}")  # the job file allows no other
