"""The wire format of protocol buffers, as far as `tf.train.Example` and `SequenceExample` need it.

After https://protobuf.dev/programming-guides/encoding and the messages of tensorflow/core/example: an Example holds
Features as field 1; a SequenceExample its context likewise, and feature lists as field 2. Features are a map of names
(field 1 of an entry) to Feature messages (field 2), which hold one list, as the field of its type.
"""

from collections.abc import Iterator

from beamfeed.contract.dataset.fields import Listed

LISTS: dict[Listed, int] = {"bytes": 1, "float32": 2, "int64": 3}  # fields of a Feature
LONGEST = 10  # bytes of a varint: of a longer one, which only damage makes, no more is read
BYTES = 2  # the type on the wire of what has a length
_FIXED = {1: 8, 5: 4}  # those of a fixed size, in bytes


class NoMessage(ValueError):
    """Bytes that are no message."""


def list_tag(listed: Listed) -> bytes:
    """What stands before the list of a Feature."""
    return bytes([LISTS[listed] << 3 | BYTES])


def encode_varint(number: int) -> bytes:
    """A number from 0 on, in groups of seven bits."""
    groups = [number & 0x7F]
    while number := number >> 7:
        groups[-1] |= 0x80
        groups.append(number & 0x7F)
    return bytes(groups)


def decode_varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at a place, and where it ends.

    Raises:
      NoMessage
    """
    number = shift = 0
    for end in range(at, min(at + LONGEST, len(message))):
        byte = message[end]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, end + 1
    raise NoMessage("a number has no end")


def fields_of(message: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The fields of a message: number, type on the wire, and bytes; a number that is not packed as its own bytes.

    Raises:
      NoMessage
    """
    at = 0
    while at < len(message):
        tag, at = decode_varint(message, at)
        wire, begin = tag & 7, at
        if wire == BYTES:
            size, begin = decode_varint(message, at)
            at = begin + size
        elif wire == 0:
            _, at = decode_varint(message, at)
        elif wire in _FIXED:
            at += _FIXED[wire]
        else:
            raise NoMessage(f"a field of type {wire}")
        if at > len(message):
            raise NoMessage("it ends too early")
        yield tag >> 3, wire, message[begin:at]
