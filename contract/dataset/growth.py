"""A dataset that grows: which of the files are new since it was written, and what it is called with them."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fingerprint import data_fingerprint, files_beside, job_fingerprint
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest, find_replaceable
from beamfeed.contract.storage import FileStat

SCHEMA = pa.schema([("path", pa.string()), ("size", pa.int64()), ("mtime", pa.int64()), ("beside", pa.bool_())])


def fingerprint_of(job: Job, files: Sequence[FileStat]) -> str:
    """The identity of the dataset that a run writes now: of one that has grown, with the statistics of its first run.

    Raises:
      UserError: as for `data_fingerprint`, and if there is a manifest that cannot be understood.
    """
    alone = data_fingerprint(job, files)
    published = find_grown(job)
    first = alone if published is None or published.grows is None else published.grows.first
    return alone if first == alone else data_fingerprint(job, files, first)


def find_grown(job: Job) -> Manifest | None:
    """The dataset at the output, if a run of this job may add to it.

    Raises:
      UserError: if there is a manifest that cannot be understood.
    """
    published = find_replaceable(job.output.path)[0] if job.output.grow else None
    if published is None or published.grows is None or published.grows.job != job_fingerprint(job):
        return None
    return published


@dataclass(frozen=True)
class Changes:
    """What is different in a listing.

    Attributes:
      new: files that were not there.
      others: paths of those that were there and are not now, or not as they were; those read beside the files, too.
      known: paths of the files that were there.
    """

    new: list[FileStat]
    others: list[str]
    known: list[str] = field(repr=False)


def find_changes(job: Job, files: Sequence[FileStat], layout: DataLayout) -> Changes | None:
    """What is different from the files that a dataset was made of; None where it does not tell them.

    Args:
      job: that lists them.
      files: that it lists now.
      layout: of the data folder.
    """
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(storage.read_bytes(layout.files)))
    except FileNotFoundError:
        return None
    before = dict(zip(table["path"].to_pylist(), zip(*(table[name].to_pylist() for name in SCHEMA.names[1:]),
                                                     strict=True), strict=True))  # fmt: skip
    now = {stat.path: (stat.size, stat.mtime, False) for stat in files}
    now |= {stat.path: (stat.size, stat.mtime, True) for stat in files_beside(job)}
    others = [path for path, told in before.items() if now.get(path) != told]
    others += [path for path, (_, _, beside) in now.items() if beside and path not in before]
    known = [path for path, (_, _, beside) in before.items() if not beside]
    return Changes([stat for stat in files if stat.path not in before], others, known)


def write_files(job: Job, files: Sequence[FileStat], layout: DataLayout) -> None:
    """Writes of what files a dataset is made."""
    import pyarrow.parquet as pq

    rows = [(stat.path, stat.size, stat.mtime, False) for stat in files]
    rows += [(stat.path, stat.size, stat.mtime, True) for stat in files_beside(job)]
    columns = zip(*rows, strict=True) if rows else ([] for _ in SCHEMA.names)
    buffer = io.BytesIO()
    pq.write_table(pa.table([pa.array(column) for column in columns], schema=SCHEMA), buffer, compression="zstd")
    storage.write_bytes(layout.files, buffer.getvalue())
