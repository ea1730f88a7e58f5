"""The section `launch.train.vertex` of the job file."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from beamfeed.contract.config.section import Duration, InWords, Section
from beamfeed.launcher.backends.google import Account, LabelKey, LabelValue, Project, Region
from beamfeed.launcher.backends.remote import VariableName

Network = Annotated[
    str,
    Field(pattern=r"^projects/[0-9]+/global/networks/[a-z]([a-z0-9-]{0,61}[a-z0-9])?$"),
    InWords("projects/NUMBER/global/networks/NAME, with the number (not the id) of the project"),
]
SERVICE_VARIABLES = ("TF_CONFIG", "CLUSTER_SPEC")  # by the service; by these the workers find each other


class VertexSection(Section):
    """Where and on what a CustomJob of Vertex AI trains. What is left out, the service chooses."""

    example: ClassVar[str] = (
        "{project: my-project, region: europe-west1, image: registry/beamfeed:1, machine_type: n1-standard-8}"
    )

    project: Project = Field(description="The id (not the number) of the project.")
    region: Region = Field(description="Where the workers run, such as europe-west1.")
    image: Annotated[str, Field(pattern=r"^\S+$")] = Field(
        description="The container image, with this version of Beamfeed in it."
    )
    machine_type: str = Field(min_length=1, description="Of each worker, such as g2-standard-8.")
    gpus: Annotated[int, Field(ge=1, le=16)] | None = Field(default=None, description="GPUs of each worker.")
    gpu_type: str | None = Field(default=None, description="Of which type, such as NVIDIA_L4.")
    disk_gb: Annotated[int, Field(ge=100, le=64_000)] | None = Field(default=None, description="Disk of each worker.")
    spot: bool = Field(default=False, description="On machines that can be taken away.")
    timeout: Duration | None = Field(default=None, description="How long the job may run; a week if left out.")
    service_account: Account | None = Field(
        default=None, description="E-mail address of the account that the workers act as."
    )
    network: Network | None = Field(
        default=None, description="The VPC network, as projects/NUMBER/global/networks/NAME."
    )
    env: dict[VariableName, str] = Field(default={}, description="Variables of the environment of each worker.")
    labels: dict[LabelKey, LabelValue] = Field(default={}, description="Of the job.")
    python: str = Field(default="python", min_length=1, description="The Python of the image.")

    @model_validator(mode="after")
    def _fits(self) -> "VertexSection":
        if (self.gpus is None) != (self.gpu_type is None):
            raise ValueError("gpus and gpu_type: give both, or none")
        if taken := set(SERVICE_VARIABLES) & self.env.keys():
            raise ValueError(f"env: {min(taken)} is set by the service")
        return self
