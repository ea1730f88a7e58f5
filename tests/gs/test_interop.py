"""Exports to a bucket, and batches for PyTorch from one: as on a disk."""

import json

import pyarrow.parquet as pq
import pytest

from beamfeed.contract.config.prepare import Windows
from tests.datasets import write_dataset
from tests.records import FIELDS, make_records

pytestmark = pytest.mark.long

SINGLE = Windows(length=1)
READ = """
import sys, hashlib
from beamfeed.trainer.feed.batching import Batching
from beamfeed.trainer.numpy_feed.batches import BatchReader
reader = BatchReader(sys.argv[1], "train", Batching(4, shuffle=int(sys.argv[2])), ["values", "label", "image"])
for batch in reader.read():
    print(batch.fields["values"].tolist(), batch.fields["label"].tolist(), batch.fields["image"])
print([name for name in ("tensorflow", "apache_beam") if name in sys.modules])
"""


@pytest.fixture
def local(tmp_path):
    folder = tmp_path / "data"
    write_dataset(str(folder), FIELDS, {"train": make_records(FIELDS, [[9, 5, 7], [30, 6], [4]], SINGLE)}, SINGLE)
    return folder


@pytest.mark.parametrize("shuffle", [0, 20])
def test_batches_are_those_of_a_disk(gs, local, shuffle):
    remote = gs.upload(local, "data")
    here, there = (gs.python("-c", READ, path, str(shuffle)) for path in (str(local), remote))
    assert (here.returncode, there.returncode, there.stderr) == (0, 0, "")
    assert there.stdout == here.stdout
    assert here.stdout.endswith("\n[]\n")
    assert here.stdout.count("\n") == 16


def test_an_export_is_that_of_a_disk(gs, local, tmp_path):
    remote = gs.upload(local, "data")
    program, out = ("-m", "beamfeed.pipelines.export_dataset"), str(tmp_path / "out")
    for dataset, target in ((str(local), out), (remote, gs.url("out"))):
        for to in ("parquet", "webdataset"):
            options = ("--fields", "values,label,who", "--to", to, "--out", f"{target}/{to}")
            done = gs.python(*program, dataset, *options)
            assert (done.returncode, done.stderr) == (0, "")
    for to in ("parquet", "webdataset"):
        names = sorted(
            str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out" / to).rglob("*") if path.is_file()
        )
        assert sorted(f"{to}/{name}" for name in gs.list(f"out/{to}")) == names
        for name in names:
            assert gs.read(f"out/{name}") == (tmp_path / "out" / name).read_bytes(), name
    assert json.loads(gs.read("out/parquet/_export.json"))["items"] == {"train": 61}
    assert pq.read_table(tmp_path / "out" / "parquet" / "train").num_rows == 61
