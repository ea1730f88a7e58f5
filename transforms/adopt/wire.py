"""What the bytes of a record say that decoders do not: after the wire format of protocol buffers.

https://protobuf.dev/programming-guides/encoding, and the messages of
tensorflow/core/example: an Example holds Features as field 1; a SequenceExample its
context likewise, and feature lists as field 2.
"""

from collections.abc import Iterator

from beamfeed.contract.dataset.fields import Listed

KINDS: dict[int, Listed] = {1: "bytes", 2: "float32", 3: "int64"}  # fields of a Feature: its lists
# A feature whose list holds nothing: the value of an entry of the map, of two bytes, a list of none.
EMPTY = tuple(bytes((0x12, 2, kind << 3 | 2, 0)) for kind in KINDS)
BYTES, FIXED = 2, {1: 8, 5: 4}  # wire types


def has_steps(record: bytes) -> bool:
    """Whether a serialized record has feature lists, of which an Example has none."""
    at, end = 0, len(record)
    while at < end and record[at] == 0x0A:  # field 1
        size, at = _varint(record, at + 1)
        at += size
    return at < end and record[at] == 0x12


def may_have_empty(record: bytes) -> bool:
    """Whether a record may have a feature with a list of nothing; a quick look at its bytes."""
    return any(one in record for one in EMPTY)


def empty_lists(record: bytes) -> Iterator[tuple[str, Listed]]:
    """The features of a record whose lists hold nothing, and the types of those lists.

    Raises:
      ValueError: if it is no message.
    """
    for number, features in _fields(record):
        for _, entry in _fields(features) if number == 1 else ():
            parts = dict(_fields(entry))
            for kind, listed in _fields(parts.get(2, b"")):
                if kind in KINDS and not any(body for _, body in _fields(listed)):
                    yield parts.get(1, b"").decode("utf-8", "replace"), KINDS[kind]


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The fields of a message: number, and what is in it; of a number on its own, something."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        if tag & 7 == BYTES:
            size, at = _varint(message, at)
        elif tag & 7 in FIXED:
            size = FIXED[tag & 7]
        else:
            size = _varint(message, at)[1] - at
        if size > end - at:
            raise ValueError("a field ends after its message")
        yield tag >> 3, message[at : at + size] if tag & 7 == BYTES else b"number"
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    number = shift = 0
    while at < len(message):
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    return number, at
