"""The section `kubernetes` of a stage: `launch.train.kubernetes` and `launch.preprocess.kubernetes` of the job file."""

import posixpath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from beamfeed.contract.cluster.worker_info import GPUS
from beamfeed.contract.config.section import Duration, InWords, Section
from beamfeed.launcher.backends.remote import VariableName

# Of an object of Kubernetes.
Name = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$"),
    InWords("small letters, digits and -, such as fleet-data"),
]
Namespace = Annotated[
    str,
    Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"),
    InWords("at most 63 small letters, digits and -, such as team-a"),
]
Quantity = Annotated[
    str,
    Field(pattern=r"^[0-9]+(\.[0-9]+)?([kMGTPE]|[KMGTPE]i)$"),
    InWords("an amount of memory, such as 16Gi"),
]
MountPath = Annotated[str, Field(pattern=r"^/[^:]+$"), InWords("an absolute path, such as /data")]

# By these the workers find each other, and their GPUs.
RESERVED = ("TF_CONFIG", "BEAMFEED_INDEX", GPUS)
JOB_FOLDER = "/etc/beamfeed"  # where the pods find the job file


class Volume(Section):
    """What is mounted in each pod."""

    example: ClassVar[str] = "{path: /data, claim: fleet}"

    path: MountPath = Field(description="Where the pods see it.")
    claim: Name | None = Field(default=None, description="A PersistentVolumeClaim, which all nodes can mount.")
    secret: Name | None = Field(default=None, description="A Secret, as files that can only be read.")
    source: dict[str, Any] | None = Field(
        default=None, description="Any other volume as Kubernetes has it, such as {nfs: {server: files, path: /fleet}}."
    )

    @property
    def folder(self) -> str:
        """`path` in the one way of writing it."""
        return posixpath.normpath("/" + self.path.lstrip("/"))

    @model_validator(mode="after")
    def _is_one_thing(self) -> "Volume":
        keys = [name for name in ("claim", "secret", "source") if getattr(self, name) is not None]
        if len(keys) != 1:
            raise ValueError(f"{' and '.join(keys) or 'nothing beside path'}: give one of claim, secret and source")
        return self


class KubernetesSection(Section):
    """What runs the pods of a stage, one for each worker, and what they ask for."""

    example: ClassVar[str] = "{image: registry/beamfeed:1, gpus: 1}"

    image: Annotated[str, Field(pattern=r"^\S+$")] = Field(
        description="The container image, with this version of Beamfeed in it."
    )
    kind: Literal["jobset", "job", "trainjob", "tfjob"] = Field(
        default="jobset",
        description="What starts the pods: a JobSet, which starts all of them again where one is lost; a job of "
        "Kubernetes itself; a TrainJob of Kubeflow Trainer 2; a TFJob of its predecessor.",
    )
    context: str | None = Field(default=None, description="The context of kubectl; its current one if left out.")
    namespace: Namespace | None = Field(default=None, description="The namespace; the context's if left out.")
    cpus: Annotated[float, Field(gt=0, le=1024)] | None = Field(
        default=None, description="Cores of each pod, such as 8 or 0.5."
    )
    memory: Quantity | None = Field(default=None, description="Memory of each pod, such as 32Gi; it gets no more.")
    gpus: Annotated[int, Field(ge=1, le=64)] | None = Field(default=None, description="GPUs of each pod.")
    gpu_resource: str = Field(default="nvidia.com/gpu", description="What the cluster calls a GPU.")
    volumes: list[Volume] = Field(default=[], description="What is mounted in each pod.")
    env: dict[VariableName, str] = Field(default={}, description="Variables of the environment of each pod.")
    secrets: list[Name] = Field(default=[], description="Secrets whose keys become variables of the environment.")
    service_account: Name | None = Field(default=None, description="As whom the pods reach storage.")
    node_selector: dict[str, str] = Field(
        default={},
        description="Labels of the nodes that may run it, such as {cloud.google.com/gke-spot: 'true'} for machines "
        "that can be taken away.",
    )
    tolerations: list[dict[str, Any]] = Field(
        default=[], description="Taints that do not keep it off, as Kubernetes has them."
    )
    priority_class: Name | None = Field(default=None, description="The priority class of the pods.")
    user: Annotated[int, Field(ge=1)] = Field(
        default=1000, description="The id of the user and group that the pods run as."
    )
    python: str = Field(default="python", description="The Python of the image.")
    start_timeout: Duration = Field(
        default="1h", description="How long pods may wait for a node or their image until the job is given up."
    )

    @model_validator(mode="after")
    def _says_a_thing_once(self) -> "KubernetesSection":
        if reserved := [name for name in self.env if name in RESERVED]:
            raise ValueError(f"env: {reserved[0]} is set by the launcher")
        paths = [volume.folder for volume in self.volumes]
        if twice := [path for path in paths if paths.count(path) > 1]:
            raise ValueError(f"volumes: {twice[0]} is mounted twice")
        if any(posixpath.commonpath([path, JOB_FOLDER]) == JOB_FOLDER for path in paths):
            raise ValueError(f"volumes: {JOB_FOLDER} holds the job file")
        return self
