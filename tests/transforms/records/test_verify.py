"""Reading a shard back: what a record lacks is found, whatever the sort of the field."""

import datasets
import numpy as np
import pytest
import tensorflow as tf

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.records.targets import Tally
from beamfeed.transforms.records.tfrecord import Written
from beamfeed.transforms.records.verify import verify_shard

WINDOWS = Windows(length=3, stride=2)
FIELDS = [
    Field(name="x", dtype="float32", shape=(2,), role="input"),
    Field(name="who", dtype="bytes", role="key", per="record"),
    Field(name="words", dtype="bytes", shape=(None,), role="input"),
    Field(name="y", dtype="int64", role="target", per="window"),
]


def record(rows: int, **change) -> dict:
    windows = (rows - 3) // 2 + 1
    return {
        "x": np.ones((rows, 2), "f4"), "who": [b"me"], "words": [[b"a"] * (i % 3) for i in range(rows)],
        "y": list(range(windows)), **change,
    }  # fmt: skip


def written(path, these, **tally) -> Written:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for one in these:
            writer.write(one if isinstance(one, bytes) else datasets.encode(one, FIELDS))
    rows = [len(one["x"]) for one in these if not isinstance(one, bytes)]
    counted = {"records": len(these), "windows": sum((n - 3) // 2 + 1 for n in rows), "rows": sum(rows)}
    return Written("train", 0, 1, str(path), Tally(**(counted | tally), bytes=1000))


def test_what_is_there_is_told(tmp_path):
    shard, blocks = verify_shard(written(tmp_path / "a", [record(3), record(9)]), FIELDS, WINDOWS, "none")
    assert (shard.records, shard.windows, shard.rows) == (2, 5, 12)
    assert shard.bytes == (tmp_path / "a").stat().st_size == blocks[:, 2].sum()
    assert blocks[:, :2].sum(axis=0).tolist() == [2, 5]


def broken(name: str, values: list) -> bytes:
    example = tf.train.Example.FromString(datasets.encode(record(5), FIELDS))
    feature = example.features.feature[name]
    feature.CopyFrom(tf.train.Feature(int64_list=tf.train.Int64List(value=values)))
    return example.SerializeToString()


WRONG = {
    "part of a row": (record(5, x=[[1, 2]] * 4 + [[3]]), "a record holds no whole values of 'x'"),
    "a name too many": (record(5, who=[b"me", b"you"]), "a record holds 2 values of 'who', by its 'x' it must hold 1"),
    "a label too few": (record(5, y=[1]), "a record holds 1 values of 'y', by its 'x' it must hold 2"),
    "a row too few": (record(5, words=[[b"a"]] * 4), "a record holds 4 values of 'words', by its 'x' it must hold 5"),
    "lengths that do not add up": (broken("words.lengths", [1, 1, 1, 1, 1]), "no whole values of 'words'"),
    "no whole window": (record(2, y=[]), "a record holds no whole window"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_record_that_lacks_something_is_refused(tmp_path, case):
    wrong, message = WRONG[case]
    if not isinstance(wrong, bytes) and isinstance(wrong["x"], list):
        example = tf.train.Example.FromString(datasets.encode(record(5), FIELDS))
        del example.features.feature["x"].float_list.value[-1:]
        wrong = example.SerializeToString()
    with pytest.raises(JobFailed, match=message):
        verify_shard(written(tmp_path / "a", [record(5), wrong]), FIELDS, WINDOWS, "none")


def test_another_number_of_records_than_were_written_is_refused(tmp_path):
    with pytest.raises(JobFailed, match="not what was written: records 1, expected 2"):
        verify_shard(written(tmp_path / "a", [record(5)], records=2), FIELDS, WINDOWS, "none")


def test_a_damaged_file_is_refused(tmp_path):
    shard = written(tmp_path / "a", [record(5)])
    data = bytearray((tmp_path / "a").read_bytes())
    data[40] ^= 1
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(JobFailed, match="cannot be read back"):
        verify_shard(shard, FIELDS, WINDOWS, "none")
