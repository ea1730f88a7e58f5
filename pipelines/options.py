"""Beamfeed's own options among Beam's."""

import argparse
from typing import Any

from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions, SetupOptions, StandardOptions

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


def local_defaults(options: PipelineOptions, workers: int) -> PipelineOptions:
    """Without --runner, the job runs here, on `workers` threads.

    The embedded runner is named, as 'DirectRunner' first looks for another one to
    download. Threads share one process: Arrow and TensorFlow do the work outside
    of Python's lock, and nothing has to be imported twice.
    """
    standard = options.view_as(StandardOptions)
    if standard.runner is None:
        standard.runner = LOCAL_RUNNER
    if is_local(options):
        direct = options.view_as(DirectOptions)
        given = options.get_all_options(drop_default=True)
        if "direct_num_workers" not in given:
            direct.direct_num_workers = workers
        if "direct_running_mode" not in given and direct.direct_num_workers != 1:
            direct.direct_running_mode = "multi_threading"
    options.view_as(SetupOptions).save_main_session = False
    return options
