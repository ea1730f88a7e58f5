"""The section `slurm` of a stage: `launch.train.slurm` and `launch.preprocess.slurm` of the job file."""

from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from beamfeed.contract.config.section import FilePath, InWords, Section

# As sbatch reads it: minutes, minutes:seconds, hours:minutes:seconds, or days before these.
Time = Annotated[str, Field(pattern=r"^([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2}$"), InWords("a time, such as 12:00:00")]
Memory = Annotated[str, Field(pattern=r"^[0-9]+[KMGT]?$"), InWords("a size, such as 64G")]
Name = Annotated[str, Field(pattern=r"^[^\s]+$"), InWords("a name without a space")]
OptionName = Annotated[str, Field(pattern=r"^[a-z][a-z-]*$"), InWords("the long name of an option of sbatch")]

# By these a job is found again and its log read, or begins or not; or they are keys of the section.
RESERVED = (
    "job-name", "comment", "output", "error", "open-mode", "requeue", "no-requeue", "signal", "array", "clusters",
    "wrap", "parsable", "chdir", "nodes", "ntasks", "ntasks-per-node", "partition", "account", "qos", "time",
    "gpus-per-node", "cpus-per-task", "mem", "wait", "test-only", "kill-on-invalid-dep",
)  # fmt: skip


class SlurmSection(Section):
    """What a job of Slurm asks for. What is left out, the cluster decides."""

    example: ClassVar[str] = "{partition: gpu, time: '12:00:00', gpus: 4}"

    partition: Name | None = Field(default=None, description="The partition of the nodes.")
    account: Name | None = Field(default=None, description="The account that is charged.")
    qos: Name | None = Field(default=None, description="The quality of service.")
    time: Time | None = Field(
        default=None,
        description="How long it may run, such as 12:00:00; training saves some minutes before its end, and goes on in "
        "the next turn.",
    )
    gpus: Annotated[int, Field(ge=1, le=64)] | None = Field(default=None, description="GPUs of each node.")
    cpus: Annotated[int, Field(ge=1, le=1024)] | None = Field(default=None, description="Cores of each node.")
    memory: Memory | None = Field(default=None, description="Memory of each node, such as 64G.")
    setup: list[str] = Field(default=[], description="Lines of a shell that come first, such as module load cuda/12.4.")
    python: FilePath | None = Field(
        default=None, description="The Python of the nodes, with Beamfeed installed; that of this process if left out."
    )
    options: dict[OptionName, bool | int | str] = Field(
        default={}, description="Any other option of sbatch, by its long name without dashes, such as constraint."
    )

    @model_validator(mode="after")
    def _says_a_thing_once(self) -> "SlurmSection":
        if reserved := [name for name in self.options if name in RESERVED]:
            raise ValueError(f"options: {reserved[0]} is set by the launcher")
        return self

    @property
    def seconds(self) -> float | None:
        """`time` in seconds."""
        if self.time is None:
            return None
        days, _, clock = self.time.rpartition("-")
        parts = [int(part) for part in clock.split(":")]
        # With days, the first number is of hours; without, of minutes unless all three are there.
        units = (3600, 60, 1) if days or len(parts) == 3 else (60, 1)
        return int(days or 0) * 86_400 + sum(part * unit for part, unit in zip(parts, units, strict=False))
