"""The job file as the launcher reads it: with the sections of all backends, checked strictly."""

import os
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from pydantic import ConfigDict, Field, create_model, model_validator

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.launch import Launch, PreprocessLaunch, StageLaunch, TrainLaunch
from beamfeed.contract.config.load import load_as
from beamfeed.contract.config.sources import Source
from beamfeed.contract.config.sources.none import NoSource
from beamfeed.launcher.backends import backends
from beamfeed.launcher.stage import PREPROCESS, TRAIN


def load_job(path: str | os.PathLike[str], overrides: Sequence[str] = (), *, sourced: bool = True) -> Job:
    """Reads a job file and applies `key=value` overrides.

    Args:
      path: the job file, local or gs://
      overrides: such as `windows.stride=4`; the value is YAML.
      sourced: whether it must have a source; a job that only trains needs none.

    Raises:
      UserError: with one line per mistake.

    Example:
      >>> job = beamfeed.load_job("job.yaml", ["windows.stride=2"])
      >>> job.windows
      Windows(length=8, stride=2)
    """
    return load_as(job_model(sourced), os.fspath(path), overrides)


@cache
def job_model(sourced: bool = True) -> type[Job]:
    """The model of the whole job file; `beamfeed schema` prints it. See `load_job`."""
    launch = create_model(
        "Launch",
        __base__=Launch,
        __doc__=Launch.__doc__,
        preprocess=_stage_model(PREPROCESS, PreprocessLaunch),
        train=_stage_model(TRAIN, TrainLaunch),
    )
    fields: dict[str, Any] = {"launch": (launch, launch())}
    if not sourced:
        fields["source"] = (Source, Field(default_factory=NoSource))
    return create_model("Job", __base__=Job, __doc__=Job.__doc__, **fields)


class _Strict(StageLaunch):
    """No keys but the known ones, and the section of the backend that is chosen."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="after")
    def _backend_is_described(self) -> "_Strict":
        section = backends()[self.backend].section
        required = [name for name, field in section.model_fields.items() if field.is_required()] if section else []
        if required and self.section(self.backend) is None:
            raise ValueError(f"backend: {self.backend} needs a section {self.backend!r}: {', '.join(required)}")
        return self


def _stage_model(stage: str, base: type[StageLaunch]) -> tuple[Any, Any]:
    """The model of a stage's section with its backends, and its default."""
    able = {name: backend for name, backend in backends().items() if stage in backend.stages}
    fields: dict[str, Any] = {
        name: (backend.section | None, Field(default=None, description=f"Needed by backend: {name}."))
        for name, backend in able.items()
        if backend.section
    }
    names: Any = Literal[tuple(able)]
    model = create_model(
        base.__name__,
        __base__=(base, _Strict),  # the last one decides on unknown keys
        __doc__=base.__doc__,
        backend=(names, Field(default="local", description="What runs the stage.")),
        **fields,
    )
    return model, model()
