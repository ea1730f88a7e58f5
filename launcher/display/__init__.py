"""Shows a run while it goes on: a live area on a terminal, plain lines elsewhere, JSON lines for programs."""

import os
import sys

from beamfeed.contract.verbosity import is_quiet
from beamfeed.launcher.display.base import Display
from beamfeed.launcher.display.lines import Lines

__all__ = ["Display", "Lines", "choose"]


def choose(quiet: bool = False, as_json: bool = False) -> Display:
    """The display that was asked for, or else the one that fits stderr."""
    if as_json:
        from beamfeed.launcher.display.json_lines import JsonLines

        return JsonLines()
    if quiet or is_quiet():
        return Display()
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown"):
        from beamfeed.launcher.display.live import Live  # rich takes a moment to load

        return Live(sys.stderr, os.environ)
    return Lines()
