"""Commands write their part of a page, and leave the rest of it as it was."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))  # the scripts import each other as siblings
marks = importlib.import_module("marks")

PAGE = "# A page\n\n<!-- a: begin. Written by a. -->\nold\n<!-- a: end -->\n<!-- b: begin -->\n<!-- b: end -->\n"


def test_a_section_is_replaced_and_the_others_stay(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    marks.write_section(page, "a", r"new \1")
    assert page.read_text() == PAGE.replace("old", r"new \1")
    assert [marks.section(PAGE, name) for name in ("a", "b", "c")] == ["old\n", "", None]


def test_a_page_without_the_marks_is_named_and_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(ValueError, match=r"page\.md has no section c"):
        marks.write_section(page, "c", "new")
    assert page.read_text() == PAGE
