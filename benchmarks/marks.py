"""The parts of a page that a command writes, between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""

import re
from pathlib import Path


def section(page: str, name: str) -> str | None:
    """What stands between the marks; None where there are none."""
    marked = _marks(name).search(page)
    return marked[2] if marked else None


def with_section(page: str, name: str, text: str) -> str:
    """The page with other lines between the marks.

    Raises:
      ValueError: if there are no such marks.
    """
    changed, count = _marks(name).subn(lambda marks: f"{marks[1]}{text.rstrip()}\n{marks[3]}", page)
    if count != 1:
        raise ValueError(f"has no section {name}")
    return changed


def write_section(path: str | Path, name: str, text: str) -> None:
    """Replaces what stands between the marks of a page.

    Raises:
      ValueError: if there are no such marks.
    """
    page = Path(path)
    try:
        changed = with_section(page.read_text(encoding="utf-8"), name, text)
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None
    page.write_text(changed, encoding="utf-8")


def _marks(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- {name}: begin.*?-->\n)(.*?)(<!-- {name}: end -->)", re.DOTALL)
