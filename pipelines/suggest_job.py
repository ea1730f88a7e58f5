"""Entry point of `beamfeed init`: looks at a folder of files and writes a job file for them.

    python -m beamfeed.pipelines.suggest_job FOLDER [--out job.yaml] [--label NAME] [--time NAME] [--asset NAME]
                                                    [--kind KIND] [--force] [--json]

It needs neither Beam nor TensorFlow, and so begins in a moment. Exit codes: 0 done, 2 a mistake of the user's.
"""

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from beamfeed.contract import storage, streams
from beamfeed.contract.errors import Unanswered, UserError, failure_of
from beamfeed.contract.events import emit_event
from beamfeed.contract.options import INIT
from beamfeed.transforms.suggest.options import Options

if TYPE_CHECKING:
    from beamfeed.transforms.fleet import TooManyRejected
    from beamfeed.transforms.suggest.job_file import Suggestion

NAME = "job.yaml"  # what a job file is called that is printed
_READ = 16 << 20  # bytes of files that are read to try a job
_TRIES = 3  # with shorter windows
_TOO_RARE = 4  # rows or images of a class, of which none may be left to train, where that is so of one
_SHORTEST = 4  # rows of a window, of which none is tried that is shorter
_SPARED = 0.05  # of assets or rows that a job may set aside, where it cannot run otherwise
_SPARED_SHORT = 0.2  # of assets that are too short for a window, likewise


def run(args: argparse.Namespace) -> None:
    """Suggests a job file for a folder, tries it, and writes or prints it.

    Raises:
      UserError: if there is nothing that can be read, `out` is there already, or files are not what the user says.
    """
    out = args.out
    if out is not None and not args.force and storage.exists(out):
        raise UserError(f"--out {out}: is there already; --force replaces it")
    job = _tried(args.folder, out or NAME, Options(args.label, args.time, args.asset, args.kind))
    if out is not None:
        try:
            storage.write_text(out, job.text)
        except OSError as error:
            raise UserError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    if args.json:
        problems = list(job.problems or ())
        emit_event("init", job=job.text, out=out, about=job.about, command=job.command, problems=problems)
    elif out is None:
        print(job.text, end="")
    elif not args.quiet:
        after = f"mend it, then beamfeed check {shlex.quote(out)}" if job.problems else f"read it, then {job.command}"
        print(f"{out}: {job.about}\nnext: {after}")
    sys.stdout.flush()
    for line in job.problems or ():
        print(f"{INIT.before}{out or NAME} does not run as it is: {line}", file=sys.stderr)


def _tried(folder: str, name: str, options: Options) -> "Suggestion":
    """A job file for a folder that was tried; with shorter windows, or other limits, where too much is left out."""
    from beamfeed.contract.imports import spare_pandas

    spare_pandas()  # before anything asks Arrow for an array
    from beamfeed.transforms.fleet import TooManyRejected
    from beamfeed.transforms.sources.columns.label_counts import UnseenClass
    from beamfeed.transforms.suggest.job_file import suggest

    job, error = _try(suggest(folder, name, options))
    if isinstance(error, UnseenClass):
        listed, listed_error = _try(suggest(folder, name, options, least=_TOO_RARE))
        if not listed.problems or isinstance(listed_error, TooManyRejected):
            job, error = listed, listed_error
    tried = [(job, error)]
    while (job.problems or error) and job.length is not None and job.length > _SHORTEST and len(tried) <= _TRIES:
        job, error = _try(suggest(folder, name, options, longest=job.length // 2))
        tried.append((job, error))
    running = [(job, error) for job, error in tried if not job.problems]
    if running:
        return next((job for job, error in running if error is None), running[0][0])
    for most, short in ((_SPARED, False), (_SPARED_SHORT, True)):
        for job, error in tried:
            if isinstance(error, TooManyRejected) and error.share <= most and (error.short or not short):
                spared, _ = _try(_sparing(job, error))
                if not spared.problems:
                    return spared
    return tried[0][0]


class _EmptySplit(Exception):
    """A job runs, and has no window to evaluate or to test with."""


def _sparing(job: "Suggestion", over: "TooManyRejected") -> "Suggestion":
    """The job with a limit that lets as much be set aside as was."""
    from beamfeed.transforms.suggest.draft import comment

    short = "Too short for a window: " if over.short else ""
    share = f"{short}{over.share:.1%} of the {over.noun} were rejected"
    text = f"{share}; they are set aside, with their reasons. More than this ends the job:"
    most = _SPARED * math.ceil(over.share / _SPARED)
    limits = "\n".join([*comment(text), f"limits: {{max_rejected_fraction: {most:.3g}}}"])
    return replace(job, body=f"{job.body}\n{limits}\n")


def _try(job: "Suggestion") -> tuple["Suggestion", Exception | None]:
    """A job with why it cannot run as it is; and the error, where nothing else is wrong, or _EmptySplit.

    That is told by the kernels of a run on its files, or some: None where they are too large.
    """
    from beamfeed.pipelines.job_check import check_job
    from beamfeed.pipelines.sample import TooLarge
    from beamfeed.transforms.splits import wanted_splits

    try:
        checked = check_job(job.to_try, most=_READ)
    except TooLarge:
        return job, None
    except (UserError, Unanswered, OSError) as error:
        return replace(job, problems=failure_of(error).message.splitlines()), None
    errors: list[Exception] = [*checked.problems.values()]
    if not errors and job.length is not None and checked.look.whole and checked.manifest is not None:
        splits = checked.manifest.splits
        errors += [_EmptySplit() for name in wanted_splits(checked.job.split) if not splits[name].windows][:1]
    return replace(job, problems=[*checked.problems]), errors[0] if len(errors) == 1 else None


def main(argv: Sequence[str] | None = None) -> int:
    """Writes or prints a job file and returns the exit code."""
    return INIT.run(run, argv)


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
