"""Runs of images in files of the job's own: first what is known of each, then what is kept of those that are right."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.storage import FileStat

_FACTS = b"run"  # the key of the file's metadata that holds the facts


@dataclass(frozen=True)
class RunFacts:
    """What is told of a run.

    Attributes:
      split: that all its images are in.
      images: how many.
      size: bytes of their files.
      left_out: of the first run, how many images of the job take no part, by the words that tell why.
      values: of the first run, of split.column.
    """

    split: SplitName
    images: int
    size: int
    left_out: Mapping[str, int]
    values: tuple[str, ...] = ()


def starts_by_size(sizes: np.ndarray, most: int) -> np.ndarray:
    """int64: where runs of about so many bytes begin, among images of some sizes, int64 [n]."""
    return np.flatnonzero(np.diff((np.cumsum(sizes) - sizes) // most, prepend=-1))


def label_column(number: int) -> str:
    """What the column of a label is called in a run."""
    return f"label {number}"


def write_run(path: str, table: pa.Table, facts: RunFacts) -> FileStat:
    """Writes what is known of the images of a run."""
    schema = table.schema.with_metadata({_FACTS: json.dumps(vars(facts)).encode()})
    with storage.open_output(path) as target, pa.ipc.new_stream(target, schema) as writer:
        writer.write_table(table.replace_schema_metadata(schema.metadata))
    return storage.stat(path)


def read_facts(path: str) -> RunFacts:
    """What is told of a run."""
    with storage.open_input(path) as file, pa.ipc.open_stream(file) as reader:
        facts = json.loads(reader.schema.metadata[_FACTS])
    return RunFacts(**{**facts, "values": tuple(facts["values"])})


def read_run(path: str) -> pa.Table:
    """What is known of the images of a run."""
    with storage.open_input(path) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def read_staged(path: str) -> Iterator[pa.RecordBatch]:
    """The images that were checked, a batch at a time."""
    with storage.open_input(path) as file, pa.ipc.open_stream(file) as reader:
        yield from reader
