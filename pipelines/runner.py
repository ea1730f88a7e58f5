"""The runner of a job: threads of this process where the options name none."""

import os
from typing import Any, Literal

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment, python_sdk_capabilities

LOCAL_RUNNER = "FnApiRunner"
DATAFLOW_RUNNER = "DataflowRunner"
JOB_ID_FILE = "BEAMFEED_JOB_ID_FILE"  # set by the launcher; not an option, as those are shown with the job


def is_local(options: PipelineOptions) -> bool:
    """Whether the job runs in this process, once `choose_runner` has been called."""
    return options.view_as(StandardOptions).runner == LOCAL_RUNNER


def choose_runner(options: PipelineOptions, workers: int | Literal["auto"]) -> PipelineRunner | None:
    """The runner of a job; None where Beam makes the one that the options name.

    Without --runner, the job runs here, on `workers` threads; auto: one for each
    core it may use. Threads share one process: Arrow and TensorFlow do the work
    outside of Python's lock, and nothing has to be imported twice.
    """
    standard, direct = options.view_as(StandardOptions), options.view_as(DirectOptions)
    # The embedded runner is named, as 'DirectRunner' first looks for another one to download.
    standard.runner = standard.runner or LOCAL_RUNNER
    options.view_as(SetupOptions).save_main_session = False
    if standard.runner == DATAFLOW_RUNNER:
        return _dataflow_runner(os.environ.get(JOB_ID_FILE))
    given = options.get_all_options(drop_default=True)
    if not is_local(options) or given.get("direct_running_mode", "multi_threading") != "multi_threading":
        return None
    if "direct_num_workers" not in given:
        direct.direct_num_workers = len(os.sched_getaffinity(0)) if workers == "auto" else workers
    if direct.direct_num_workers == 1:
        return None
    # Beam's own multi_threading flushes the output of a worker once a second from another thread,
    # also in the middle of an element, and what is read then is garbage. -1 flushes by size alone.
    direct.direct_running_mode = "in_memory"  # or else Beam replaces the environment by its own
    environment = EmbeddedPythonGrpcEnvironment(
        data_buffer_time_limit_ms=-1, capabilities=python_sdk_capabilities(), artifacts=()
    )
    return FnApiRunner(default_environment=environment)


def _dataflow_runner(job_id_file: str | None) -> Any:
    """Beam's runner, which also writes down which job it started."""
    from apache_beam.runners import DataflowRunner as BeamRunner

    class DataflowRunner(BeamRunner):  # Beam's checks of options go by this name
        def run_pipeline(self, *args: Any, **kwargs: Any) -> Any:
            result = super().run_pipeline(*args, **kwargs)
            if job_id_file and result.has_job:
                with open(job_id_file, "w", encoding="utf-8") as file:
                    file.write(result.job_id())
            return result

    return DataflowRunner()
