"""Trouble of the machine is no fault of a file."""

import gzip
import os
import resource
from contextlib import suppress

import psutil
import pyarrow as pa
import pyarrow.parquet
import pytest
from fleets import make_table

from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.readers import naming_the_file, read_schema
from beamfeed.transforms.sources.readers.blocks import pieces_of


def test_too_many_open_files_end_the_job(tmp_path):
    path = tmp_path / "m.parquet"
    pa.parquet.write_table(make_table(10), path)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = [os.open("/dev/null", os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(held) + 1, before[1]))
    try:
        with suppress(OSError):  # also the gaps below the limit are taken
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        with pytest.raises(JobFailed, match=r"m\.parquet: Too many open files"):
            read_schema(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for one in held:
            os.close(one)
    assert read_schema(str(path)).names == ["t", "x0", "x1", "x2"]


@pytest.mark.parametrize(("size", "kind"), [(4096, JobFailed), (1 << 60, BadInput)])
def test_no_memory_ends_the_job_but_not_where_a_broken_file_asks_for_more_than_there_is(size, kind):
    with pytest.raises(kind), naming_the_file("m.parquet"):
        raise pa.ArrowMemoryError(f"malloc of size {size} failed")


@pytest.mark.parametrize("error", [PermissionError("no"), ConnectionError("no answer"), FileNotFoundError("gone")])
def test_what_the_system_says_ends_the_job(tmp_path, error):
    with pytest.raises(JobFailed), naming_the_file(str(tmp_path / "m.parquet")):
        raise error


@pytest.mark.parametrize("values", [[1, 2], [{"names": 1}]])
@pytest.mark.parametrize("suffix", ["arrow", "parquet"])
def test_a_name_that_is_not_utf_8_is_the_fault_of_the_file(tmp_path, values, suffix):
    table = pa.table({"names" if values == [1, 2] else "s": values})
    path = tmp_path / f"m.{suffix}"
    if suffix == "parquet":
        pa.parquet.write_table(table, path, store_schema=False)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"names", b"n\xcames"))
    with pytest.raises(BadInput, match=r"m\.\w+: file: (the name of a column is not UTF-8|cannot be read: 'utf-8')"):
        read_schema(str(path))


def test_packed_texts_that_are_broken_leave_no_memory_behind(tmp_path):
    path = tmp_path / "m.csv.gz"
    content = bytearray(gzip.compress(os.urandom(5 << 20).hex().encode(), 1))
    content[-3000] ^= 4
    path.write_bytes(content)
    process = psutil.Process()
    for turn in range(14):
        with pytest.raises(OSError, match="zlib inflate failed"):
            list(pieces_of(str(path)))
        if turn == 3:
            before = process.memory_info().rss
    assert process.memory_info().rss - before < 40 << 20  # 8 MB for each file were kept
