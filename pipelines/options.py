"""Beamfeed's own options among Beam's, and what is wrong with those that were given."""

import argparse
import io
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from difflib import get_close_matches
from typing import Any, TypeVar

from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options import PipelineOptions

from beamfeed.contract.arguments import add_options
from beamfeed.contract.errors import UserError, near_miss
from beamfeed.contract.options import PREPROCESS
from beamfeed.contract.verbosity import logging_from

OWN = ("--job", "--set", "--replace", "--refit")
View = TypeVar("View", bound=PipelineOptions)


class JobOptions(PipelineOptions):
    """What a template launcher or a command line passes beside Beam's own options."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        add_options(parser, PREPROCESS.subject)

    def view_as(self, cls: type[View]) -> View:
        """As Beam's, which parses all flags again each time, some hundred times while a job is built."""
        views: dict[type, Any] = self.__dict__.setdefault("_views", {})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]


@contextmanager
def usage_as_mistake() -> Iterator[None]:
    """Raises UserError where a parser would print pages of usage and end the process."""
    usage = io.StringIO()
    try:
        with redirect_stderr(usage):
            yield
    except SystemExit as error:
        if not error.code:  # --help
            raise
        mistake = usage.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise UserError(re.sub(r"invalid int value: (.*)", r"\1 is not a whole number", mistake)) from None


def read_options(argv: Sequence[str]) -> JobOptions:
    """The options of a command line.

    Raises:
      UserError: if one of Beamfeed's own has no value.
    """
    with usage_as_mistake():
        return JobOptions(list(argv))


def check_options(argv: Sequence[str], *, passes_on: bool) -> None:
    """Refuses what Beam would pass over with a warning.

    Args:
      argv: the command line.
      passes_on: whether the runner hands options on that Beam does not know, as to a job server.

    Raises:
      UserError: if unknown option, or its value is of another kind.
    """
    parsers: list[argparse.ArgumentParser] = []
    with usage_as_mistake(), logging_from(logging.ERROR, pipeline_options.__name__):
        PipelineOptions(list(argv)).get_all_options(add_extra_args_fn=parsers.append)
    (parser,) = parsers
    options = [name for action in parser._actions for name in action.option_strings]
    has_value = False
    for argument in parser.parse_known_args(list(argv))[1]:
        name, equals, _ = argument.partition("=")
        if argument.startswith("-"):
            if not passes_on or get_close_matches(name, OWN, cutoff=0.85):
                raise UserError(f"{name}: Beam has no such option{near_miss(name, options)}")
            has_value = not equals
        elif has_value:
            has_value = False
        else:
            raise UserError(f"{argument!r}: is not an option; a job file is given as --job {argument}")
