"""`python -m beamfeed.pipelines.check --job job.yaml [--set key=value ...] [--full] [--json]`: what a job will do.

Reads its files, and writes nothing. Exit codes: 0 it can work, 2 it cannot, with a line for each reason,
1 a bucket does not answer.
"""

import argparse
import sys
from collections.abc import Sequence

from beamfeed.contract import streams
from beamfeed.contract.config.load import load_job
from beamfeed.contract.errors import USER_MISTAKE, UserError, failure_of
from beamfeed.contract.events import emit_event
from beamfeed.contract.options import CHECK
from beamfeed.pipelines.check_text import to_json, to_text
from beamfeed.pipelines.job_check import check_job


def check(arguments: argparse.Namespace) -> int:
    """Prints what a job will do, and returns the exit code."""
    try:
        job = load_job(arguments.job, arguments.set)
        checked = check_job(job, full=arguments.full)
    except (UserError, OSError) as error:
        return _complain(failure_of(error).message.splitlines(), arguments.json)
    if arguments.json:
        emit_event("check", **to_json(checked))
    else:
        print(to_text(checked))
    if checked.problems and not arguments.json:
        sys.stdout.flush()
        return _complain([*checked.problems], as_json=False)
    return USER_MISTAKE if checked.problems else 0


def _complain(problems: Sequence[str], as_json: bool) -> int:
    if as_json:
        emit_event("check", works=False, problems=problems)
    for line in () if as_json else problems:
        print(f"{CHECK.before}{line}", file=sys.stderr)
    return USER_MISTAKE


def main(argv: Sequence[str] | None = None) -> int:
    """Checks a job and returns the exit code."""
    return CHECK.run(check, argv)


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
