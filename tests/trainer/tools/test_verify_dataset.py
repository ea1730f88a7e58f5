"""The damage that `beamfeed inspect --verify` finds: in files, in every field of their records, and in the index."""

import os

import pyarrow as pa
import pytest
from datasets import write_dataset
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.blocks import SCHEMA, read_blocks, write_blocks
from beamfeed.contract.dataset.manifest import write_manifest
from beamfeed.trainer.tools.inspect_dataset import main

SERIES = Windows(length=4, stride=2)


def verify(output, capsys) -> list[str]:
    """The lines that tell of differences."""
    code = main([str(output), "--verify"])
    text = capsys.readouterr().out
    lines = text.rsplit("\n\n", 1)[1].splitlines()
    assert (code == 0) == lines[0].startswith("OK")
    return lines


def test_it_agrees(written, capsys):
    assert verify(written.output, capsys) == ["OK: 6 shards are as the manifest says"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("windows", [SERIES, Windows(length=1)])
def test_it_agrees_with_any_fields(tmp_path, capsys, compression, windows):
    records = make_records(FIELDS, [[9, 4, 7], [], [30]], windows)
    write_dataset(str(tmp_path), FIELDS, {"train": records, "test": []}, windows, compression=compression)
    assert verify(tmp_path, capsys) == ["OK: 3 shards are as the manifest says"]


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_it_finds_a_flipped_byte(helpers, tmp_path, capsys, compression):
    segments = {"train": helpers.segments_of([24, 40], 3)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=4, compression=compression)
    path = written.shards()[0]
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    lines = verify(written.output, capsys)
    assert lines[0] == f"{path}: is damaged"
    assert lines[1].startswith(f"{path}: crc32c")
    assert len(lines) == 2


def test_it_finds_a_missing_shard(written, capsys):
    os.remove(written.shards("eval")[0])
    assert verify(written.output, capsys) == [f"{written.shards('eval')[0]}: is missing"]


def test_it_finds_a_field_that_lacks_a_value(tmp_path, capsys):
    names = [field.name for field in FIELDS if field.name not in ("values", "label", "counts")]
    whole, *shards = make_records(FIELDS, [[9], *([9, 12] for _ in names)], SERIES)
    for shard, name in zip(shards, names, strict=True):
        shard[1][name] = shard[1][name][:-1]
    manifest = write_dataset(str(tmp_path), FIELDS, {"train": [whole, *shards]}, SERIES)
    paths = manifest.shard_paths(str(tmp_path), "train")[1:]
    told = "the windows in the shards differ from the manifest"
    assert verify(tmp_path, capsys) == [
        f"{path}: {told}: field {name}" for path, name in zip(paths, names, strict=True)
    ]


def test_it_finds_a_field_of_another_type(tmp_path, capsys):
    manifest = write_dataset(str(tmp_path), FIELDS, {"train": make_records(FIELDS, [[9]], SERIES)}, SERIES)
    fields = [field.model_copy(update={"dtype": "float32"}) if field.name == "count" else field for field in FIELDS]
    write_manifest(str(tmp_path), manifest.model_copy(update={"fields": fields}))
    (path,) = manifest.shard_paths(str(tmp_path), "train")
    assert verify(tmp_path, capsys) == [f"{path}: in a shard the field count is of another type than the manifest says"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda blocks: blocks[1].update(bytes=blocks[1]["bytes"] + 1), "block 1: bytes "),
        (lambda blocks: [blocks[0].update(windows=9), blocks[1].update(windows=5)], "block 0: windows 8, the index of"),
        (lambda blocks: [blocks[0].update(records=3), blocks[1].update(records=1)], "block 0: windows "),
    ],
)
def test_it_finds_a_block_that_is_not_where_the_index_says(tmp_path, capsys, change, message):
    shards = make_records(FIELDS, [[], [9, 12, 7, 10]], SERIES)
    manifest = write_dataset(str(tmp_path), FIELDS, {"train": shards}, SERIES)
    path = manifest.data_layout(str(tmp_path)).blocks("train")
    blocks = read_blocks(str(tmp_path), manifest, "train").to_pylist()
    assert [block["windows"] for block in blocks] == [8, 6]  # of 9 and 12 rows, of 7 and 10
    change(blocks)
    write_blocks(path, pa.Table.from_pylist(blocks, SCHEMA))
    (line,) = verify(tmp_path, capsys)
    assert line.startswith(f"{manifest.shard_paths(str(tmp_path), 'train')[1]}: {message}")


def test_it_finds_that_there_is_no_index(written, capsys):
    path = written.manifest.data_layout(written.output).blocks("eval")
    os.remove(path)
    assert verify(written.output, capsys) == [f"{path}: the index of the shards is missing; preprocess again"]
