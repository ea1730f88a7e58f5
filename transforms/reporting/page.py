"""A page of HTML without a script and without a link to anything: sections, tables, pictures, all text escaped.

Each part is an element, by its `html`.
"""

import base64
import html
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_BYTES = 5_000_000  # of a page
LETTERS = 120  # of a cell, or a name
ROWS = 40  # of a table
SHORT = 24  # letters of a cell that stay in one line
NUMBER = "n"  # the class of a cell with a number
# They turn the order of the letters around them. Those that join letters are of the same category, Cf, and stay.
TURNING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
BARRED = ("Cc", "Cs", "Co", "Cn")  # categories of letters that no one can see


@dataclass
class Picture:
    """A picture, and what stands under it.

    Attributes:
      image: of SVG or PNG.
      caption: plain text.
      kind: of the file, as MIME has it.
      small: whether it is one of many thumbnails.
    """

    image: bytes
    caption: str = ""
    kind: str = "image/svg+xml"
    small: bool = False

    def html(self) -> str:
        size = "small" if self.small else "plain"
        address = f"data:{self.kind};base64,{base64.b64encode(self.image).decode()}"
        caption = f"<figcaption>{text(self.caption, 4 * LETTERS)}</figcaption>" if self.caption else ""
        return f'<figure class="{size}"><img alt="{text(self.caption)}" src="{address}">{caption}</figure>'


@dataclass
class Pictures:
    """Pictures side by side, as many as there is room for.

    Attributes:
      pictures: the most telling first.
      left_out: how many are not shown for want of room in the file.
    """

    pictures: list[Picture]
    left_out: int = 0

    def html(self) -> str:
        left_out = f'<p class="note">{self.left_out:,} more are left out to keep the file small.</p>'
        inner = "".join(picture.html() for picture in self.pictures)
        return f'<div class="grid">{inner}</div>' + (left_out if self.left_out else "")


@dataclass
class Table:
    """A table.

    Attributes:
      head: of the columns.
      rows: numbers stand to the right. The first ROWS are shown.
      caption: above it.
      folded: whether it is opened by who wants to see it.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    folded: bool = False

    def html(self) -> str:
        right = [any(_is_number(row[at]) for row in self.rows[:ROWS]) for at in range(len(self.head))]
        head = "".join(
            f'<th class="{NUMBER}">{text(name)}</th>' if is_right else f"<th>{text(name)}</th>"
            for name, is_right in zip(self.head, right, strict=True)
        )
        rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in self.rows[:ROWS])
        more = len(self.rows) - ROWS
        note = f'<p class="note">{more:,} more rows are not shown.</p>' if more > 0 else ""
        box = f'<div class="box" tabindex="0"><table><tr>{head}</tr>{rows}</table></div>{note}'
        caption = text(self.caption, 2 * LETTERS)
        if self.folded:
            return f"<details><summary>{caption}</summary>{box}</details>"
        return (f"<h3>{caption}</h3>" if caption else "") + box


@dataclass
class Words:
    """A paragraph.

    Attributes:
      words: plain text.
      css: its class: plain, or a note.
    """

    words: str
    css: str = "note"

    def html(self) -> str:
        return f'<p class="{self.css}">{text(self.words, 4000)}</p>'


@dataclass
class Command(Words):
    """What is missing, and the command that makes it."""

    command: str = ""

    def html(self) -> str:
        return f'<p class="note">{text(self.words, 4000)} <code>{text(self.command, 4000)}</code></p>'


@dataclass
class Facts:
    """Numbers that are seen first: of each its name, its value, and a word on it."""

    facts: list[tuple[str, str, str]]

    def html(self) -> str:
        tiles = (
            f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd><dd class='note'>{text(more)}</dd></div>"
            for name, value, more in self.facts
        )
        return f'<dl class="facts">{"".join(tiles)}</dl>'


@dataclass
class Items:
    """Lines, one under the other."""

    lines: Sequence[str]

    def html(self) -> str:
        more = len(self.lines) - ROWS
        lines = [*self.lines[:ROWS], *([f"and {more:,} more"] if more > 0 else [])]
        return f"<ul>{''.join(f'<li>{text(line, 600)}</li>' for line in lines)}</ul>"


@dataclass
class Quotes:
    """Texts as people wrote them, each with what it is."""

    quotes: list[tuple[str, str]]

    def html(self) -> str:
        return "".join(
            f"<blockquote><p>{text(quote, 500)}</p><footer>{text(by)}</footer></blockquote>"
            for by, quote in self.quotes
        )


Part = Pictures | Table | Words | Facts | Items | Quotes


@dataclass
class Chapter:
    """A part of the page.

    Attributes:
      title: of it.
      parts: one under the other.
    """

    title: str
    parts: list[Part] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        """Its name in an address."""
        return "".join(letter if letter.isalnum() else "-" for letter in self.title.lower())

    def html(self) -> str:
        inner = "".join(part.html() for part in self.parts)
        return f'<section id="{self.anchor}"><h2>{text(self.title)}</h2>{inner}</section>'


def text(value: object, letters: int = LETTERS) -> str:
    """Any text as HTML shows it, shortened."""
    plain = harmless(str(value)[: 2 * letters])
    plain = " ".join(plain.split()) if letters <= LETTERS else plain
    return html.escape(plain if len(plain) <= letters else f"{plain[: letters - 1]}…", quote=True)


def harmless(value: str) -> str:
    """A text without control letters, and without those that turn the order of others around; what joins may stay."""
    return "".join(
        "�" if letter in TURNING or (letter not in "\n\t" and unicodedata.category(letter) in BARRED) else letter
        for letter in value
    )


def _cell(value: object) -> str:
    if value is None:
        return '<td class="n">-</td>'
    if not _is_number(value):
        return f"<td class={'short' if len(str(value)) <= SHORT else 'long'}>{text(value)}</td>"
    return f'<td class="{NUMBER}">{number(value)}</td>'  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: float) -> str:
    """A number for people: 12,345, 0.0123, 1.2e-05."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.0f}" if float(value).is_integer() and abs(value) < 1e5 else f"{value:.4g}"


def page(title: str, about: str, sections: Sequence[Chapter], most: int = MOST_BYTES) -> bytes:
    """The file, in UTF-8.

    Pictures go, the last of the largest groups first, until it has no more than `most` bytes.

    Args:
      title: of the page.
      about: a line under it.
      sections: in order.
      most: bytes.
    """
    groups = [part for section in sections for part in section.parts if isinstance(part, Pictures)]
    while len(whole := _render(title, about, sections).encode()) > most:
        largest = max(groups, key=lambda group: sum(len(picture.image) for picture in group.pictures), default=None)
        if largest is None or not largest.pictures:
            raise ValueError(f"the page has {len(whole):,} bytes without a picture")
        count = max(1, len(largest.pictures) // 4)
        del largest.pictures[-count:]
        largest.left_out += count
    return whole


def _render(title: str, about: str, sections: Sequence[Chapter]) -> str:
    links = "".join(f'<a href="#{section.anchor}">{text(section.title)}</a>' for section in sections)
    body = "".join(section.html() for section in sections)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="icon" href="data:,"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head><body><header><h1>{text(title)}</h1>"
        f'<p class="note">{text(about, 600)}</p><nav>{links}</nav></header><main>{body}</main></body></html>\n'
    )


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"  # nothing is loaded, nothing runs
STYLE = """
:root { color-scheme: light dark; --ink: #1d2530; --soft: #566172; --line: #d5dae2; --paper: #fff; --card: #f5f7fa;
  --link: #0b5cad; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #a3adbb; --line: #3a424e; --paper: #14181e;
  --card: #1d232b; --link: #7db8f5; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0 auto; max-width: 78rem; padding: 0 1rem 3rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1.5rem 0 .3rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .6rem; padding-top: .8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
a { color: var(--link); }
nav { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .95rem; }
nav a { padding: .3rem 0; }
.note { color: var(--soft); font-size: .9rem; margin: .3rem 0; }
code { background: var(--card); border: 1px solid var(--line); border-radius: 4px; padding: .05em .35em; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9.5rem, 1fr)); gap: .6rem; margin: 1rem 0; }
.facts div { background: var(--card); border-radius: 8px; padding: .6rem .8rem; }
.facts dt { color: var(--soft); font-size: .85rem; }
.facts dd { margin: 0; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.facts dd.note { font-size: .8rem; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); gap: .8rem;
  margin: .8rem 0; }
.grid:has(figure.small) { grid-template-columns: repeat(auto-fill, minmax(6.5rem, 1fr)); }
figure { margin: 0; padding: .5rem; background: #fff; color: #1d2530; border: 1px solid var(--line);
  border-radius: 8px; min-width: 0; }

figure.small { padding: .3rem; }
figure.small img { width: 100%; image-rendering: auto; }
img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figcaption { font-size: .85rem; color: #3c4654; margin-top: .3rem; white-space: pre-line; }
.box { overflow-x: auto; width: fit-content; max-width: 100%; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; min-width: min(100%, 34rem); font-size: .9rem; overflow-wrap: normal; }
th, td { padding: .35rem .7rem; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
tr:last-child td { border-bottom: 0; }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
td.short { white-space: nowrap; }
td.long { min-width: 14rem; overflow-wrap: anywhere; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
details { margin: .8rem 0; }
summary { cursor: pointer; padding: .3rem 0; color: var(--link); }
ul { padding-left: 1.2rem; margin: .5rem 0; }
blockquote { margin: .6rem 0; padding: .4rem .8rem; border-left: 3px solid var(--line); background: var(--card);
  white-space: pre-line; }
blockquote p { margin: 0; }
blockquote footer { color: var(--soft); font-size: .85rem; }
@media print { body { max-width: none; font-size: 10pt; } th, td.short { white-space: normal; } nav {
  display: none; } figure, .facts div, tr {
  break-inside: avoid; } h2, h3 { break-after: avoid; } .box { overflow: visible; } details::details-content {
  content-visibility: visible; block-size: auto; } }
"""
