"""`beamfeed export` as a user calls it, on datasets that were preprocessed."""

import json
import subprocess
import sys

import numpy as np
import pyarrow.dataset as ds
import pytest
from feeds import batch_reader
from fleets import Fleet, make_table

import beamfeed
from beamfeed.trainer.numpy_feed.windows import Ragged
from tests.tables import Lake
from tests.tables import make_table as make_rows


def export(*arguments, cwd):
    command = [sys.executable, "-m", "beamfeed.launcher.cli", "export", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd)


def read(output, **options):
    return batch_reader(output, batch_size=32, **options).read()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    for i in range(5):
        fleet.write(f"m{i}.parquet", make_table(300, seed=i))
    assert fleet.preprocess() == 0
    return fleet


@pytest.mark.slow
def test_a_series_by_its_job_file(fleet, tmp_path):
    job = fleet.write_job()
    done = export(job, "--to", "parquet", "--out", "out", "--split", "train", cwd=tmp_path)
    windows = fleet.manifest.splits["train"].windows
    shards = len(fleet.manifest.splits["train"].shards)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"train: {windows} windows\nout: {shards} files (parquet)\n"
    table = ds.dataset(tmp_path / "out" / "train").to_table()
    expected = [
        window
        for batch in beamfeed.load_dataset(fleet.output, "train", batch_size=1)
        for window in batch["values"].numpy()
    ]
    np.testing.assert_array_equal(np.array(table["values"].to_pylist(), np.float32), expected)
    again = export(job, "--to", "parquet", "--out", "out", "--split", "train", "--json", cwd=tmp_path)
    told = json.loads(again.stdout)
    assert (told["event"], told["complete"], told["items"]) == ("export", True, {"train": windows})
    other = export(fleet.output, "--to", "numpy", "--out", "out", cwd=tmp_path)
    assert (other.returncode, other.stdout) == (2, "")
    assert other.stderr == "beamfeed: --out out: holds another export (parquet of test); --force replaces it\n"


@pytest.mark.slow
def test_batches_of_a_series_and_of_a_table_are_those_of_load_dataset(fleet, tmp_path):
    lake = Lake(tmp_path)
    lake.write("a.parquet", make_rows(900))
    assert lake.preprocess() == 0
    for output in (fleet.output, lake.output):
        fields = [field.name for field in beamfeed.read_manifest(output).fields]
        options = {"shuffle": 100, "fields": fields, "epochs": 2}
        expected = list(beamfeed.load_dataset(output, "train", batch_size=32, **options))
        for batch, other in zip(read(output, **options), expected, strict=True):
            for name in fields:
                found, value = batch.fields[name], other[name]
                if isinstance(found, Ragged):
                    np.testing.assert_array_equal(found.lengths, value.row_lengths())
                    found, value = found.values, value.flat_values
                np.testing.assert_array_equal(np.array(found, value.numpy().dtype), value.numpy())
