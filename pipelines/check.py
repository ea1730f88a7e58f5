"""`python -m beamfeed.pipelines.check --job job.yaml [--set key=value ...] [--full] [--json]`: what a job will do.

Reads its files, and writes nothing. Exit codes: 0 it can work, 2 it cannot, with a line for each reason.
"""

import argparse
import sys
from collections.abc import Sequence

from beamfeed.contract import streams
from beamfeed.contract.config.load import load_job
from beamfeed.contract.errors import USER_MISTAKE, UserError, failure_of
from beamfeed.contract.events import tell_event
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.verbosity import set_up_logging
from beamfeed.pipelines.check_text import to_json, to_text
from beamfeed.pipelines.job_check import check_job


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parses a command line."""
    parser = argparse.ArgumentParser(prog="python -m beamfeed.pipelines.check", description="Says what a job will do.")
    parser.add_argument("--job", required=True, help="job file, local or gs://")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="replaces a key of the job")
    parser.add_argument("--full", action="store_true", help="read all files, however large they are")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints what a job will do, and returns the exit code."""
    set_up_logging()
    arguments = parse(argv)
    try:
        job = load_job(arguments.job, arguments.set)
        checked = check_job(job, full=arguments.full)
    except (UserError, OSError) as error:
        return _complain(failure_of(error).message.splitlines(), arguments.json)
    except Exception as error:
        return complain(error, FailureLog(), "beamfeed: ", as_json=arguments.json)
    if arguments.json:
        tell_event("check", **to_json(checked))
    else:
        print(to_text(checked))
    if checked.problems and not arguments.json:
        sys.stdout.flush()
        return _complain(checked.problems, as_json=False)
    return USER_MISTAKE if checked.problems else 0


def _complain(problems: Sequence[str], as_json: bool) -> int:
    if as_json:
        tell_event("check", works=False, problems=problems)
    for line in () if as_json else problems:
        print(f"beamfeed: {line}", file=sys.stderr)
    return USER_MISTAKE


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
