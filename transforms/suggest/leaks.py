"""Columns that tell the label by themselves, measured on the sampled rows: beside one a model learns nothing else."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.transforms.sources.columns.labels import class_names
from beamfeed.transforms.sources.columns.numbers import is_number, plain, to_float32
from beamfeed.transforms.suggest.columns import Column
from beamfeed.transforms.suggest.label import classifies

_LEFT = 0.01  # of what the most frequent class gets wrong: a column that leaves less tells the label
_OTHERS = 5  # rows of other classes than the most frequent, of fewer nothing can be said
_CUT_ROWS = 20  # of each class, where a number is to part them
_ORDER = 0.9995  # of a rank correlation, from which on one number is made of the other


def find_leaks(batches: Sequence[pa.RecordBatch], label: Column, features: Mapping[str, Column]) -> dict[str, str]:
    """The features from which alone the label follows, and how.

    Args:
      batches: sampled rows.
      label: the column to learn.
      features: columns that would be inputs: numbers, true and false, and words.
    """
    if classifies(label):
        classes = _codes(batches, label.name)
        return {name: how for name, column in features.items() if (how := _fixes_classes(batches, column, classes))}
    amounts = np.concatenate(numbers_of(batches, label.name))
    return {
        name: f"it rises or falls with {label.name} in every row"
        for name, column in features.items()
        if column.kind == "number" and _same_order(np.concatenate(numbers_of(batches, name)), amounts)
    }


def _fixes_classes(batches: Sequence[pa.RecordBatch], column: Column, classes: np.ndarray) -> str:
    """How the values of a column tell the classes, int64 [rows], -1 where none is known; empty if they do not."""
    is_known = classes >= 0
    counts = np.bincount(classes[is_known])
    minority = int(counts.sum() - counts.max(initial=0))
    if minority < _OTHERS:
        return ""
    codes = _codes(batches, column.name) + 1  # a missing value is one of them
    pairs, times = np.unique(codes[is_known] * len(counts) + classes[is_known], return_counts=True)
    _, place = np.unique(pairs // len(counts), return_inverse=True)
    of_value, most = np.zeros((2, place.max() + 1), np.int64)
    np.add.at(of_value, place, times)
    np.maximum.at(most, place, times)
    # A value that is there once tells nothing of others.
    wrong = int((of_value - most).sum() + (of_value == 1).sum())
    if wrong <= _LEFT * minority:
        return "each of its values goes with one class of the label"
    if column.kind == "number" and _parted(np.concatenate(numbers_of(batches, column.name)), classes, counts):
        return "each class of the label has a range of its values"
    return ""


def _parted(values: np.ndarray, classes: np.ndarray, counts: np.ndarray) -> bool:
    """Whether in the order of the values each class, with enough rows, is one run, and no value is of two classes."""
    fine = (classes >= 0) & np.isfinite(values)
    if counts[counts > 0].min() < _CUT_ROWS or fine.sum() < 0.99 * (classes >= 0).sum():
        return False
    order = np.argsort(values[fine], kind="stable")
    changes = np.flatnonzero(np.diff(classes[fine][order]))
    rises = np.diff(values[fine][order])[changes] > 0
    return len(changes) == (counts > 0).sum() - 1 and bool(rises.all())


def _same_order(values: np.ndarray, amounts: np.ndarray) -> bool:
    """Whether two numbers, float64 [rows], have the same or the opposite order."""
    fine = np.isfinite(values) & np.isfinite(amounts)
    if fine.sum() < max(_CUT_ROWS, 0.5 * np.isfinite(amounts).sum()):
        return False
    ranks = [_ranks(values[fine]) for values in (values, amounts)]
    return all(map(np.ptp, ranks)) and abs(float(np.corrcoef(ranks)[0, 1])) >= _ORDER


def _ranks(values: np.ndarray) -> np.ndarray:
    """The place of each value in their order; of equal ones the middle one."""
    _, place, times = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(times) - (times - 1) / 2)[place]


def _codes(batches: Sequence[pa.RecordBatch], name: str) -> np.ndarray:
    """A number for each value of a column, int64 [rows]; -1 where it is missing, or an empty text."""
    texts = pa.chunked_array([plain(batch.column(name)).cast(pa.string()) for batch in batches])
    encoded = pc.dictionary_encode(pc.if_else(pc.equal(texts, ""), None, texts)).combine_chunks()
    return encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def numbers_of(batches: Sequence[pa.RecordBatch], name: str) -> list[np.ndarray]:
    """The numbers of a column, float64 [rows] of each batch; NaN where one is missing."""
    parts = [plain(batch.column(name)) for batch in batches]
    return [
        to_float32(part).astype(np.float64) if is_number(part.type) else np.full(len(part), np.nan) for part in parts
    ]


def count_classes(batches: Sequence[pa.RecordBatch], label: Column) -> dict[str, int]:
    """By the names of the classes of a label, their rows; the commonest first."""
    columns = [class_names(plain(batch.column(label.name))) for batch in batches]
    counted = pc.value_counts(pa.chunked_array(columns).drop_null()).to_pylist()
    return {entry["values"]: entry["counts"] for entry in sorted(counted, key=lambda entry: -entry["counts"])}
