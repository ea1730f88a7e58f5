"""Kinds of source, one folder each; what they have in common; and the one place that looks a kind up."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from beamfeed.contract.config.job import Job
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.splits import check_values

if TYPE_CHECKING:  # Beam takes seconds to load, also for who wants a file of the folder alone
    from beamfeed.transforms.sources.base import Source


def kind_of(job: Job) -> type["Source"]:
    """The kind of source of a job: the name of its folder, whose `source.py` says SOURCE."""
    kind: type[Source] = import_module(f"{__name__}.{job.source.kind}.source").SOURCE
    return kind


def make_source(job: Job, files: Sequence[FileStat]) -> tuple["Source", list[FileStat]]:
    """The source of a job, and those of the listed files that it reads.

    Raises:
      UserError: if the job does not fit the files.
    """
    kind = kind_of(job)
    first = kind.first_files(job, files)
    source = kind.of(job, first)
    if job.split.by == "column":
        values = {value for file in files if (value := source.value_of_path(file.path)) is not None}
        if values:  # they are all there are, whatever becomes of the files
            check_values(values, job.split)
    return source, first
