"""The sections `launch.preprocess.flink`, `.spark` and `.prism` of the job file."""

from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, model_validator

from beamfeed.contract.config.section import FilePath, InWords, Section
from beamfeed.launcher.backends.remote import BeamOptions


def _has_a_port(address: str) -> str:
    if int(address.rpartition(":")[2]) > MOST_PORT:
        raise ValueError(f"{address!r} is not allowed, a port is at most {MOST_PORT}")
    return address


MOST_PORT = 65_535
Address = Annotated[
    str,
    Field(pattern=r"^[^\s:/]+:[0-9]{1,5}$"),
    AfterValidator(_has_a_port),
    InWords("a host and a port, such as jobserver:8099"),
]
# They say where the job goes and who works on it, which the keys of the section do.
RESERVED = (
    "runner",
    "job_name",
    "job_endpoint",
    "environment_type",
    "environment_config",
    "parallelism",
    "flink_master",
    "prism_location",
)


class PortableSection(Section):
    """What all portable runners are asked."""

    options: BeamOptions

    @model_validator(mode="after")
    def _says_a_thing_once(self) -> "PortableSection":
        if reserved := [key for key in self.options if key in RESERVED]:
            raise ValueError(f"options: {reserved[0]} is set by the launcher")
        return self


class ClusterSection(PortableSection):
    """A cluster that takes jobs from a job server of Beam, and who runs the Python of a job for it.

    Without `worker_pool` and `image`, that is the process that submits: for a cluster on this machine.
    """

    example: ClassVar[str] = "{job_server: localhost:8099, worker_pool: localhost:50000}"

    job_server: Address = Field(description="Where Beam's job server of the cluster listens, such as jobserver:8099.")
    worker_pool: Address | None = Field(
        default=None,
        description="Where each machine of the cluster finds the worker pool beside it, such as localhost:50000: "
        "python -m apache_beam.runners.worker.worker_pool_main --service_port=50000, with Beamfeed installed.",
    )
    image: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="The container image of the workers, which each machine starts by Docker."
    )

    @model_validator(mode="after")
    def _one_kind_of_worker(self) -> "ClusterSection":
        if self.worker_pool and self.image:
            raise ValueError("worker_pool and image: give one of them; both say who runs the Python of the job")
        return self


class FlinkSection(ClusterSection):
    """Where Flink takes jobs, and who works on them."""

    master: Address | None = Field(
        default=None,
        description="Where the job manager's REST interface listens, such as jobmanager:8081; without it, a cluster "
        "goes on with a job after `beamfeed` was ended.",
    )
    parallelism: Annotated[int, Field(ge=1, le=32_768)] | None = Field(
        default=None, description="Slots of the cluster that the job uses; the cluster's own default if left out."
    )


class SparkSection(ClusterSection):
    """Where Spark takes jobs, and who works on them."""


class PrismSection(PortableSection):
    """Prism, Beam's runner for one machine; it ends with the job."""

    example: ClassVar[str] = "{binary: ~/go/bin/prism}"

    binary: FilePath = Field(description="The program: go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0")
