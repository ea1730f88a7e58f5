"""Exports of TFRecords that others wrote, read back against `load_dataset`."""

import foreign
import pyarrow.dataset as ds
import pytest
import tensorflow as tf
from foreign import example, sequence_example

from beamfeed.pipelines import adopt
from beamfeed.pipelines.export_dataset import main
from beamfeed.trainer.feed.dataset import load_dataset

ROWS = [
    {"a/b": 1.0, "n": [-3, 4], "s": "x", "tags": [1, 2], "boxes": [0.5] * 8, "c": 1},
    {"c": 2},
    {"a/b": 2.0, "tags": [7], "boxes": [0.25] * 4, "c": 3},
    {"n": [5, 6], "s": "y", "c": 4},
]


def adopted(folder, *options):
    assert adopt.main([str(folder), *options, "--direct_num_workers=1", "--quiet"]) == 0
    return str(folder)


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_names_lists_defaults_and_records_of_no_byte(tmp_path, compression):
    records = [example(row) for row in ROWS]
    foreign.write(tmp_path / "data" / "x-train", [*records, b"", *records, b""], compression)
    defaults = [f"--default={one}" for one in ("a/b=-1.5", "n=-7", "s=none")]
    folder, out = adopted(tmp_path / "data", *defaults, "--shape=boxes=any,4"), tmp_path / "out"
    assert main([folder, "--to", "parquet", "--out", str(out), "--split", "train"]) == 0
    found = ds.dataset(out / "train", format="parquet").to_table().to_pydict()
    (batch,) = load_dataset(folder, "train", batch_size=8, fields=list(found))
    for name, values in found.items():
        one = batch[name]
        assert values == (one.to_list() if isinstance(one, tf.RaggedTensor) else one.numpy().tolist()), name
    assert (found["n"][1], found["s"][1], found["a_b"][1]) == ([-7, -7], b"none", -1.5)
    assert set(found) == {"a_b", "n", "s", "tags", "boxes", "c"}


def test_feature_lists_are_refused_at_once_and_can_be_left_out(tmp_path, capfd):
    records = [sequence_example({"n": n, "m": [n] * (n % 3)}, {"xy": [[1.0, 2.0]] * n}) for n in range(1, 6)]
    foreign.write(tmp_path / "data" / "x-train", records)
    folder, out = adopted(tmp_path / "data"), tmp_path / "out"
    assert main([folder, "--to", "parquet", "--out", str(out)]) == 2
    error = capfd.readouterr().err
    assert "'xy' is a feature list of SequenceExamples, which export does not read; leave it out: --fields m,n" in error
    assert error.count("\n") == 1
    assert main([folder, "--to", "parquet", "--out", str(out), "--split", "train", "--fields", "m,n"]) == 0
    found = ds.dataset(out / "train", format="parquet").to_table().to_pydict()
    assert found == {"m": [[1], [2, 2], [], [4], [5, 5]], "n": [1, 2, 3, 4, 5]}
