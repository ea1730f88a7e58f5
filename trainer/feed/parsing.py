"""Serialized records -> the values of their fields, checked against each other."""

from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.fields import LENGTHS, Field, Listed
from beamfeed.contract.dataset.windows import MISMATCH, count_windows
from beamfeed.trainer.feed.fields import FieldSelection

LISTED: dict[Listed, tf.DType] = {"float32": tf.float32, "int64": tf.int64, "bytes": tf.string}
HASHES = 2**62  # of names of classes; two of one hash would be refused by what is compared after it
NOT_DECODED = {tf.uint32: tf.int32, tf.uint64: tf.int64}  # by tf.io.decode_raw, and what has the same size


class Parsed(NamedTuple):
    """The values of some records, those of each after those of the one before it.

    Attributes:
      columns: the values of each wanted field, `[values, *shape]`. Where values may be of any length, their entries,
        `[entries, *shape[1:]]`, and under `<name>.lengths` how many each value has, int64 `[values]`.
      rows: int64 `[records]`, how many each has.
      present: int64 `[records]`, 0 for an empty string and 1 for a record.
    """

    columns: dict[str, tf.Tensor]
    rows: tf.Tensor
    present: tf.Tensor


def parse(serialized: tf.Tensor, selection: FieldSelection) -> Parsed:
    """Parses strings `[records]`. An empty string is a record without any value.

    Raises:
      tf.errors.InvalidArgumentError: with MISMATCH and the name of the field, if a field does not have a whole value
        for each row, window, or the record; or TensorFlow's own, if it is of another dtype.
    """
    lists = _parse(serialized, selection)
    present = tf.cast(tf.strings.length(serialized) > 0, tf.int64)
    sizes = {field.name: lists[field.name].row_lengths() for field in selection.parsed}
    counts = {field.name: _count(lists, field, present, sizes[field.name]) for field in selection.parsed}
    rows = counts[selection.rows_of.name]
    expected = {"row": rows, "record": present}
    if any(field.per == "window" for field in selection.parsed):
        expected["window"] = count_windows(rows, selection.windows.length, selection.windows.stride)
    checks = []
    for field in selection.parsed:
        count, wanted = counts[field.name], expected[field.per]
        conditions = _whole(lists, field, sizes[field.name], count)
        if count is not wanted:
            conditions.append(count == wanted)
        checks += [(tf.reduce_all(condition), f"{MISMATCH}: field {field.name}") for condition in conditions]
    with checked(*checks):
        columns = {field.name: tf.reshape(_values(lists, field, present), _shape(field)) for field in selection.stored}
        rows = tf.identity(rows)
    lengths = {field.name + LENGTHS: _lengths(lists, field, present) for field in selection.stored if field.is_ragged}
    return Parsed(columns | lengths, rows, present)


def checked(*checks: tuple[tf.Tensor, str]) -> AbstractContextManager[Any]:
    """What is made inside comes after these checks: bool scalars, each with what to say where it is false.

    `tf.debugging.assert_equal` and the like put the numbers into the message, for which they trace two more functions:
    an eighth of the time that it takes to make a feed.

    Raises:
      tf.errors.InvalidArgumentError: where one is false, when it is computed.
    """
    return tf.control_dependencies([tf.debugging.Assert(condition, [message]) for condition, message in checks])


Lists = dict[str, tf.RaggedTensor]  # lists by record, of each field


def _parse(serialized: tf.Tensor, selection: FieldSelection) -> Lists:
    """The lists of each field, `[records, entries]`; of one in steps, `[records, steps, entries]`."""
    specs, steps = _features(selection), [field.name for field in selection.parsed if field.stored == "steps"]
    if not steps:
        return dict(tf.io.parse_example(serialized, specs))
    in_steps = {name: specs.pop(name) for name in steps}
    context, lists, _ = tf.io.parse_sequence_example(serialized, specs or None, in_steps)
    return {**context, **lists}


def _features(selection: FieldSelection) -> dict[str, tf.io.RaggedFeature]:
    """What is parsed of each record."""
    spec = {
        field.name: tf.io.RaggedFeature(LISTED[field.listed], field.in_records, row_splits_dtype=tf.int64)
        for field in selection.parsed
    }
    lengths = [field.name + LENGTHS for field in selection.parsed if field.is_ragged and field.stored == "rows"]
    return spec | {name: tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64) for name in lengths}


def _count(lists: Lists, field: Field, present: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
    """How many values of a field each record has, whose lists have so many entries."""
    if field.stored != "rows" or field.default is not None:  # a record is a row
        return present
    if field.is_ragged:
        return lists[field.name + LENGTHS].row_lengths()
    return sizes if field.listed_width == 1 else sizes // field.listed_width


def _whole(lists: Lists, field: Field, sizes: tf.Tensor, count: tf.Tensor) -> list[tf.Tensor]:
    """What must hold, each a tensor of bools, so that no value has a part missing, nor an entry is of none."""
    if field.stored == "steps":
        return [lists[field.name].values.row_lengths() == field.width]
    if field.stored == "list":
        return [sizes % field.width == 0] if field.width > 1 else []
    if field.default is not None:
        return [(sizes == 0) | (sizes == field.width)]
    conditions = []
    if field.is_ragged:
        lengths = lists[field.name + LENGTHS]
        conditions += [lengths.flat_values >= 0, sizes == tf.reduce_sum(lengths, axis=1) * field.listed_width]
    elif field.listed_width > 1:
        conditions.append(sizes == count * field.listed_width)
    if field.is_raw:
        conditions.append(tf.strings.length(lists[field.name].flat_values) == field.bytes)
    return conditions


def _values(lists: Lists, field: Field, present: tf.Tensor) -> tf.Tensor:
    values = lists[field.name].flat_values
    if field.default is not None:
        filled = lists[field.name].to_tensor(field.default, shape=[None, field.width])
        values = tf.reshape(tf.boolean_mask(filled, present > 0), [-1])
    if field.spelled:
        return class_numbers(values, field)
    if not field.is_raw:
        return values
    dtype = tf.as_dtype(field.dtype)
    decoded = tf.io.decode_raw(values, NOT_DECODED.get(dtype, dtype))
    return tf.bitcast(decoded, dtype) if dtype in NOT_DECODED else decoded


def class_numbers(names: tf.Tensor, field: Field) -> tf.Tensor:
    """The numbers of classes, int64 `[values]`, by their names, strings `[values]`: looked up by a hash.

    Raises:
      tf.errors.InvalidArgumentError: with MISMATCH and the name of the field, if there is no such class.
    """
    classes = np.array([name.encode() for name in field.classes], object)
    with tf.init_scope():  # now, not in the graph
        hashes = tf.strings.to_hash_bucket_fast(classes, HASHES).numpy()
    order = np.argsort(hashes)
    place = tf.searchsorted(hashes[order], tf.strings.to_hash_bucket_fast(names, HASHES), out_type=tf.int64)
    place = tf.minimum(place, len(classes) - 1)
    is_known = tf.reduce_all(tf.gather(tf.constant(classes[order].tolist()), place) == names)
    with checked((is_known, f"{MISMATCH}: field {field.name}")):
        return tf.gather(tf.constant(order, tf.int64), place)


def _lengths(lists: Lists, field: Field, present: tf.Tensor) -> tf.Tensor:
    """How many entries each value of any length has, int64 `[values]`."""
    if field.stored == "rows":
        return lists[field.name + LENGTHS].flat_values
    width = 1 if field.stored == "steps" else field.width
    return tf.boolean_mask(lists[field.name].row_lengths() // width, present > 0)


def _shape(field: Field) -> list[int]:
    return [-1, *(size for size in field.shape if size is not None)]
