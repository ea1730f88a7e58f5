"""Entry point of `beamfeed init`: looks at a folder of files and writes a job file for them.

    python -m beamfeed.pipelines.suggest_job FOLDER [--out job.yaml] [--force] [--json]

It needs neither Beam nor TensorFlow, and so begins in a moment. Exit codes: 0 done, 2 a mistake of the user's.
"""

import argparse
import sys
from collections.abc import Sequence

from beamfeed.contract import storage, streams
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import tell_event
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.verbosity import set_up_logging

NAME = "job.yaml"  # what a job file is called that is printed


def main(argv: Sequence[str] | None = None) -> int:
    """Writes or prints a job file and returns the exit code."""
    set_up_logging()
    parser = argparse.ArgumentParser(prog="beamfeed init")
    parser.add_argument("folder")
    parser.add_argument("--out")
    parser.add_argument("--force", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    try:
        run(args.folder, args.out, force=args.force, quiet=args.quiet, as_json=args.json)
    except Exception as error:
        return complain(error, FailureLog(), "beamfeed: ", as_json=args.json)
    return 0


def run(folder: str, out: str | None, *, force: bool = False, quiet: bool = False, as_json: bool = False) -> None:
    """Suggests a job file for a folder, and writes or prints it.

    Args:
      folder: a folder, a glob or a file, local or gs://
      out: the job file to write; None prints it.
      force: replaces a job file that is there.
      quiet: says nothing of what was written.
      as_json: prints one object instead: the text, where it was written, and what was found.

    Raises:
      UserError: if there is nothing that can be read, or `out` is there already.
    """
    if out is not None and not force and storage.exists(out):
        raise UserError(f"--out {out}: is there already; --force replaces it")
    from beamfeed.transforms.suggest.job_file import suggest

    found = suggest(folder, out or NAME)
    if out is not None:
        try:
            storage.write_text(out, found.text)
        except OSError as error:
            raise UserError(f"--out {out}: cannot be written: {error.strerror or error}") from None
    command = f"beamfeed {'run' if found.trains else 'preprocess'} {out or NAME}"
    if as_json:
        tell_event("init", job=found.text, out=out, about=found.about, command=command)
    elif out is None:
        print(found.text, end="")
    elif not quiet:
        print(f"{out}: {found.about}\nnext: read it, then {command}")


if __name__ == "__main__":
    streams.take_over()
    sys.exit(streams.flushed(main()))
