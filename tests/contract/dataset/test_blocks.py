"""The index of blocks beside the shards."""

import datasets
import numpy as np
import pyarrow as pa
import pytest

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.blocks import SCHEMA, read_blocks, write_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.errors import UserError

FIELDS = [Field(name="values", dtype="float32", shape=(2,), role="input", columns=["a", "b"])]


@pytest.fixture
def written(tmp_path):
    record = {"values": np.ones((5, 2), "f4")}
    shards = [[record] * 5, [], [record] * 2]
    manifest = datasets.write_dataset(
        str(tmp_path), FIELDS, {"train": shards, "eval": [], "test": []}, Windows(length=3)
    )
    return str(tmp_path), manifest


def test_the_index_is_read_as_it_was_written(written):
    output, manifest = written
    blocks = read_blocks(output, manifest, "train")
    assert blocks.schema == SCHEMA
    assert blocks["shard"].to_pylist() == [0, 0, 0, 2]
    assert blocks["records"].to_pylist() == [2, 2, 1, 2]
    assert blocks["windows"].to_pylist() == [6, 6, 3, 6]
    assert read_blocks(output, manifest, "eval").num_rows == 0


@pytest.mark.parametrize("records", [1, 2])
def test_a_split_may_be_one_block(tmp_path, records):
    splits = {"train": [[{"values": np.ones((5, 2), "f4")}] * records], "eval": [], "test": []}
    manifest = datasets.write_dataset(str(tmp_path), FIELDS, splits, Windows(length=3))
    assert read_blocks(str(tmp_path), manifest, "train")["records"].to_pylist() == [records]


def change(written, **columns) -> None:
    output, manifest = written
    blocks = read_blocks(output, manifest, "train").to_pydict()
    write_blocks(manifest.data_layout(output).blocks("train"), pa.table({**blocks, **columns}).cast(SCHEMA))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"records": [2, 2, 2, 2]}, "does not fit the manifest's shards"),
        ({"windows": [6, 6, 4, 6]}, "does not fit the manifest's shards"),
        ({"shard": [0, 0, 0, 1]}, "does not fit the manifest's shards"),
        ({"shard": [0, 0, 2, 0], "records": [2, 2, 2, 1], "windows": [6, 6, 6, 3]}, "its blocks are out of order"),
    ],
)
def test_an_index_of_other_shards_is_refused(written, columns, message):
    change(written, **columns)
    with pytest.raises(UserError, match=rf"blocks.parquet: .*{message}.*; preprocess again$"):
        read_blocks(*written, "train")


@pytest.mark.parametrize("content", [None, b"", b"PAR1 this is none PAR1"])
def test_a_missing_or_damaged_index_is_one_line(written, tmp_path, content):
    output, manifest = written
    path = tmp_path / manifest.data / "train/blocks.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(UserError, match=r"preprocess again$") as caught:
        read_blocks(output, manifest, "train")
    assert len(str(caught.value).splitlines()) == 1
