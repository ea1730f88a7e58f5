"""Beamfeed's own options among Beam's."""

import argparse
import os
from typing import Any, Literal

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment, python_sdk_capabilities

from beamfeed.pipelines import dataflow_template as flex

LOCAL_RUNNER = "FnApiRunner"


class JobOptions(PipelineOptions):
    """What a template launcher or a command line passes beside Beam's own options."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument("--job", required=False, help="The job file (YAML), local or gs://")
        parser.add_argument(
            "--set",
            dest="overrides",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="Overrides a key of the job file, such as windows.stride=4. May be given again.",
        )
        parser.add_argument("--progress-dir", dest="progress_dir", help=argparse.SUPPRESS)


def is_local(options: PipelineOptions) -> bool:
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
    if standard.runner == flex.RUNNER:
        return flex.dataflow_runner(os.environ.get(flex.JOB_ID_FILE))
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
