"""Rows of splits, from chunks and from files."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from series import job_of, schema_of

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, Split
from beamfeed.transforms.sources.columns.labels import LabelColumn
from beamfeed.transforms.sources.readers import Group, batch_rows
from beamfeed.transforms.sources.timeseries.plan import SeriesAsset
from beamfeed.transforms.sources.timeseries.read import Chunk, read_sorted, sort_bytes, to_rows
from beamfeed.transforms.sources.timeseries.rows import Rows
from beamfeed.transforms.sources.timeseries.scan import FileSlice, scan_file


@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 80),
    chunk=st.integers(1, 30),
    by=st.sampled_from(["time", "rows", "column"]),
    max_gap=st.sampled_from([None, 3]),
)
@settings(max_examples=200, deadline=None)
def test_splits_share_no_row_and_what_continues_was_adjacent(seed, size, chunk, by, max_gap):
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.integers(1, 6, size))
    values = np.arange(size, dtype="f4")[:, None]
    labels = np.repeat(rng.choice(["a", "b", "c", "d"], size), rng.integers(1, 9, size))[:size]
    part = FileSlice("m", "m.parquet", size, int(time[0]), int(time[-1]), (Group(0, size, 0),))
    if by == "time":
        split = Split(by="time", train=0.5, eval=0.3, test=0.2)
        cuts = tuple(np.sort(rng.integers(0, time[-1] + 2, 2)).tolist())
        asset = SeriesAsset("m", (part,), None, total=size, cuts=cuts)
        of_row = np.where(time < cuts[0], "train", np.where(time < cuts[1], "eval", "test"))
    elif by == "rows":
        split = Split(by="rows", train=0.5, eval=0.3, test=0.2)
        row_cuts = tuple(np.sort(rng.integers(0, size + 2, 3)).tolist())
        asset = SeriesAsset("m", (part,), None, total=size, row_cuts=row_cuts)
        of_row = np.array([*SPLITS, "none"])[np.searchsorted(row_cuts, np.arange(size), "right")]
    else:
        split = Split(by="column", column="label", train=["a"], eval=["b"], test=["c"])
        asset = SeriesAsset("m", (part,), None, total=size)
        of_row = np.select([labels == "a", labels == "b", labels == "c"], SPLITS, "none")
    for name in SPLITS:
        chunks = (
            Chunk(
                "m.parquet",
                np.arange(at, min(at + chunk, size)),
                at,
                time[at : at + chunk],
                values[at : at + chunk],
                np.zeros(1, np.int64),
                pa.array(labels[at : at + chunk]),
            )
            for at in range(0, size, chunk)
        )
        rows = Rows.concatenate(list(to_rows(chunks, asset, name, split, max_gap)))
        assert rows.position.tolist() == np.flatnonzero(of_row == name).tolist()
        assert rows.values[:, 0].tolist() == rows.position.tolist()
        for i in range(len(rows)):
            at = rows.position[i]
            joined = at > 0 and of_row[at - 1] == name and (max_gap is None or time[at] - time[at - 1] <= max_gap)
            assert rows.gap[i] == (not joined)


@pytest.mark.parametrize("features", [1, 50])
@pytest.mark.parametrize("labels", [False, True])
def test_sorting_keeps_to_the_memory_that_is_counted(tmp_path, features, labels):
    """Of NumPy and of Arrow, with a batch and what decodes it."""
    rows = 10_000_000 // (features + 4)
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=rows).astype("f4") for i in range(features)}
    table = pa.table({"t": rng.permutation(rows), **columns, "y": rng.integers(0, 2, rows)})
    path = tmp_path / "m.parquet"
    pq.write_table(table, path, row_group_size=65_536)
    del table, columns
    found = schema_of(path, "t")
    if labels:
        column = LabelColumn("y", pa.int64(), classes=("0", "1"))
        found = replace(found, labels=(column,))
    (piece,) = scan_file(storage.stat(str(path)), job_of(path, "t").source.asset, found, None, scratch="")
    asset = SeriesAsset("m", (piece,), "train", total=rows, last=piece.last, sort=True)
    pool = pa.default_memory_pool()
    peaks, before = [0], pool.bytes_allocated()
    tracemalloc.start()
    try:
        last = -1
        for chunk in read_sorted(asset, found):
            assert chunk.time[0] > last
            last = chunk.time[-1]
            peaks.append(pool.bytes_allocated() - before)
        peak = tracemalloc.get_traced_memory()[1] + max(peaks)
    finally:
        tracemalloc.stop()
    batches = 8 * batch_rows(features) * (4 * features + 40)
    assert peak < sort_bytes(asset, found) + batches
