"""Beamfeed's own options of the programs that build pipelines, and their help. Without Beam, so that it is quick."""

import argparse
from collections.abc import Sequence
from typing import Any

from beamfeed.contract.arguments import Parser


def add_own(parser: Any) -> None:
    """Adds the options that are not Beam's."""
    parser.add_argument("--job", required=False, metavar="JOB", help="the job file (YAML), local or gs://")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="puts another value in the place of the job file's, such as windows.stride=4; may be repeated",
    )
    parser.add_argument(
        "--replace",
        nargs="?",
        const="true",
        default="false",
        choices=("true", "false"),
        metavar="true",
        help="replaces the dataset of another job at output.path",
    )
    parser.add_argument("--progress-dir", dest="progress_dir", help=argparse.SUPPRESS)


def shown_help(argv: Sequence[str], module: str, about: str, options: str) -> bool:
    """Prints the help where it is asked for, and says whether it was.

    Args:
      argv: the command line.
      module: the program.
      about: what it does.
      options: of Beam, that are of use with it, for the example.
    """
    if not {"-h", "--help"} & set(argv):
        return False
    program = f"python -m {module}"
    parser = Parser(
        prog=program,
        usage=f"{program} --job JOB [--set KEY=VALUE ...] [options of Beam]",
        description=f"{about} All options of Apache Beam may be given as well, such as {options}; "
        "its documentation describes them (https://beam.apache.org/documentation/).",
        example=f"{program} --job job.yaml {options}",
    )
    add_own(parser)
    parser.print_help()
    return True
