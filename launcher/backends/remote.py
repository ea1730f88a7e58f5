"""What the backends that run Beam elsewhere share: its options on a command line, and paths that workers can see."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError

LONGEST_NAME = 40  # of the part of a job's name that can be read; Dataflow allows 63 in all
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


def job_name(output: str) -> str:
    """The name of a job that writes to this folder: by it a running job is found again.

    Dataflow allows a name only one running job, so two launchers cannot both write to one output there.
    """
    bucket_path = output.removeprefix("gs://").rstrip("/")
    words = re.sub(r"[^a-z0-9]+", "-", bucket_path.lower())[-LONGEST_NAME:].strip("-")
    tag = hashlib.sha256(bucket_path.encode()).hexdigest()[:12]
    return "-".join(part for part in ("beamfeed", words, tag) if part)


def check_paths(job: Job, whose: str, *, shared: bool = False) -> None:
    """Raises UserError if workers on other machines, `whose`, could not see the input or the output.

    Args:
      job: whose paths they are.
      whose: the workers, in words.
      shared: whether the machines may share folders; then paths must be absolute.
    """
    inputs = [(job.source.key_of(path), path) for path in job.source.patterns]
    for key, path in (*inputs, ("output.path", job.output.path)):
        if storage.is_remote(path) or (shared and os.path.isabs(path)):
            continue
        if shared:
            raise UserError(
                f"{key}: {path} is relative to this folder, which {whose} do not know; give an absolute path that is "
                "the same on all machines, or gs://"
            )
        raise UserError(
            f"{key}: {path} is on this machine, where {whose} cannot reach it; "
            "give a gs:// path, or set launch.preprocess.backend=local"
        )
