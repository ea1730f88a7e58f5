"""The user's own code on its way to the workers."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from apache_beam.options.pipeline_options import PipelineOptions, SetupOptions

from beamfeed.contract.config.job import Job
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import INSTALLED, find_module, folder_of
from beamfeed.contract.packages import KEY, fetched, to_wheel


@contextmanager
def own_packages(job: Job, options: PipelineOptions, *, local: bool) -> Iterator[None]:
    """Makes the job's packages importable here, and where workers are elsewhere has Beam install them there.

    Raises:
      UserError: if workers would not find the module of a step.
    """
    before, variable = list(sys.path), os.environ.get("PYTHONPATH")
    with ExitStack() as stack:
        packages = stack.enter_context(fetched(job.launch.preprocess.packages))
        folders = [package.folder for package in packages]
        if not local:
            _check_reachable(job, folders)
        if packages and not local:
            wheels = stack.enter_context(tempfile.TemporaryDirectory(prefix="beamfeed-wheels-"))
            setup = options.view_as(SetupOptions)
            built = [to_wheel(package, wheels) for package in packages]
            setup.extra_packages = [*(setup.extra_packages or []), *built]
        sys.path[:0] = folders
        if folders:  # for workers that are processes of their own on this machine
            os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *([variable] if variable else [])])
        try:
            yield
        finally:
            sys.path[:] = before
            if folders and variable is None:
                del os.environ["PYTHONPATH"]
            elif variable is not None:
                os.environ["PYTHONPATH"] = variable


def _check_reachable(job: Job, folders: list[str]) -> None:
    for key, path in job.own_code:
        module = path.partition(":")[0]
        spec = find_module(module, folders)
        if spec is not None and folder_of(module, spec) not in {*folders, *INSTALLED}:
            raise UserError(
                f"{key}: {module} is on this machine ({spec.origin}), where the workers cannot reach it; name it in "
                f"{KEY}"
            )
