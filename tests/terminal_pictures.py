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
from pathlib import Path

from rich.console import Console
from rich.segment import Segment, Segments
from rich.style import Style
from terminals import Terminal

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, ROWS = 80, 24
COMMAND = "beamfeed run examples/fleet.yaml"
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


def picture(screen, title):
    """An SVG that loads nothing from elsewhere."""
    with open(os.devnull, "w") as nowhere:
        console = Console(
            record=True, width=screen.columns, file=nowhere, force_terminal=True, color_system="truecolor"
        )
        console.print(Segments(styled(screen)), end="")
    svg = console.export_svg(title=title, unique_id=re.sub(r"\W+", "-", title))
    return re.sub(r"\s*@font-face \{.*?\}\n", "\n", svg, flags=re.DOTALL)


def begin(folder, *options):
    """The command, as somebody types it."""
    terminal = Terminal(
        [sys.executable, "-m", "beamfeed.launcher.cli", *COMMAND.split()[1:], *options],
        COLUMNS,
        ROWS,
        {"PYTHONPATH": str(ROOT)},
        folder,
    )
    shown = " ".join([COMMAND, *options])
    terminal.stream.feed(f"\x1b[1m$ {shown}\x1b[0m\r\n".encode())
    return terminal


def until(terminal, *patterns):
    """Reads until each of the patterns stands in a line."""
    while not all(any(re.search(pattern, line) for line in terminal.lines()) for pattern in patterns):
        if not terminal.read(1.0):
            sys.exit("the run ended too early:\n" + "\n".join(terminal.all_lines()))


def main(out):
    """Writes the three pictures."""
    going = r"^train  ━+─+ .* left$"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", Path(folder, "examples"))
        subprocess.run([sys.executable, "examples/make_fleet.py", "--out", "out/fleet"], cwd=folder, check=True)
        with begin(folder) as run:
            until(run, "^epoch 3/8", going)
            Path(out, "terminal-run.svg").write_text(picture(run.screen, "beamfeed run"))
            run.type(b"\x03")
            while run.read(1.0):
                pass
        with begin(folder) as again:
            until(again, "^epoch 6/8", going)
            Path(out, "terminal-resumed.svg").write_text(picture(again.screen, "beamfeed run, again"))
        Path(folder, "out/fleet/pump-99.parquet").write_bytes(b"PAR1 a copy that was cut off")
        with begin(folder, "--set", "output.path=out/again", "--set", "limits.max_rejected_fraction=0") as failed:
            while failed.read(1.0):
                pass
            Path(out, "terminal-failed.svg").write_text(picture(failed.screen, "beamfeed run, with a broken file"))


if __name__ == "__main__":
    main(sys.argv[1])
