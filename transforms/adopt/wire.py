"""What the bytes of a record say that decoders do not."""

from collections.abc import Iterator

from beamfeed.contract.dataset.fields import Listed
from beamfeed.contract.dataset.wire import LISTS, NoMessage, decode_varint, fields_of, list_tag

_LISTS: dict[int, Listed] = {number: listed for listed, number in LISTS.items()}
# A feature whose list holds nothing: the value of an entry of the map, of two bytes, a list of none.
_EMPTY = tuple(b"\x12\x02" + list_tag(listed) + b"\x00" for listed in LISTS)


def has_steps(record: bytes) -> bool:
    """Whether a serialized record has feature lists, of which an Example has none."""
    at, end = 0, len(record)
    try:
        while at < end and record[at] == 0x0A:  # field 1
            size, at = decode_varint(record, at + 1)
            at += size
    except NoMessage:
        return False
    return at < end and record[at] == 0x12


def may_have_empty(record: bytes) -> bool:
    """Whether a record may have a feature with a list of nothing; a quick look at its bytes."""
    return any(empty in record for empty in _EMPTY)


def empty_lists(record: bytes) -> Iterator[tuple[str, Listed]]:
    """The features of a record whose lists hold nothing, and the types of those lists.

    Raises:
      ValueError: if it is no message.
    """
    for number, _, features in fields_of(record):
        for _, _, entry in fields_of(features) if number == 1 else ():
            parts = {key: value for key, _, value in fields_of(entry)}
            for kind, _, listed in fields_of(parts.get(2, b"")):
                if kind in _LISTS and not any(body for _, _, body in fields_of(listed)):
                    yield parts.get(1, b"").decode("utf-8", "replace"), _LISTS[kind]
