"""Scripts that let a shell complete commands, options and paths."""

import argparse
from collections.abc import Iterator

SHELLS = ("bash", "zsh", "fish")
# Placeholders of arguments that are paths of files.
_FILES = "JOB", "FOLDER", "DATASET|JOB", "DATASET|JOB|DIR", "CURRENT", "FILE.png", "RUN", "WHERE", "FILE", "PATTERN"


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script of one of SHELLS for a whole command line.

    Args:
      parser: of all commands; it is made again for each call, as this leaves notes in it.
      shell: that the script is for.
    """
    import shtab

    for action in _actions(parser):
        name = action.metavar or action.dest.upper()
        if name in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif name == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell=shell))


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments and options of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        yield action
