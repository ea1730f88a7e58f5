"""The section `launch.preprocess.dataflow` of the job file."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from beamfeed.contract.config.section import InWords, Section
from beamfeed.launcher.backends.google import Account, LabelKey, LabelValue, Project, Region
from beamfeed.launcher.backends.remote import BeamOptions

GcsPath = Annotated[
    str, Field(pattern=r"^gs://[a-z0-9][a-z0-9._-]+[a-z0-9](/.*)?$"), InWords("a gs:// path, such as gs://bucket/tmp")
]


class DataflowSection(Section):
    """Where and on what a Dataflow job runs. What is left out, the service chooses."""

    example: ClassVar[str] = (
        "{project: my-project, region: europe-west1, temp_location: gs://bucket/tmp, image: my-image}"
    )

    project: Project = Field(description="The id (not the number) of the project.")
    region: Region = Field(description="Where the workers run, such as europe-west1.")
    temp_location: GcsPath = Field(description="gs:// folder for the files of a running job.")
    staging_location: GcsPath | None = Field(default=None, description="gs:// folder for its graph; or temp_location.")
    image: str = Field(min_length=1, description="The container image of the workers, built by 'make template'.")
    worker_image: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="The smaller image, without TensorFlow, of workers that run no code of your own."
    )
    machine_type: str | None = Field(default=None, description="Of the workers, such as n2-standard-4.")
    disk_gb: Annotated[int, Field(ge=10, le=65_536)] | None = Field(default=None, description="Disk of each worker.")
    min_ram_gb: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Memory that a worker must have, as a resource hint."
    )
    workers: Annotated[int, Field(ge=1, le=4000)] | None = Field(default=None, description="Workers to begin with.")
    max_workers: Annotated[int, Field(ge=1, le=4000)] | None = Field(
        default=None, description="Autoscaling stops here."
    )
    service_account: Account | None = Field(
        default=None, description="E-mail address of the account that the workers act as."
    )
    network: str | None = Field(default=None, description="The VPC network of the workers.")
    subnetwork: str | None = Field(default=None, description="regions/REGION/subnetworks/NAME, or the full URL.")
    public_ips: bool | None = Field(default=None, description="false: workers have private addresses only.")
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Of the job.")
    options: BeamOptions

    @model_validator(mode="after")
    def _workers_fit(self) -> "DataflowSection":
        if self.workers and self.max_workers and self.workers > self.max_workers:
            raise ValueError(f"workers is {self.workers}, more than max_workers: {self.max_workers}")
        reserved = {"runner", "job_name"} & self.options.keys()  # they tell a running job from others
        if reserved:
            raise ValueError(f"options: {sorted(reserved)[0]} is set by the launcher")
        return self
