"""docs/tutorial.md: each command runs, and prints what the page says."""

from pathlib import Path

import pytest
from docs.run_page import ROOT, steady, written

pytestmark = pytest.mark.slow


def shorten(path: Path) -> None:
    """Of a job file: it trains as long as is needed for a look at all windows of a split."""
    text = path.read_text()
    assert "epochs: 29 " in text
    path.write_text(text.replace("epochs: 29 ", "epochs: 8 "))


def test_the_commands_print_what_the_page_says(tmp_path):
    page = (ROOT / "docs" / "tutorial.md").read_text()
    found = written(page, tmp_path, shorten)
    assert steady(found).splitlines() == steady(page).splitlines()
    assert found.count("\n$ ") >= 7
