"""How much the processes of a run tell: the launcher sets it in the environment, and they heed it."""

import logging
import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import TextIO

VARIABLE = "BEAMFEED_VERBOSITY"
QUIET, VERBOSE = "quiet", "verbose"  # its values; anything else is in between
FORMAT = "%(levelname)s %(name)s: %(message)s"


def set_verbosity(env: MutableMapping[str, str], quiet: bool, verbose: bool) -> None:
    """Sets the variable for this process and those that it starts; without a wish, it stays as it is."""
    if quiet or verbose:
        env[VARIABLE] = QUIET if quiet else VERBOSE


def is_quiet() -> bool:
    """Whether only errors are to be told."""
    return os.environ.get(VARIABLE) == QUIET


def is_verbose() -> bool:
    """Whether messages of level INFO are wanted."""
    return os.environ.get(VARIABLE) == VERBOSE


def log_level() -> int:
    """Of the messages that are shown."""
    return logging.ERROR if is_quiet() else logging.INFO if is_verbose() else logging.WARNING


@contextmanager
def logging_from(level: int, name: str | None = None) -> Iterator[None]:
    """Nothing under a level is logged while the block runs: by the logger of this name, or by all."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


def set_up_logging() -> None:
    """Shows messages of this level on stderr; to be called first, by programs."""
    logging.basicConfig(level=log_level(), format=FORMAT)


def log_handlers() -> list[logging.Handler]:
    """What shows messages on stderr while they are kept elsewhere: they are wanted twice only with VERBOSE."""
    if not is_verbose():
        return []
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT))
    return [handler]


def note(line: str, stream: TextIO | None = None) -> None:
    """Tells something that is no error, in a line on stderr, or `stream`."""
    if not is_quiet():
        print(line, file=stream or sys.stderr, flush=True)
