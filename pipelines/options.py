"""Beamfeed's own options among Beam's."""

import argparse
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions


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
