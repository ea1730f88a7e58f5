"""Hashes of texts that are the same everywhere and always, a column at a time."""

import numpy as np
import pyarrow as pa

SPREAD = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio, by which numbers that follow each other are spread
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(hashes: np.ndarray) -> np.ndarray:
    """uint64 [n], well mixed: the finalizer of splitmix64 (Steele, Lea and Flood 2014)."""
    hashes = hashes ^ (hashes >> np.uint64(30))
    hashes *= _M1
    hashes ^= hashes >> np.uint64(27)
    hashes *= _M2
    return hashes ^ (hashes >> np.uint64(31))


def hash_numbers(numbers: np.ndarray, start: np.uint64 | np.ndarray) -> np.ndarray:
    """uint64 [n] of int64 [n], by splitmix64 from a start, or one for each; it wraps round."""
    return mix(numbers.astype(np.uint64) * SPREAD + start)


def hash_texts(texts: pa.Array, seed: int) -> np.ndarray:
    """uint64 [n] of strings [n]; of a missing one that of an empty one. Each different one is hashed once.

    Eight bytes at a time are mixed into what came before; the work is in columns of all texts that are so long.
    """
    encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    values = encoded.dictionary.cast(pa.large_binary())
    _, offset_bytes, data = values.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[values.offset : values.offset + len(values) + 1]
    bytes_ = np.concatenate([np.frombuffer(data, np.uint8) if data else np.empty(0, np.uint8), np.zeros(8, np.uint8)])
    starts, lengths = offsets[:-1], np.diff(offsets)
    hashes = hash_numbers(lengths, _start(seed))
    at = np.flatnonzero(lengths)
    for word in range(0, int(lengths.max(initial=0)), 8):
        at = at[lengths[at] > word]
        part = bytes_[starts[at, None] + (word + np.arange(8))]
        part[np.arange(8) >= (lengths[at] - word)[:, None]] = 0
        hashes[at] = mix((hashes[at] ^ part.view("<u8")[:, 0]) * SPREAD)
    codes = encoded.indices.cast(pa.int64()).fill_null(len(hashes)).to_numpy()
    return np.append(hashes, mix(np.array([_start(seed)])))[codes]


def _start(seed: int) -> np.uint64:
    return np.uint64(seed % (1 << 64)) ^ np.uint64(0x5851F42D4C957F2D)
