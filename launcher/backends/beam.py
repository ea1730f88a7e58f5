"""What the backends that run Beam elsewhere share: its options on a command line, and paths that workers can see."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError

BeamOptions = Annotated[
    dict[str, bool | int | float | str | list[str]],
    Field(
        default={},
        description="Any other option of Beam, without dashes; true gives the bare flag, false leaves it out.",
    ),
]


def flags(options: Mapping[str, bool | int | float | str | list[str]]) -> list[str]:
    """The options of a section: true gives the bare flag, false leaves it out, a list gives it several times."""
    written: list[str] = []
    for key, value in options.items():
        if isinstance(value, bool):
            written += [f"--{key}"] if value else []
        else:
            written += [f"--{key}={item}" for item in (value if isinstance(value, list) else [value])]
    return written


def option(command: Sequence[str], name: str) -> str | None:
    """The value of `--name=value` or `--name value`, the last of several as Beam takes it."""
    value = None
    for at, flag in enumerate(command):
        if flag.startswith(f"--{name}="):
            value = flag.partition("=")[2]
        elif flag == f"--{name}" and at + 1 < len(command):
            value = command[at + 1]
    return value


def check_paths(job: Job, whose: str) -> None:
    """Raises UserError if workers on other machines, `whose`, could not see the input or the output."""
    inputs = [(job.source.key_of(path), path) for path in job.source.patterns]
    for key, path in (*inputs, ("output.path", job.output.path)):
        if not storage.is_remote(path):
            raise UserError(
                f"{key}: {path} is on this machine, where {whose} cannot reach it; "
                "give a gs:// path, or set launch.preprocess.backend=local"
            )
