"""The whole job file: its sections, one strict model each. `beamfeed.contract.config.load` reads it from YAML.

Every model forbids unknown keys, is frozen, and says in each field's description
what `beamfeed schema` tells an editor.
"""

from pydantic import Field, model_validator

from beamfeed.contract.config.launch import Launch
from beamfeed.contract.config.output import Limits, Output
from beamfeed.contract.config.prepare import Prepare, Windows
from beamfeed.contract.config.section import Section
from beamfeed.contract.config.source import TimeseriesSource
from beamfeed.contract.config.split import Split
from beamfeed.contract.config.train import Train


class Job(Section):
    """A whole job: from raw files to a trained model."""

    name: str = Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$", description="Names the job in logs and on runners.")
    source: TimeseriesSource  # a union, discriminated by kind, from the second kind on
    prepare: Prepare = Prepare()
    windows: Windows
    split: Split = Split()
    output: Output
    limits: Limits = Limits()
    train: Train | None = Field(default=None, description="May be left out where the job is only preprocessed.")
    launch: Launch = Launch()

    @model_validator(mode="after")
    def _paths_differ(self) -> "Job":
        if self.train is not None and self.output.path.rstrip("/") == self.train.workdir.rstrip("/"):
            raise ValueError(f"output.path and train.workdir are the same folder: {self.output.path}")
        return self


class TrainingJob(Job):
    """A job with a section `train`: what the trainer needs."""

    train: Train
