"""What is in serialized records: of each feature its type, how long its lists are, and its values in numbers.

Records are decoded in batches into Arrow columns, so that no step of Python's own
handles a value.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.dataset.fields import Listed
from beamfeed.contract.errors import first_line
from beamfeed.contract.records.wire import LISTS, NoMessage, decode_varint, fields_of, list_tag
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.tfds.read import IMAGE

STEPS = "##beamfeed.steps##"  # the column of the feature lists; no feature is called so
MOST_VALUES = 100_000  # different ones of a target that are counted
IMAGES = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a")  # how files of images begin
_LISTS: dict[int, Listed] = {number: listed for listed, number in LISTS.items()}
# A feature whose list holds nothing: the value of an entry of the map, of two bytes, a list of none.
_EMPTY = tuple(b"\x12\x02" + list_tag(listed) + b"\x00" for listed in LISTS)


class Name(NamedTuple):
    """A feature of the records."""

    name: str
    in_steps: bool = False  # whether it is a feature list of a SequenceExample


class Mixed(ValueError):
    """A feature has values of several types."""


@dataclass(frozen=True)
class Stats:
    """What was seen of a feature. Of records that lack it, nothing: these are those of the shard beyond `records`.

    Attributes:
      listed: what its lists hold; None where none holds anything.
      records: with at least one value, or step.
      shortest, longest: lists of these; of feature lists, steps.
      divisor: the greatest common one of these lengths.
      widths: of feature lists, the fewest and the most values of a step.
      low, high: of numbers; of strings, bytes.
      finite: whether all numbers are.
      content: what all strings are, by how they begin.
      empty: types that lists have which hold nothing; TensorFlow reads them as no other.
      moments: of numbers that are watched.
      counts: of whole numbers and of texts that are watched; None where there are too many different ones, or no texts.
    """

    listed: Listed | None = None
    records: int = 0
    shortest: int = 0
    longest: int = 0
    divisor: int = 0
    widths: tuple[int, int] = (1, 1)
    low: float | None = None
    high: float | None = None
    finite: bool = True
    content: str = ""
    empty: frozenset[Listed] = frozenset()
    moments: Moments | None = None
    counts: Mapping[int | str, int] | None = field(default_factory=dict)

    def __add__(self, other: "Stats") -> "Stats":
        empty = self.empty | other.empty
        if not self.records or not other.records:
            return replace(self if self.records else other, empty=empty)
        if self.listed != other.listed:
            raise Mixed(f"has {self.listed} in some records and {other.listed} in others")
        counts = None if self.counts is None or other.counts is None else Counter(self.counts) + Counter(other.counts)
        return replace(
            self,
            records=self.records + other.records,
            shortest=min(self.shortest, other.shortest),
            longest=max(self.longest, other.longest),
            divisor=math.gcd(self.divisor, other.divisor),
            widths=(min(self.widths[0], other.widths[0]), max(self.widths[1], other.widths[1])),
            low=_least(self.low, other.low, min),
            high=_least(self.high, other.high, max),
            finite=self.finite and other.finite,
            content=self.content if self.content == other.content else "",
            empty=empty,
            moments=self.moments + other.moments if self.moments and other.moments else None,
            counts=counts if counts is None or len(counts) <= MOST_VALUES else None,
        )


Features = dict[Name, Stats]


def add_features(left: Mapping[Name, Stats], right: Mapping[Name, Stats]) -> Features:
    """Both together.

    Raises:
      Mixed: if a feature has another type in one than in the other.
    """
    features = dict(left)
    for name, stats in right.items():
        try:
            features[name] = features[name] + stats if name in features else stats
        except Mixed as error:
            raise Mixed(f"feature {name.name!r} {error}") from None
    return features


def look_at(records: Sequence[bytes], watched: frozenset[str] = frozenset()) -> Features:
    """The features of some serialized Examples or SequenceExamples.

    Args:
      records: serialized.
      watched: features whose values are counted.

    Raises:
      ValueError: if one is neither.
      Mixed: if a feature has several types.
    """
    batch = _decoded(records)
    features: Features = {}
    lacks = np.zeros(len(records), bool)  # which records have nothing of some feature
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if name == STEPS:
            features.update(_feature_lists(column))
        else:
            lengths = _lengths(column)
            features[Name(name)] = _measure(lengths, column.flatten(), name in watched) if lengths.any() else Stats()
            lacks |= lengths == 0
    kinds: dict[str, set[Listed]] = defaultdict(set)
    for record in filter(may_have_empty, compress(records, lacks)):
        for feature, kind in empty_lists(record):
            kinds[feature].add(kind)
    for feature, empty in kinds.items():
        features[Name(feature)] = replace(features[Name(feature)], empty=frozenset(empty))
    return features


def strings_of(records: Sequence[bytes], name: str) -> list[bytes]:
    """The strings of a feature of some records, one after the other; none where it holds no strings.

    Raises:
      ValueError: if a record is neither an Example nor a SequenceExample, or a feature has several types.
    """
    batch = _decoded(records)
    if name not in batch.schema.names:
        return []
    column = batch.column(batch.schema.names.index(name))
    values = column.flatten() if _is_list(column.type) else pa.nulls(0)
    return values.to_pylist() if pa.types.is_large_binary(values.type) or pa.types.is_binary(values.type) else []


def _decoded(records: Sequence[bytes]) -> Any:
    """Records as columns.

    Raises:
      ValueError, Mixed: see `look_at`.
    """
    try:
        return _decoder(any(map(has_steps, records))).DecodeBatch(records)
    except Exception as error:  # pybind gives RuntimeError for all that is wrong
        reason = first_line(error)
        raise (Mixed if "type" in reason.lower() else ValueError)(reason) from None


@lru_cache(maxsize=2)
def _decoder(sequences: bool) -> Any:
    from tfx_bsl.coders import example_coder, sequence_example_coder

    if sequences:
        return sequence_example_coder.SequenceExamplesToRecordBatchDecoder(STEPS)
    return example_coder.ExamplesToRecordBatchDecoder()


def _lengths(column: pa.Array) -> np.ndarray:
    """How many entries each list has, int64; 0 where there is none."""
    if not _is_list(column.type):
        return np.zeros(len(column), np.int64)
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    return lengths.astype(np.int64)


def _feature_lists(column: pa.StructArray) -> Features:
    features: Features = {}
    for name, lists in zip((part.name for part in column.type), column.flatten(), strict=True):
        inner = lists.flatten() if _is_list(lists.type) else lists
        stats = Stats()
        if _is_list(inner.type):  # else no step has a value
            widths = _lengths(inner)
            stats = _measure(_lengths(lists), inner.flatten(), False)
            stats = replace(stats, widths=(int(widths.min()), int(widths.max()))) if stats.records else stats
        features[Name(name, True)] = stats
    return features


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind)


def _measure(lengths: np.ndarray, values: pa.Array, is_watched: bool) -> Stats:
    filled = lengths[lengths > 0]
    if not len(filled) or pa.types.is_null(values.type):
        return Stats()
    stats = Stats(
        records=len(filled),
        shortest=int(filled.min()),
        longest=int(filled.max()),
        divisor=int(np.gcd.reduce(filled)),
    )
    if pa.types.is_floating(values.type) or pa.types.is_integer(values.type):
        return _of_numbers(stats, values, is_watched)
    sizes = pc.min_max(pc.binary_length(values)).as_py()
    is_image = pc.all(reduce(pc.or_, [pc.starts_with(values, magic) for magic in IMAGES])).as_py()
    counts = _counts(values) if is_watched else {}
    return replace(
        stats, counts=counts, listed="bytes", low=sizes["min"], high=sizes["max"], content=IMAGE if is_image else ""
    )


def _counts(values: pa.Array) -> dict[int | str, int] | None:
    """How often each number or text comes; None where some are no text, or there are too many."""
    counted = pc.value_counts(values)
    if len(counted) > MOST_VALUES:
        return None
    names, times = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
    try:
        return {name.decode() if isinstance(name, bytes) else name: k for name, k in zip(names, times, strict=True)}
    except UnicodeDecodeError:
        return None


def _of_numbers(stats: Stats, values: pa.Array, is_watched: bool) -> Stats:
    numbers = values.to_numpy(zero_copy_only=False)
    finite = np.isfinite(numbers)
    real = numbers[finite] if not finite.all() else numbers
    low, high = (real.min().item(), real.max().item()) if len(real) else (None, None)
    is_whole = numbers.dtype.kind == "i"
    stats = replace(stats, listed="int64" if is_whole else "float32", low=low, high=high, finite=bool(finite.all()))
    if not is_watched:
        return stats
    counts = _counts(values) if is_whole else None
    return replace(stats, moments=Moments.of(numbers.reshape(-1, 1)), counts=counts)


def _least(a: Any, b: Any, choose: Any) -> Any:
    return b if a is None else a if b is None else choose(a, b)


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
