"""Texts as blocks of whole lines, wherever their pieces are cut."""

import random

import pytest

from beamfeed.transforms.sources.readers import blocks
from beamfeed.transforms.sources.readers.quotes import Quotes

PARTS = [b"word," * 5, b"\n", b"\r\n", b"x" * 150, b"\n\n", b"a,b\n" * 30]


@pytest.mark.parametrize("seed", range(40))
def test_blocks_are_the_same_whether_pieces_end_with_lines_or_anywhere(tmp_path, monkeypatch, seed):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200)
    monkeypatch.setattr(blocks, "TAIL_BYTES", 60)
    chance, path = random.Random(seed), tmp_path / "a.csv"
    quoted = [b'"of\ntwo lines",', b'"' + b"many\n" * 30 + b'"\n'] if seed % 2 else []
    text = b"".join(chance.choices([*PARTS, *quoted], k=chance.randrange(1, 60)))
    path.write_bytes(text)
    quotes = Quotes('"', ",") if quoted else None
    pieces = list(blocks.pieces_of(str(path)))
    assert b"".join(pieces) == text
    anywhere = (text[at : at + 200] for at in range(0, len(text), 200))
    placed_blocks = list(blocks.whole_lines(str(path), iter(pieces), quotes))
    assert placed_blocks == list(blocks.whole_lines(str(path), anywhere, quotes))
    assert b"".join(block for _, block in placed_blocks) == text


def test_a_block_that_ends_with_a_line_is_no_copy_of_its_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 200)
    path = tmp_path / "a.csv"
    path.write_bytes(b"1,2,34\n" * 123)
    pieces = list(blocks.pieces_of(str(path)))
    assert len(pieces) == 5
    placed_blocks = blocks.whole_lines(str(path), iter(pieces), Quotes('"', ","))
    assert all(block is piece for (_, block), piece in zip(placed_blocks, pieces, strict=True))
