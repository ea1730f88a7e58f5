"""What `beamfeed.trainer.tools.inspect_dataset` prints, and the damage that it finds."""

import os

import pytest

from beamfeed.trainer.tools.inspect_dataset import main, table


def test_columns_are_aligned():
    assert table([("split", "windows"), ("train", 12345)]) == ["split  windows", "train   12,345"]


def test_it_shows_the_manifest_the_schema_and_windows(written, capsys):
    with open(written.manifest.data_layout(written.output).schema, "w") as file:
        file.write('feature { name: "values" }\n')
    assert main([written.output, "--windows", "2"]) == 0
    text = capsys.readouterr().out
    assert "name         tiny" in text
    assert "windows      8 rows, every 4" in text
    assert 'feature { name: "values" }' in text
    assert "asset asset-00, rows 0 to 7" in text
    assert "sensor_2" in text
    first = written.windows["train"][0, 0]
    assert all(f"{value:.4f}" in text for value in first)


def test_verify_agrees(written, capsys):
    assert main([written.output, "--verify"]) == 0
    assert capsys.readouterr().out.endswith("\n\nOK: 6 shards are as the manifest says\n")


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_verify_finds_a_flipped_byte(helpers, tmp_path, capsys, compression):
    segments = {"train": helpers.segments_of([24, 40], 3)}
    written = helpers.write_dataset(str(tmp_path), segments, length=8, stride=4, compression=compression)
    path = written.shards()[0]
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    assert main([written.output, "--verify"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert f"{path}: is damaged" in lines
    assert any(line.startswith(f"{path}: crc32c") for line in lines)
    assert not any(written.shards()[1] in line for line in lines)


def test_verify_finds_a_missing_shard(written, capsys):
    os.remove(written.shards("eval")[0])
    assert main([written.output, "--verify"]) == 1
    assert capsys.readouterr().out.endswith(f"\n\n{written.shards('eval')[0]}: is missing\n")


def test_no_dataset_is_told(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no dataset" in capsys.readouterr().err
