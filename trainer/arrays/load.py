"""Files of arrays -> `tf.data.Dataset` of batches of rows, without a dataset in between.

The order is that of `load_dataset`: runs of rows are its blocks, and a step's rows
follow from the lengths of the arrays, seed, epoch and step alone.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from pydantic import ValidationError

from beamfeed.contract import storage
from beamfeed.contract.arrays.catalog import NamedArray, find_arrays
from beamfeed.contract.arrays.npy import TEXTS
from beamfeed.contract.config.sources.array import ArraySource
from beamfeed.contract.errors import UserError
from beamfeed.trainer.arrays.values import Values, batch_bytes, cut_blocks, values_of
from beamfeed.trainer.feed.batching import Batching, Remainder
from beamfeed.trainer.feed.cache import local_copies
from beamfeed.trainer.feed.graph import GRAPH
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.feed.order import Line
from beamfeed.trainer.feed.reading import Reading
from beamfeed.trainer.feed.sharding import Distribution
from beamfeed.trainer.feed.shards import Index

BLOCK_BYTES = 256 << 10  # of rows that follow each other
CHUNK_BYTES = 8 << 20  # of rows gathered at a time: calls soon take longer than one copy of each row

Path = str | os.PathLike[str]
Files = Path | Sequence[Path] | Mapping[str, Any]


def load_arrays(
    inputs: Mapping[str, Files],
    outputs: Mapping[str, Files] | None = None,
    *,
    batch_size: int,
    rows: tuple[int, int] | None = None,
    shuffle: int = 0,
    seed: int = 7,
    epochs: int | None = 1,
    remainder: Remainder = "drop",
    distribution: Distribution = Distribution(),
    options: FeedOptions = FeedOptions(),
) -> tf.data.Dataset:
    """The rows of arrays in batches, in an order that the arguments decide and nothing else.

    Files are `.npy`, `.npz` that is not packed, and HDF5 whose arrays are not in chunks. They are mapped into memory,
    none is read as a whole. Those on gs:// are copied first, to a folder of this machine's temporary files (TMPDIR)
    that its processes share.

    Args:
      inputs: by name, the files of each array: a path, a glob or a list of them, local or gs://; of files of several
        arrays a mapping, `{"files": "digits.npz", "array": "image"}`. Rows of several files come one after the
        other, in the order of the files' names.
      outputs: likewise, what a model is to tell.
      batch_size: rows in a global batch, over all workers together.
      rows: the first row that is read, and the one after the last; left out, all. Two ranges make two splits.
      shuffle: rows that are mixed at a time, drawn from `options.lanes` places of the arrays at once; 0 keeps the
        order.
      seed: of the order; `tf.random.set_seed` has no influence.
      epochs: how many; None reads without end.
      remainder: what happens to the last rows of an epoch, fewer than a batch. drop: they are left out (where rows are
        shuffled, other ones in each epoch). pad: the batch is filled with zeros.
      distribution: whose rows of each global batch are read. The global batches do
        not depend on the number of workers. The rows of a worker with several
        replicas come as so many consecutive batches.
      options: `start`, `lanes` and `tuning`, of which `parallel`, `prefetch` and `rounds` count.

    Returns:
      A dataset with known cardinality: dicts of tensors `[batch, *shape]` by the names of the inputs, in the dtypes of
      the files; with outputs, pairs of two such dicts. Where padded, float32 weights `[batch]` come last, 0 for what
      was filled in. So it is what `keras.Model.fit` takes.

    Raises:
      TypeError: if a number is not whole, or arrays are given in the place of files.
      ValueError: if an argument is out of its range.
      UserError: if an array cannot be read in this way, or the arrays have not the same number of rows, or there is no
        full batch (padded: no row), or fewer rows in a batch than devices.

    Example:
      >>> import numpy as np
      >>> np.save("x.npy", np.arange(12, dtype="f4").reshape(6, 2))
      >>> np.save("y.npy", np.arange(6))
      >>> x, y = next(iter(beamfeed.load_arrays({"x": "x.npy"}, {"y": "y.npy"}, batch_size=3)))
      >>> x["x"].shape, y["y"].numpy().tolist()
      (TensorShape([3, 2]), [0, 1, 2])
    """
    options.allow("load_arrays", "start", "lanes", "tuning")
    batching = Batching(batch_size, shuffle, seed, epochs, remainder, distribution, options)
    arrays = _find(inputs, outputs or {})
    total = arrays[0].rows
    first, end = rows or (0, total)
    if rows is not None and not 0 <= first < end <= total:
        raise UserError(f"rows: {rows} is no range of the {total:,} rows")
    if end - first < batch_size and not batching.is_padded:
        raise UserError(f"batch_size: {batch_size} is more than the {end - first:,} rows that there are")
    row_bytes = batch_bytes(arrays)
    blocks = cut_blocks(arrays, first, end, BLOCK_BYTES)
    ones = np.ones(len(blocks.rows), np.int64)
    index = Index(np.zeros(len(ones), np.int64), blocks.first, ones, blocks.rows, blocks.rows * row_bytes)
    order = batching.order(GRAPH, index, end - first, row_bytes, (end - first) * row_bytes)
    sources = {array.name: values_of(array, blocks, _local_paths(array)) for array in arrays}
    firsts, counts = (tf.constant(column) for column in blocks)

    def read_round(epoch: tf.Tensor, number: tf.Tensor, line: Line, skip: tf.Tensor) -> Any:
        round_ = order.round(line, number, skip)
        row = round_.place + tf.gather(tf.gather(firsts, round_.blocks) - round_.first, round_.block)
        before = tf.cumsum(tf.gather(counts, round_.blocks), exclusive=True)
        place = round_.place + tf.gather(before - round_.first, round_.block)
        return {name: source.prepare(round_.blocks) for name, source in sources.items()}, row, place, round_.present

    return _cut(Reading(order, batching), read_round, sources, list(outputs or {}), row_bytes)


def _find(inputs: Mapping[str, Files], outputs: Mapping[str, Files]) -> list[NamedArray]:
    """The arrays, of which all rows can be read by ranges.

    Raises:
      UserError
    """
    sections = {group: _sections(group, some) for group, some in (("inputs", inputs), ("outputs", outputs))}
    try:
        source = ArraySource.model_validate({"kind": "array", **sections})
    except ValidationError as error:
        wrong = error.errors()[0]
        place = ".".join(str(part) for part in wrong["loc"] if part != "[key]")
        raise UserError(f"load_arrays: {place or 'inputs'}: {wrong['msg'].removeprefix('Value error, ')}") from None
    files, empty = storage.match_inputs(source.patterns, source.suffixes)
    if empty:
        key = source.key_of(empty[0]).removeprefix("source.")
        raise UserError(f"{key}: no file matches {empty[0]} (suffixes: {source.suffix_text()})")
    specs = source.array_specs(files, prefix="")
    arrays = find_arrays(specs)
    for spec, array in zip(specs, arrays, strict=True):
        if array.dtype in TEXTS:
            raise UserError(f"{spec.key}: {spec.files[0].path} holds texts; preprocess it, then load_dataset reads it")
        for part in array.parts:
            if not part.stored.is_ranged:
                how = "in Fortran's order" if part.stored.fortran else "packed or in chunks"
                raise UserError(
                    f"{spec.key}: {part.stored.file.path} has its values {how}, so rows are not byte ranges; "
                    "write it with numpy.save (of a C-ordered array), or preprocess it"
                )
    return arrays


def _local_paths(array: NamedArray) -> list[str]:
    """Where the files of an array are on this machine; those of a bucket are copied, once for all its processes."""
    files = [part.stored.file for part in array.parts]
    remote = [file for file in files if storage.is_remote(file.path)]
    copies = local_copies(f"arrays {remote[0].path.rpartition('/')[0]}", remote, "none") if remote else []
    copied = dict(zip((file.path for file in remote), copies, strict=True))
    return [copied.get(file.path, file.path) for file in files]


def _sections(group: str, arrays: Mapping[str, Files]) -> dict[str, Any]:
    """Each array's section, as a job file has it; raises TypeError where files are not named."""
    if not isinstance(arrays, Mapping):
        kind = type(arrays).__name__
        raise TypeError(f"{group} is a {kind}, it must be a mapping of names to files, such as {{'x': 'x.npy'}}")
    return {name: _section(f"{group}.{name}", files) for name, files in arrays.items()}


def _section(key: str, files: Any) -> Any:
    if isinstance(files, Mapping):
        return {name: _section(key, value) if name == "files" else value for name, value in files.items()}
    if isinstance(files, list | tuple):
        return [_section(key, file) for file in files]
    if isinstance(files, np.ndarray):
        raise TypeError(f"{key} is an array; give files; numpy.save writes one")
    return os.fspath(files) if isinstance(files, os.PathLike) else files


def _cut(
    reading: Reading, read_round: Callable[..., Any], sources: Mapping[str, Values], outputs: Sequence[str],
    row_bytes: int,
) -> tf.data.Dataset:  # fmt: skip
    """Rounds -> the batches of each replica, as `load_arrays` gives them."""
    size, padded = reading.order.share.size, reading.batching.is_padded
    chunk = size * max(1, CHUNK_BYTES // (size * row_bytes))

    def count(prepared: Any, row: tf.Tensor, place: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
        return tf.size(row, tf.int64)

    def to_rows(first: tf.Tensor, prepared: Any, row: tf.Tensor, place: tf.Tensor, present: tf.Tensor) -> Any:
        row, place, present = (part[first : first + chunk] for part in (row, place, present))
        fields = {name: source.take(prepared[name], row, place) for name, source in sources.items()}
        if padded:
            fields = {name: _without(values, present) for name, values in fields.items()}
        return _paired(fields, outputs, tf.cast(present, tf.float32) if padded else None)

    return reading.batches(reading.rounds(read_round), count, to_rows, chunk=chunk, row_bytes=row_bytes)


def _without(values: tf.Tensor, present: tf.Tensor) -> tf.Tensor:
    """Zeros in the place of rows that are not there."""
    wide = tf.reshape(present, [-1] + [1] * (values.shape.rank - 1))
    return tf.cond(tf.reduce_all(present), lambda: values, lambda: tf.where(wide, values, tf.zeros([], values.dtype)))


def _paired(fields: dict[str, tf.Tensor], outputs: Sequence[str], weights: tf.Tensor | None) -> Any:
    """Inputs; with outputs a pair; with weights these last."""
    x = {name: values for name, values in fields.items() if name not in outputs}
    parts: list[Any] = [x]
    if outputs:
        parts.append({name: fields[name] for name in outputs})
    if weights is not None:
        parts.append(weights)
    return tuple(parts) if len(parts) > 1 else x
