"""Encodes rows in workers: the operations of `encode` on NumPy's and Arrow's arrays."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from farmhash import Fingerprint64

from beamfeed.contract.config.features import Text
from beamfeed.transforms.sources.record_block import Ragged, Values
from beamfeed.transforms.sources.table.encode import SEPARATOR, encode
from beamfeed.transforms.sources.table.learned import LearnedTable, learned_of
from beamfeed.transforms.sources.table.schema import NamedFeature, TableSchema
from beamfeed.transforms.sources.table.statistics import TableStatistics
from beamfeed.transforms.sources.table.words import words_of

_SMALLEST = np.finfo(np.float32).tiny
_LN2 = np.float32(0.6931471805599453)
_TOP = tuple(map(np.float32, (0.18256296349849254, 1.0000000190281063, 1.0000000190281136)))
_BOTTOM = tuple(map(np.float32, (0.049616247954120038, 0.59923249590823520, 1.4999999999999927, 1.0)))


class Arrays:
    """Operations on arrays of NumPy, and strings of Arrow without nulls.

    Args:
      learned: of the training rows.
    """

    minimum = staticmethod(np.minimum)
    maximum = staticmethod(np.maximum)
    is_finite = staticmethod(np.isfinite)
    sign = staticmethod(np.sign)
    where = staticmethod(np.where)

    def __init__(self, learned: LearnedTable):
        self._learned = learned
        self._places = {
            name: {term: place for place, term in enumerate(lines)} for name, lines in learned.vocabularies.items()
        }

    def learned(self, name: str, shape: Sequence[int]) -> np.ndarray:
        return self._learned.numbers[name]

    def place(self, feature: NamedFeature, texts: pa.Array) -> np.ndarray:
        places = self._places[feature.name]
        return _by_value(texts, lambda values: [places.get(value, -1) for value in values.to_pylist()], np.int64)

    def own(self, feature: NamedFeature, inputs: Mapping[str, Any]) -> dict[str, Any]:
        raise TypeError(f"{feature.name}: functions of the user's own are for tensors")

    def stack(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        return np.stack(columns, axis=-1)

    def join(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate(parts, axis=-1)

    def columns(self, values: np.ndarray, places: Sequence[int]) -> np.ndarray:
        return values[:, list(places)]

    def gather(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        return values[places]

    def to_float(self, values: np.ndarray) -> np.ndarray:
        return values.astype(np.float32)

    def search(self, edges: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.searchsorted(edges, values, side="right")

    def log1p(self, values: np.ndarray) -> np.ndarray:
        return log1p(values)

    def is_empty(self, texts: pa.Array) -> np.ndarray:
        return pc.equal(texts, "").to_numpy(zero_copy_only=False)

    def hashed(self, texts: pa.Array, size: int) -> np.ndarray:
        hashes = _by_value(texts, lambda values: [*map(Fingerprint64, values.cast(pa.binary()).to_pylist())], np.uint64)
        return (hashes % np.uint64(size)).astype(np.int64)

    def joined(self, texts: Sequence[pa.Array]) -> pa.Array:
        return pc.binary_join_element_wise(*texts, SEPARATOR)

    def words(self, texts: pa.Array, section: Text) -> tuple[pa.Array, np.ndarray]:
        words = words_of(texts, section)
        return words.values, words.lengths

    def ragged(self, ids: np.ndarray, words: np.ndarray) -> Ragged:
        return Ragged(ids, words)

    def padded(self, ids: np.ndarray, words: np.ndarray, length: int) -> np.ndarray:
        row = np.repeat(np.arange(len(words)), words)
        column = np.arange(len(ids)) - np.repeat(np.cumsum(words) - words, words)
        fits = column < length
        numbers = np.zeros((len(words), length), np.int64)
        numbers[row[fits], column[fits]] = ids[fits]
        return numbers

    def passed(self, values: "np.ndarray | pa.Array") -> Values:
        return values if isinstance(values, np.ndarray) else values.cast(pa.binary())


def _by_value(texts: pa.Array, of_values: Any, dtype: Any) -> np.ndarray:
    """What a function gives of strings; it gets each of them once."""
    encoded = texts.dictionary_encode()
    return np.array(of_values(encoded.dictionary), dtype)[encoded.indices.to_numpy()]


def log1p(values: np.ndarray) -> np.ndarray:
    """The logarithm of 1 + x as TensorFlow's kernels have it where they take eight numbers at a time, to the bit.

    Args:
      values: float32 from 0 on.

    Eigen's rational approximation between the roots of 1/2 and 2 (`plog_impl_float`), and Kahan's correction
    (`generic_log1p`). Of the last numbers of a batch, which they take one by one, the last bit may be another.
    """
    one = np.float32(1)
    with np.errstate(all="ignore"):
        more = values + one
        mantissa, exponent = np.frexp(more)
        low = mantissa < np.float32(0.707106781186547524)
        x = mantissa - one + np.where(low, mantissa, np.float32(0))
        exponent = exponent.astype(np.float32) - low.astype(np.float32)
        logarithm = exponent * _LN2 + x * _polynomial(x, _TOP) / _polynomial(x, _BOTTOM)
        corrected = values * (logarithm / (more - one))
    logarithms = np.where((more == one) | ~np.isfinite(values), values, corrected)
    return np.where(values < _SMALLEST, np.float32(0), logarithms)


def _polynomial(x: np.ndarray, coefficients: Sequence[np.float32]) -> np.ndarray:
    total: Any = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return np.asarray(total)


class Encoder:
    """Encodes rows as the transform graph of the same statistics does."""

    _last: ClassVar["tuple[tuple[TableSchema, str], Encoder] | None"] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, schema: TableSchema, statistics: TableStatistics):
        self._schema, self._arrays = schema, Arrays(learned_of(schema, statistics))
        self._columns = list(dict.fromkeys(column for feature in schema.features for column in feature.columns))

    @classmethod
    def of(cls, schema: TableSchema, statistics: TableStatistics) -> "Encoder":
        """The encoder of a job; that of before, if it is of the same: large vocabularies take a while."""
        key = schema, statistics.digest
        with Encoder._lock:
            last = Encoder._last
            if last is None or last[0] != key:
                Encoder._last = last = key, cls(schema, statistics)
            return last[1]

    def __call__(self, rows: pa.RecordBatch) -> dict[str, Values]:
        """The fields of some rows, by name."""
        inputs = {name: _as_input(rows.column(name)) for name in self._columns}
        return encode(inputs, self._schema, self._arrays)


def _as_input(column: pa.Array) -> "np.ndarray | pa.Array":
    return column.fill_null("") if pa.types.is_string(column.type) else column.to_numpy(zero_copy_only=False)
