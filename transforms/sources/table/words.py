"""Texts -> their words, as the transform graph finds them."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.config.features import Text
from beamfeed.transforms.sources.record_block import Ragged

SPACES = r"\pZ"  # white space beyond ASCII
MARKS = r"([^\pL\pM\pN\s_'])"  # each is a word of its own


def words_of(texts: pa.StringArray, section: Text) -> Ragged:
    """The words of strings `[batch]` without nulls."""
    if section.lower:
        # TensorFlow's lowering ends at a NUL.
        texts = pa.array([text.partition("\0")[0].lower() for text in texts.to_pylist()], pa.string())
    if section.split == "characters":
        return _characters(texts)
    texts = pc.replace_substring_regex(texts, SPACES, " ")
    if section.split == "words":
        texts = pc.replace_substring_regex(texts, MARKS, r" \1 ")
    pieces = pc.ascii_split_whitespace(texts)
    words = pieces.flatten()
    filled = pc.not_equal(words, "")  # between two spaces there is none
    of_text = pc.list_parent_indices(pieces).filter(filled).to_numpy()
    return Ragged(words.filter(filled), np.bincount(of_text, minlength=len(texts)))


def _characters(texts: pa.StringArray) -> Ragged:
    """The code points of strings."""
    ends = np.cumsum(pc.binary_length(texts).to_numpy().astype(np.int64))
    data = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8)
    first = np.flatnonzero((data & 0xC0) != 0x80)
    offsets = pa.py_buffer(np.append(first, len(data)).astype(np.int32))
    characters = pa.StringArray.from_buffers(len(first), offsets, pa.py_buffer(data))
    return Ragged(characters, np.diff(np.searchsorted(first, ends), prepend=0))
