"""The section `launch`: where each stage runs.

What a backend wants to know of its own stands in a section of its name, such as
`launch.preprocess.dataflow`. The launcher knows the backends and checks these
sections; a stage that is started by hand passes them over.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from beamfeed.contract.config.section import FilePath, Section
from beamfeed.contract.errors import near_miss


class StageLaunch(Section):
    """Where a stage runs."""

    example: ClassVar[str] = "{backend: local}"

    model_config = ConfigDict(extra="allow")

    backend: str = Field(default="local", description="What runs the stage.")

    @model_validator(mode="after")
    def _only_sections_beside_the_keys(self) -> "StageLaunch":
        for key, value in (self.model_extra or {}).items():
            if value is not None and not isinstance(value, dict | Section):
                allowed = list(type(self).model_fields)
                hint, keys = near_miss(key, allowed), ", ".join(allowed)
                raise ValueError(f"unknown key {key!r}{hint} (allowed: {keys}, the section of a backend)")
        return self

    def section(self, backend: str) -> Any:
        """The section of a backend as the launcher has checked it; None where there is none."""
        return (self.model_extra or {}).get(backend, getattr(self, backend, None))


class PreprocessLaunch(StageLaunch):
    """Where preprocessing runs."""

    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        default="auto",
        description="Threads of a local run; processes where there are thousands of small files; auto: one a core.",
    )
    packages: list[FilePath] = Field(
        default=[],
        description="Code of your own that the workers need: folders with an __init__.py, modules (.py), or wheels, "
        "which may be on gs://.",
    )


class TrainLaunch(StageLaunch):
    """Where training runs."""

    workers: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=1,
        description="Processes that train one model together: on this machine, whose GPUs are shared out among "
        "them, or each on a node of a cluster. One process uses all GPUs.",
    )
    restarts: Annotated[int, Field(ge=0)] = Field(
        default=3,
        description="How often a training run that lost a worker is restarted from its last checkpoint without "
        "reaching the next.",
    )


class Launch(Section):
    """Where the stages run."""

    example: ClassVar[str] = "{train: {workers: 4}}"

    preprocess: PreprocessLaunch = PreprocessLaunch()
    train: TrainLaunch = TrainLaunch()
