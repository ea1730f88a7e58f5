"""`python tests/terminal_pictures.py docs/images`: pictures of a terminal in which the demo runs.

Each is what stands on a real terminal of 80 columns: of the demo's run under way, of the same run that was stopped and
goes on, and of one that fails. Takes some minutes.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from terminals import Terminal

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 80, 24
HOME = Path(tempfile.gettempdir(), "demo")  # as some of it is told; must not be there yet
NAMES = {"brown": "yellow", "default": "default"}  # pyte's for those of rich


def styled(screen):
    """What stands on a screen, with its colours, without the empty lines at its end."""
    filled = [row for row in range(screen.lines) if screen.display[row].strip()]
    for row in range(max(filled) + 1):
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            colour = NAMES.get(cell.fg, cell.fg if re.fullmatch("[a-z]+", cell.fg) else f"#{cell.fg}")
            yield Segment(cell.data, Style(color=colour, bold=cell.bold))
        yield Segment.line()
    yield Segment.line()  # else the last one is cut off below


def picture(screen, title):
    """An SVG that loads nothing from elsewhere."""
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True, width=screen.columns, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(Segments(Segment.simplify(styled(screen))), end="")
    svg = console.export_svg(title=title, unique_id=re.sub(r"\W+", "-", title))
    return re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)


def begin(job):
    """The command, as somebody types it."""
    terminal = Terminal(
        [sys.executable, "-m", "beamfeed.launcher.cli", "run", job],
        COLUMNS,
        ROWS,
        {"PYTHONPATH": str(ROOT)},
        HOME,
    )
    terminal.stream.feed(f"\x1b[1m$ beamfeed run {job}\x1b[0m\r\n".encode())
    return terminal


def pause(terminal):
    """Reads for a moment: the area is drawn a few times a second."""
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        terminal.read(0.05)


def until(terminal, pattern):
    """Reads until the pattern stands in a line."""
    while not any(re.search(pattern, line) for line in terminal.lines()):
        if not terminal.read(1.0):
            sys.exit("the run ended too early:\n" + "\n".join(terminal.all_lines()))


def main(out):
    """Writes the three pictures."""
    going = r"^train  ━+─+ .* left$"
    HOME.mkdir()
    try:
        text = (ROOT / "examples" / "fleet.yaml").read_text()
        (HOME / "fleet.yaml").write_text(text)
        strict = text.replace("out/demo", "out/strict") + "\nlimits: {max_rejected_fraction: 0}\n"
        (HOME / "strict.yaml").write_text(strict)
        make = [sys.executable, str(ROOT / "examples" / "make_fleet.py"), "--out", "out/fleet"]
        subprocess.run(make, cwd=HOME, check=True)
        with begin("fleet.yaml") as run:
            until(run, "^epoch 2/8")
            pause(run)
            until(run, going)
            Path(out, "terminal-run.svg").write_text(picture(run.screen, "beamfeed run"))
            run.type(b"\x03")
            while run.read(1.0):
                pass
        with begin("fleet.yaml") as again:
            until(again, "^epoch [45]/8")
            pause(again)
            until(again, going)
            Path(out, "terminal-resumed.svg").write_text(picture(again.screen, "beamfeed run, again"))
        (HOME / "out/fleet/pump-99.parquet").write_bytes(b"PAR1 a copy that was cut off")
        with begin("strict.yaml") as failed:
            while failed.read(1.0):
                pass
            Path(out, "terminal-failed.svg").write_text(picture(failed.screen, "beamfeed run, with a broken file"))
    finally:
        shutil.rmtree(HOME)


if __name__ == "__main__":
    main(sys.argv[1])
