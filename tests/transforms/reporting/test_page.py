"""The page: text stays text, nothing is loaded, and it is never larger than it may be."""

import html
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from beamfeed.transforms.reporting.figures import draw, edges_of, shares, short
from beamfeed.transforms.reporting.page import (
    Chapter,
    Command,
    Facts,
    Items,
    Picture,
    Pictures,
    Quotes,
    Table,
    Words,
    number,
    page,
    text,
)

EVIL = "<script>alert(1)</script>\"'&</td>\x00\u202e"
VOID = {"meta", "link", "img", "br"}


class Tags(HTMLParser):
    """The elements of a page, and whether they are nested as they must be."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict]] = []

    def handle_starttag(self, tag, attributes):
        self.seen.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_text_stays_text():
    parts = [
        Words(EVIL), Command(EVIL, command=EVIL), Table([EVIL], [[EVIL]], EVIL),
        Table([EVIL], [[EVIL]], EVIL, folded=True),
        Items([EVIL]), Quotes([(EVIL, EVIL)]), Facts([(EVIL, EVIL, EVIL)]),
        Pictures([draw(lambda axes: axes.plot([1, 2], label=short(EVIL)) and axes.legend(), EVIL)]),
    ]  # fmt: skip
    written = page(EVIL, EVIL, [Chapter(EVIL, parts)]).decode()
    tags = Tags()
    tags.feed(written)
    assert tags.open == []
    assert "script" not in {tag for tag, _ in tags.seen}
    for _, attributes in tags.seen:
        assert not any(name.startswith("on") for name in attributes)
    sources = [value for tag, attributes in tags.seen for name, value in attributes.items() if name in ("src", "href")]
    assert all(source.startswith(("data:", "#")) for source in sources)
    assert html.escape("<script>alert(1)</script>") in written
    assert "\x00" not in written
    assert "\u202e" not in written


def test_a_picture_is_xml_whatever_its_names_are():
    for name in (EVIL, "$\\alpha_{", "温度", "a\x7fb", ""):
        picture = draw(lambda axes, name=name: (axes.plot([1, 2], label=short(name) or "x"), axes.legend()))
        ElementTree.fromstring(picture.image)
    assert len(short("x" * 100)) < 30


def test_a_large_page_loses_pictures_and_says_so():
    large = Pictures([Picture(bytes(20_000), f"p{at}") for at in range(40)])
    small = Pictures([Picture(bytes(1000), "small")])
    written = page("t", "a", [Chapter("one", [large]), Chapter("two", [small])], most=500_000)
    assert len(written) <= 500_000
    assert 0 < len(large.pictures) < 40
    assert f"{40 - len(large.pictures)} more are left out" in written.decode()
    assert len(small.pictures) == 1
    with pytest.raises(ValueError, match="without a picture"):
        page("t", "a", [Chapter("one", [Words("x" * 4000)])], most=3000)


def test_a_table_shows_its_first_rows():
    written = Table(("a", "n"), [(f"r{at}", at) for at in range(1000)]).html()
    assert written.count("<tr>") == 41
    assert "960 more rows are not shown" in written
    assert re.search(r'<th class="n">n</th>', written)


def test_numbers_and_long_text():
    assert [number(value) for value in (12345, 0.25, 1e-7, 3.0)] == ["12,345", "0.25", "1e-07", "3"]
    assert text("x" * 500) == "x" * 119 + "…"


def test_letters_that_join_others_stay():
    """Persian needs the non-joiner, and a family of emoji the joiner; what turns text around goes."""
    for value in ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "👩\u200d👩\u200d👧", "soft\u00adhyphen"):
        assert text(value) == short(value) == value
    for letter in "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\x00\ud800":
        assert text(f"a{letter}b") == short(f"a{letter}b") == "a�b"


def test_a_histogram_counts_all():
    values = np.concatenate([np.random.default_rng(0).normal(size=5000), [1e9, -1e9, np.nan]]).astype("f4")
    edges = edges_of([values])
    assert edges[-1] < 10  # what is far out does not hide the rest
    assert shares(values, edges).sum() == pytest.approx(1)
    assert len(np.unique(edges_of([np.full(9, 3.0)]))) == 41
    assert len(edges_of([np.full(3, np.nan)])) == 41
