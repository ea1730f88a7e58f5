"""Files of series, read as a job reads them, but without a pipeline; and rows that are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.prepare import Missing
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import place_of_row
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import read_chunks
from beamfeed.transforms.sources.timeseries.resolve import resolve_schema
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import scan_file
from beamfeed.transforms.sources.timeseries.schema import SeriesSchema


@dataclass(frozen=True)
class Read:
    """What was read: int64 [n] ticks, float32 [n, features], and what was found out of the files."""

    ticks: np.ndarray
    values: np.ndarray
    remarks: tuple[str, ...]


def job_of(files: Path | Sequence[Path], time: object, **source: object) -> Job:
    """A job on files; `time` is its section, or the column alone."""
    time = time if isinstance(time, dict) else {"column": time}
    paths = [str(path) for path in ([files] if isinstance(files, Path) else files)]
    return Job.model_validate(
        {
            "name": "test",
            "source": {"kind": "timeseries", "files": paths, "time": time, "features": ["x*"], **source},
            "windows": {"length": 1},
            "output": {"path": "/nowhere"},
        }
    )


def schema_of(files: Path | Sequence[Path], time: object, **source: object) -> SeriesSchema:
    """What a job finds out of its files."""
    job = job_of(files, time, **source)
    return resolve_schema(job, [storage.stat(path) for path in job.source.patterns])


def read_file(path: Path, time: object, schema: SeriesSchema | None = None, **source: object) -> Read:
    """All rows of a file that holds one asset; as the job of another file would, if its schema is given.

    Raises:
      BadInput: also at the first row that is set aside.
    """
    schema = schema or schema_of(path, time, **source)
    job = job_of(path, time, **source)
    (piece,) = scan_file(storage.stat(str(path)), job.source.asset, schema, None, scratch="")
    asset = SeriesAsset(piece.asset, (piece,), "train", total=piece.rows, last=piece.last)
    chunks = list(read_chunks(asset, schema))
    for chunk in chunks:
        for row in sorted(chunk.wrong):
            place, reason = chunk.wrong[row]
            raise BadInput(str(path), place or place_of_row(str(path), int(chunk.file_row[row]), schema), reason)
    ticks = np.concatenate([chunk.time for chunk in chunks])
    if schema.time is not None:
        assert (piece.first, piece.last) == (ticks.min(), ticks.max())
    return Read(ticks, np.concatenate([chunk.values for chunk in chunks]), schema.remarks)


MISSING = st.builds(
    Missing,
    fill=st.sampled_from(["forward", "linear", "constant", "drop"]),
    limit=st.integers(1, 4),
    then=st.sampled_from(["drop", "constant"]),
)


def unlabelled(position: np.ndarray, time: np.ndarray, values: np.ndarray, gap: np.ndarray) -> Rows:
    """Rows without labels."""
    return Rows(position, time, values, gap, np.zeros((len(position), 0), "f4"))


@st.composite
def drawn_rows(draw, features: int, labels: int = 0) -> Rows:
    """Rows of which some jump, lack a value or a label, or do not continue the one before."""
    size = draw(st.integers(1, 140))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    step = np.where(rng.random(size) < draw(st.sampled_from([0, 0.1])), rng.integers(2, 60, size), 1)
    values = rng.normal(size=(size, features)).astype("f4")
    values[rng.random((size, features)) < draw(st.sampled_from([0, 0.05, 0.3]))] = np.nan
    gap = rng.random(size) < draw(st.sampled_from([0, 0.08]))
    numbers = rng.integers(0, 5, (size, labels)).astype("f4")
    numbers[rng.random((size, labels)) < draw(st.sampled_from([0, 0.1, 0.8] if labels else [0]))] = np.nan
    position = draw(st.integers(-50, 500)) + np.cumsum(step)
    return Rows(position, position * 10, values, gap, numbers)
