"""Tables and sizes as text for people."""

from collections.abc import Sequence

from beamfeed.contract.errors import visible


def table(rows: Sequence[Sequence[object]], left: int = 1) -> list[str]:
    """Aligned columns: the first ones to the left, the others, such as numbers, to the right. All is `visible`."""
    cells = [[f"{cell:,}" if isinstance(cell, int) else visible(str(cell)) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def last_line(printed: bytes) -> str:
    """The last line that is not empty of what a program printed; empty where there is none."""
    lines = printed.decode("utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def size_text(size: float) -> str:
    """Bytes for people: 812 B, 3.4 MB."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 1000:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


def sentence(text: str) -> str:
    """With a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def some_of(names: Sequence[str], most: int) -> str:
    """The first ones, and how many more there are: `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def counted(count: int, noun: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
