"""docs/tutorial.md: each command runs, and prints what the page says."""

import pytest
from docs.run_page import ROOT, steady, written

pytestmark = pytest.mark.slow


def test_the_commands_print_what_the_page_says(tmp_path):
    page = (ROOT / "docs" / "tutorial.md").read_text()
    found = written(page, tmp_path)
    assert steady(found).splitlines() == steady(page).splitlines()
    assert found.count("\n$ ") >= 7
