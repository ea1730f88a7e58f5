"""A program that a command of `beamfeed` starts, as `python -m MODULE`: what it is asked, and how it answers."""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from beamfeed.contract.arguments import Options, Parser, add_options, flat, split_beam_options
from beamfeed.contract.failure_log import FailureLog, complain
from beamfeed.contract.text import sentence
from beamfeed.contract.verbosity import set_up_logging

BEAM_OPTIONS = {
    "nowhere": "",
    "after --": " Options of Apache Beam may follow a lone --",
    "anywhere": " Options of Apache Beam may be given as well.",
}
LOUDNESS = "TF_CPP_MIN_LOG_LEVEL"  # of TensorFlow's C++


@dataclass(frozen=True)
class Program:
    """A program, and the one description of its command line.

    Attributes:
      module: for `python -m`.
      about: what it does, in a sentence without a capital letter and full stop.
      example: arguments, for the end of its help.
      subject: what it works on. The command may name that in another way, such as a job file for its dataset.
      options: that its command has, too.
      usage: where argparse cannot know it, as options of Beam follow.
      before: what each message begins with.
      beam: where options of Beam stand among its arguments.
    """

    module: str
    about: str
    example: str
    subject: Options
    options: Options = ()
    usage: str | None = None
    before: str = ""
    beam: Literal["nowhere", "after --", "anywhere"] = "nowhere"

    @property
    def name(self) -> str:
        """As a shell calls it."""
        return f"python -m {self.module}"

    def parser(self) -> Parser:
        """The parser of its command line."""
        parser = Parser(
            prog=self.name,
            usage=self.usage and f"{self.name} {self.usage}",
            description=sentence(self.about) + BEAM_OPTIONS[self.beam],
            example=f"{self.name} {self.example}",
        )
        add_options(parser, (*self.subject, *self.options))
        return parser

    def arguments(self, values: Mapping[str, Any], beam_options: Sequence[str] = ()) -> tuple[str, ...]:
        """The command line with these values, by the keys of the options. Other keys are passed over."""
        options = flat((*self.subject, *self.options))
        written = (part for option in options for part in option.write(values.get(option.key)))
        return (*written, *(("--",) if beam_options and self.beam == "after --" else ()), *beam_options)

    def parse(self, argv: Sequence[str] | None = None) -> argparse.Namespace:
        """Parses a command line, that of the process for None; `beam_options` are what is for Beam."""
        arguments_given = sys.argv[1:] if argv is None else argv
        own, beam_options = split_beam_options(arguments_given) if self.beam == "after --" else (arguments_given, [])
        parser = self.parser()
        arguments, unknown = parser.parse_known_args(own)
        if unknown and self.beam != "anywhere":
            parser.refuse(unknown)
        arguments.beam_options = [*unknown, *beam_options]
        return arguments

    def shows_help(self, argv: Sequence[str]) -> bool:
        """Prints the help where it is asked for, and says whether it was: for programs whose options Beam parses."""
        asks_for_help = not {"-h", "--help"}.isdisjoint(argv)
        if asks_for_help:
            self.parser().print_help()
        return asks_for_help

    def run(
        self,
        work: Callable[[argparse.Namespace], int | None],
        argv: Sequence[str] | None,
        log: FailureLog | None = None,
    ) -> int:
        """Parses a command line, does the work, and returns the exit code.

        Args:
          work: of the parsed command line; returns an exit code, or None for 0.
          argv: as of `parse`.
          log: what was said until a failure.
        """
        os.environ.setdefault(LOUDNESS, "2")
        set_up_logging()
        arguments = self.parse(argv)
        try:
            return work(arguments) or 0
        except Exception as error:
            return complain(
                error, FailureLog() if log is None else log, self.before, as_json=vars(arguments).get("json", False)
            )
