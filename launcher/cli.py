"""The `beamfeed` command. What it does is loaded when it is asked for, so that its help is quick."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from beamfeed.contract import streams
from beamfeed.contract.arguments import Refused, split_beam_options
from beamfeed.contract.errors import USER_MISTAKE
from beamfeed.contract.events import emit_error
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.options import BEFORE
from beamfeed.contract.verbosity import set_verbosity
from beamfeed.launcher.parser import COMMANDS, build_parser

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 the job failed, 2 the user's mistake, 130 Ctrl-C."""
    streams.take_over()
    args = _parse_or_report(sys.argv[1:] if argv is None else argv)
    _end_on_signals()
    set_verbosity(os.environ, args.quiet, args.verbose)
    try:
        from beamfeed.launcher.commands import CALLS

        return streams.flushed(CALLS[args.command](args))
    except Exception as error:
        return streams.flushed(complain(error, FailureLog(), BEFORE, as_json=args.json))
    except KeyboardInterrupt as error:
        what_is_left = f": {error}" if str(error) else ""
        print(f"{BEFORE}interrupted{what_is_left}", file=sys.stderr)
        return INTERRUPTED


def _parse_or_report(argv: Sequence[str]) -> argparse.Namespace:
    try:
        return parse_args(argv)
    except Refused as refused:
        if "--json" in split_beam_options(argv)[0]:
            emit_error(refused.message, USER_MISTAKE)
        raise


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    """Parses a command line. What follows a lone `--` are options for Beam."""
    parser = build_parser()
    own_arguments, beam_options = split_beam_options(argv)
    args, unknown = parser.parse_known_args(own_arguments)
    if unknown:
        args.parser.refuse(unknown, args.command)
    if beam_options and not COMMANDS[args.command].takes_beam:
        parser.error(f"options after -- are for Beam, which {args.command} does not run")
    if getattr(args, "once", None) and not (args.restart or args.from_step):
        args.parser.error(f"--once {args.once}: needs --restart or --from-step")
    args.beam_options = beam_options
    return args


def _end_on_signals() -> None:
    """Makes a SIGTERM, and a terminal that closes, end the children as Ctrl-C does.

    Ctrl-C counts even where a shell that started the command in the background has it ignored.
    """

    def leave(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # not under nohup, and not where another has its own
            signal.signal(number, leave)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
