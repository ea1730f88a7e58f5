"""Where the lists of serialized Examples and SequenceExamples (`tf.train`) are, of many records at a time.

Beamfeed's own records have their features in alphabetical order and each list packed, so that all records are walked
together, feature by feature. A record of another writer is taken apart by itself, and put into this layout.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from beamfeed.contract.dataset.fields import LENGTHS, Field, Listed
from beamfeed.contract.errors import UserError
from beamfeed.contract.records.pieces import Pieces, count_numbers, find_strings, join, varints_at
from beamfeed.contract.records.wire import LISTS, NoMessage, encode_varint, fields_of, list_tag

REMEDY = "preprocess again"  # of a dataset that Beamfeed wrote itself
CONTEXT, STEPS = 1, 2  # fields of a SequenceExample; an Example has the first alone
OTHER_TYPE = "in a shard the field {} is of another type than the manifest says"


class Records(NamedTuple):
    """Some records in memory.

    Attributes:
      buffer: uint8, what was read.
      pieces: where each record is.
    """

    buffer: np.ndarray
    pieces: Pieces

    @classmethod
    def of(cls, serialized: Sequence[bytes]) -> "Records":
        """These, one after the other."""
        sizes = np.fromiter(map(len, serialized), np.int64, len(serialized))
        ends = np.cumsum(sizes)
        return cls(np.frombuffer(b"".join(serialized), np.uint8), Pieces(ends - sizes, ends))


class Feature(NamedTuple):
    """A feature of the records.

    Attributes:
      name: in the records.
      key: what it is called here: as its field, or as the lengths of that.
      listed: what its lists hold.
      in_steps: whether it is a feature list of a SequenceExample; the lists of its steps count as one.
      instead: the content of the list where a record has none.
    """

    name: str
    key: str
    listed: Listed
    in_steps: bool = False
    instead: bytes = b""


Features = tuple[Feature, ...]  # in the alphabetical order of their names


class Lists(NamedTuple):
    """The lists of some records.

    Attributes:
      buffer: uint8.
      pieces: by key of the feature, where the content of each record's list is: numbers one after the other; strings
        with tag and length before each.
      present: bool `[records]`, whether a record is of any byte.
    """

    buffer: np.ndarray
    pieces: dict[str, Pieces]
    present: np.ndarray


def features_of(fields: Sequence[Field]) -> Features:
    """The features of a record with these fields."""
    of_fields = [
        Feature(field.in_records, field.name, field.listed, field.stored == "steps", _encoded(field))
        for field in fields
    ]
    lengths = [field.name + LENGTHS for field in fields if field.is_ragged and field.stored == "rows"]
    return tuple(sorted([*of_fields, *(Feature(name, name, "int64") for name in lengths)]))


def _encoded(field: Field) -> bytes:
    """The content of a list of a field's default; nothing where it has none."""
    value = field.default
    if value is None:
        return b""
    if isinstance(value, str):
        data = value.encode()
        return (list_tag("bytes") + encode_varint(len(data)) + data) * field.width
    if field.listed == "float32":
        return np.full(field.width, value, "<f4").tobytes()
    return encode_varint(int(value) & 0xFFFFFFFFFFFFFFFF) * field.width


def find_lists(records: Records, features: Features, remedy: str = REMEDY) -> Lists:
    """The lists of these features in some records; those of features that a record has not are empty, or the default.

    Args:
      records: serialized Examples or SequenceExamples.
      features: all that records of the dataset hold.
      remedy: what makes the dataset good again.

    Raises:
      UserError: if a list is of another type, or the bytes are no Example.
    """
    pieces, same = _walk_together(records, features)
    present = records.pieces.sizes > 0
    more, at = [records.buffer], len(records.buffer)
    for record in np.flatnonzero(~same & present).tolist():
        serialized = records.buffer[records.pieces.first[record] : records.pieces.end[record]].tobytes()
        try:
            contents = _take_apart(serialized, features)
        except ValueError as error:
            raise UserError(f"{error}; {remedy}") from None
        for key, content in contents.items():
            pieces[key].first[record], pieces[key].end[record] = at, at + len(content)
            more.append(np.frombuffer(content, np.uint8))
            at += len(content)
    for feature in features:
        if feature.instead:
            piece = pieces[feature.key]
            lacking = present & (piece.sizes == 0)
            piece.first[lacking], piece.end[lacking] = at, at + len(feature.instead)
            more.append(np.frombuffer(feature.instead, np.uint8))
            at += len(feature.instead)
    return Lists(np.concatenate(more) if len(more) > 1 else records.buffer, pieces, present)


def count_entries(lists: Lists, feature: Feature) -> np.ndarray:
    """How many numbers or strings the list of a feature has in each record, int64 `[records]`.

    Raises:
      ValueError: if something else is there.
    """
    pieces = lists.pieces[feature.key]
    if feature.listed == "int64":
        return count_numbers(join(lists.buffer, pieces), pieces.sizes)
    if feature.listed == "bytes":
        return find_strings(lists.buffer, pieces)[1]
    counts, rest = np.divmod(pieces.sizes, 4)
    if rest.any():
        raise ValueError("a list ends inside of a number")
    return counts


def _walk_together(records: Records, features: Features) -> tuple[dict[str, Pieces], np.ndarray]:
    """The lists of all records by our own layout, and which records have it, bool `[records]`."""
    buffer, (first, end) = records
    same = np.ones(len(first), bool)

    def expect(at: np.ndarray, expected: bytes) -> np.ndarray:
        """Whether these bytes are there; what comes after them is where they would be."""
        nonlocal same
        actual = np.take(buffer, at[:, None] + np.arange(len(expected)), mode="clip")
        same &= (actual == np.frombuffer(expected, np.uint8)).all(axis=1)
        return at + len(expected)

    def size_to(at: np.ndarray, end: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Where the message whose size stands here begins, and its end; which is known of all but features."""
        nonlocal same
        size, at = varints_at(buffer, at)
        same &= (size >= 0) & (at + size <= records.pieces.end if end is None else at + size == end)
        return at, at + size

    pieces = {}
    at, _ = size_to(expect(first, b"\x0a"), end)
    for name, key, dtype, *_ in features:
        at, entry = size_to(expect(at, b"\x0a"))
        encoded = name.encode()
        at = expect(at, b"\x0a" + encode_varint(len(encoded)) + encoded + b"\x12")
        at, _ = size_to(at, entry)
        at, _ = size_to(expect(at, list_tag(dtype)), entry)
        if dtype != "bytes":
            filled = at < entry
            before = same.copy()
            after, _ = size_to(expect(at, b"\x0a"), entry)
            same = np.where(filled, same, before)
            at = np.where(filled, after, at)
        pieces[key] = Pieces(at, entry)
        at = entry
    same &= (at == end) & (not any(feature.in_steps for feature in features))
    for piece in pieces.values():  # of what is none of ours nothing is read
        piece.first[~same] = piece.end[~same] = 0
    return pieces, same


def _take_apart(serialized: bytes, features: Features) -> dict[str, bytes]:
    """The contents of a record's lists in our layout; the features may come in any order, with others among them.

    Raises:
      ValueError: if a list is of another type, or the bytes are no Example.
    """
    by_key = {(feature.name, feature.in_steps): feature for feature in features}
    contents = {feature.key: b"" for feature in features}
    try:
        for tag, _, part in fields_of(serialized):
            for number, _, entry in fields_of(part) if tag in (CONTEXT, STEPS) else ():
                pair = {key: value for key, _, value in fields_of(entry)} if number == 1 else {}
                feature = by_key.get((pair.get(1, b"").decode(), tag == STEPS))
                if feature is None:
                    continue
                value = pair.get(2, b"")
                lists = [step for number, _, step in fields_of(value) if number == 1] if feature.in_steps else [value]
                # Of one that is there twice, the last.
                contents[feature.key] = b"".join(_content(part, feature.listed, feature.name) for part in lists)
    except (NoMessage, UnicodeDecodeError) as error:
        raise ValueError(f"a shard holds a record that is no tf.train.Example: {error}") from None
    return contents


def _content(feature: bytes, dtype: Listed, name: str) -> bytes:
    parts = []
    for number, _, part in fields_of(feature):
        if number != LISTS[dtype]:
            raise ValueError(OTHER_TYPE.format(name))
        for field_number, _, value in fields_of(part):
            if field_number == 1:
                parts.append(b"\x0a" + encode_varint(len(value)) + value if dtype == "bytes" else value)
    return b"".join(parts)
