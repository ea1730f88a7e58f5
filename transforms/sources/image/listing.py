"""The images of a job, each with what is known of it, in runs that one worker reads at a time.

What is known is joined once, where the job is submitted. A run is a file of the job's own, so that a million small
images are some hundreds of elements. Images come into runs in the order of a hash, so that each holds a fair sample of
its split: training meets all folders in any part of the data.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import printable
from beamfeed.transforms.sources.columns.labels import (
    class_names,
    find_unlisted,
    read_label,
    without,
    words_for_no_class,
)
from beamfeed.transforms.sources.columns.numbers import is_missing, parse_numbers
from beamfeed.transforms.sources.image.image_list import join_list
from beamfeed.transforms.sources.image.run_file import RunFacts, label_column, starts_by_size, write_run
from beamfeed.transforms.sources.image.schema import ImageSchema, image_source, path_columns, pattern_of
from beamfeed.transforms.splits import NONE, places_by_fraction, places_by_hash, places_by_value, some_values
from beamfeed.transforms.statistics.hashes import hash_texts

RUN_BYTES = 64 << 20  # of files in a run
MOST_IMAGES = 2048  # in a run
_ABSENT = -1  # the size of a file that a list names and that is not there
UNLISTED = "images that are not in the list, left out"
UNLABELLED, UNUSED = "images without a label, left out", "images in no split, left out"
_WRITERS = 16  # runs that are written at a time


@dataclass(frozen=True)
class Images:
    """n images and what is known of them.

    Attributes:
      table: path, name, size, mtime, wrong (why one cannot be used; null), and a column for each label.
      place: int8 [n], of the split among SPLITS, or NONE.
      left_out: how many take no part, by the words that tell why.
      values: of split.column, for messages.
    """

    table: pa.Table
    place: np.ndarray
    left_out: Counter[str]
    values: frozenset[str] = frozenset()


def list_runs(
    job: Job, schema: ImageSchema, files: Sequence[FileStat], scratch: str, *, whole: bool, may_be_none: bool
) -> list[FileStat]:
    """Writes the runs of a job, and gives their files.

    Args:
      job: on images.
      schema: of it.
      files: the images.
      scratch: the folder to write to.
      whole: whether these are all the images there are, so that what a list names beside them is not there.
      may_be_none: whether there may be no runs, as the job adds to a dataset.

    Raises:
      UserError: if the list does not fit the files, or no image takes part and one has to.
    """
    images = gather_images(job, schema, files, complete=whole)
    jobs = [
        (storage.join(scratch, f"{facts.split}-{number:06d}.arrow"), images.table.take(pa.array(rows)), facts)
        for number, (facts, rows) in enumerate(cut_runs(images, job.split.seed))
    ]
    if not jobs and not may_be_none:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(images.left_out.items()))
        raise UserError(f"source.files: no image takes part ({reasons})")
    with ThreadPoolExecutor(_WRITERS) as pool:
        return list(pool.map(lambda arguments: write_run(*arguments), jobs))


def cut_runs(images: Images, seed: int) -> Iterator[tuple[RunFacts, np.ndarray]]:
    """The runs: of each what is told of it, and the images, int64, in the order of a hash."""
    hashes = hash_texts(images.table["name"].combine_chunks(), seed + 1)  # another one than deals out the splits
    weights = np.maximum(images.table["size"].to_numpy(), RUN_BYTES // MOST_IMAGES)
    first = True
    for place, split in enumerate(SPLITS):
        rows = np.flatnonzero(images.place == place)
        rows = rows[np.argsort(hashes[rows], kind="stable")]
        for run in np.split(rows, starts_by_size(weights[rows], RUN_BYTES)[1:]) if len(rows) else ():
            size = int(images.table["size"].take(pa.array(run)).to_numpy().clip(0).sum())
            left_out = dict(images.left_out) if first else {}
            yield RunFacts(split, len(run), size, left_out, tuple(sorted(images.values)) if first else ()), run
            first = False


def gather_images(job: Job, schema: ImageSchema, files: Sequence[FileStat], *, complete: bool) -> Images:
    """What is known of the images; see `list_runs`."""
    source = image_source(job)
    paths = [printable(file.path) for file in files]
    names = names_below(paths, source.patterns)
    sizes, times = [file.size for file in files], [file.mtime for file in files]
    wrong = [None if path == file.path else "its name is not UTF-8" for path, file in zip(paths, files, strict=True)]
    listed, columns = np.ones(len(files), bool), dict[str, pa.Array]()
    null_words: Sequence[str] = ()
    if schema.listed is not None:
        assert source.list is not None
        joined = join_list(source, schema.listed, paths)
        absent = joined.absent if complete else []
        for row in absent:
            paths.append(joined.paths[row] or "")
            names.append(joined.paths[row] or "")
            sizes.append(_ABSENT)
            times.append(0)
            wrong.append(f"is named by row {row} of {source.list.file}, and is not among the files")
        rows = np.concatenate([joined.row, absent]).astype(np.int64)
        listed = rows >= 0
        of_rows = pa.array(rows, mask=~listed)
        columns = {name: joined.columns[name].take(of_rows) for name in schema.listed.names}
        null_words = schema.listed.text.null_words(source.list.file)
    pattern = pattern_of(source)
    from_paths = [path_columns(path, name, pattern) for path, name in zip(paths, names, strict=True) if schema.of_path]
    for column_name in schema.of_path:
        columns[column_name] = pa.array([values.get(column_name) for values in from_paths], pa.string())
    labels = _labels(schema, columns, null_words, wrong)
    key = None if schema.key is None else class_names(columns[schema.key])
    for at in [] if key is None else np.flatnonzero(is_missing(key) & listed).tolist():
        wrong[at] = wrong[at] or f"{schema.key} is missing"
    column = None if schema.split is None else class_names(columns[schema.split])
    bad = np.array([reason is not None for reason in wrong])
    labelled = np.logical_and.reduce([np.ones(len(paths), bool), *(~is_missing(column) for column in labels.values())])
    part = listed & (labelled | bad)
    rows_in, rows_of_labels = pa.array(np.flatnonzero(part)), next(iter(labels.values()), None)
    place = np.full(len(paths), NONE, np.int8)
    place[part] = split_images(
        pa.array(names).take(rows_in), job.split,
        column=None if column is None else column.take(rows_in),
        key=None if key is None else key.take(rows_in),
        classes=rows_of_labels.take(rows_in) if job.split.stratify and rows_of_labels is not None else None,
    )  # fmt: skip
    left_out = Counter({
        UNLISTED: int((~listed).sum()),
        UNLABELLED: int((listed & ~labelled & ~bad).sum()),
        UNUSED: int((part & ~bad & (place == NONE)).sum()),
    })  # fmt: skip
    place[part & bad & (place == NONE)] = 0  # so that somebody tells what is wrong with it
    values = [] if column is None else column.filter(pa.array(listed)).unique().drop_null().to_pylist()
    table = pa.table({
        "path": pa.array(paths, pa.string()), "name": pa.array(names, pa.string()), "size": pa.array(sizes, pa.int64()),
        "mtime": pa.array(times, pa.int64()), "wrong": pa.array(wrong, pa.string()), **labels,
    })  # fmt: skip
    return Images(table, place, +left_out, frozenset(some_values(values, job.split)))


def _labels(
    schema: ImageSchema, columns: dict[str, pa.Array], null_words: Sequence[str], wrong: list[str | None]
) -> dict[str, pa.Array]:
    """A column for each label: names of classes, or float32; what is wrong with some is told."""
    by_name = {}
    for number, spec in enumerate(schema.labels):
        column, of_path = columns[spec.column], spec.column in schema.of_path
        if of_path and spec.classes is None:
            column, bad = parse_numbers(column)
            for at, text in bad.items():
                wrong[at] = wrong[at] or f"{spec.column} is {text!r}, which is not a number"
        elif not of_path and spec.classes is not None and pa.types.is_string(column.type):
            column = without(column, words_for_no_class(spec, null_words))
        values = read_label(column, spec)
        for at in np.flatnonzero(find_unlisted(values, spec)).tolist():
            wrong[at] = wrong[at] or spec.why_unlisted(values[at])
        by_name[label_column(number)] = values
    return by_name


def names_below(paths: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """What of each path stands below the folder of the job's files, see `storage.below`."""
    if len(patterns) != 1 or not paths or paths[0] == patterns[0]:
        return [storage.below(path, patterns) for path in paths]
    prefix = paths[0].removesuffix(storage.below(paths[0], patterns))
    return [path[len(prefix) :] if path.startswith(prefix) else storage.below(path, patterns) for path in paths]


def split_images(
    names: pa.Array, split: Split, *, column: pa.Array | None = None, key: pa.Array | None = None,
    classes: pa.Array | None = None,
) -> np.ndarray:  # fmt: skip
    """int8 [n]: the place of each image's split among SPLITS, or NONE.

    By a hash it depends on the image's name, or its key, alone: a folder that grows moves none. Stratified, the images
    of a class are put in the order of their hashes, and the order is cut, so that each class has its exact share.

    Args:
      names: string [n], the same wherever the folder of the images is.
      split: of the job.
      column: string [n], with by: column.
      key: string [n], with by: key.
      classes: string [n], of the label, with `stratify`.
    """
    if split.by == "column":
        assert column is not None
        return places_by_value(column, split)
    hashes = hash_texts(names if key is None else key, split.seed)
    return places_by_hash(hashes, split) if classes is None else places_by_fraction(_ranks(hashes, classes), split)


def _ranks(hashes: np.ndarray, classes: pa.Array) -> np.ndarray:
    """Float64 [n] in (0, 1): where an image stands among those of its class, in the order of their hashes."""
    codes = classes.dictionary_encode(null_encoding="encode").indices.to_numpy()
    places = np.empty(len(codes))
    for code in range(codes.max(initial=-1) + 1):
        rows = np.flatnonzero(codes == code)
        order = rows[np.argsort(hashes[rows], kind="stable")]
        places[order] = (np.arange(len(rows)) + 0.5) / max(1, len(rows))
    return places
