"""A shard that is written twice, and one whose first try broke off."""

from itertools import islice
from pathlib import Path

import pytest
from datasets import write_dataset
from records import FIELDS, make_records

from beamfeed.contract.config.prepare import Windows
from beamfeed.transforms.export.base import Export
from beamfeed.transforms.export.steps import FORMATS, prepare, publish, read_items

SINGLE = Windows(length=1)
NAMES = ("values", "label", "who", "tokens", "image")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("data"))
    return folder, write_dataset(folder, FIELDS, {"train": make_records(FIELDS, [[9, 5], [7], [4]], SINGLE)}, SINGLE)


def export_of(dataset, to, out) -> Export:
    folder, manifest = dataset
    return Export(folder, manifest, ("train",), "windows", NAMES, to, str(out))


def written(export: Export, tries) -> dict[str, bytes]:
    """The files of an export whose shards are written by `tries`."""
    form = FORMATS[export.to]()
    measured = {shard.path: form.measure(export, read_items(export, shard)) for shard in export.shards()}
    shards = list(prepare(None, export, form, measured))
    assert list(prepare(None, export, form, measured)) == shards
    for shard in shards:
        tries(form, export, shard)
    publish(None, export, form, shards)
    return {
        str(path.relative_to(export.out)): path.read_bytes() for path in Path(export.out).rglob("*") if path.is_file()
    }


def once(form, export, shard):
    form.write(export, shard, read_items(export, shard))


def twice(form, export, shard):
    once(form, export, shard)
    once(form, export, shard)


def broken_first(form, export, shard):
    def breaks():
        yield from islice(read_items(export, shard), 1)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        form.write(export, shard, breaks())
    once(form, export, shard)


@pytest.mark.parametrize("to", ["parquet", "webdataset", "numpy"])
def test_what_is_written_twice_is_the_same(dataset, tmp_path, to):
    expected = written(export_of(dataset, to, tmp_path / "once"), once)
    assert written(export_of(dataset, to, tmp_path / "twice"), twice) == expected
    assert written(export_of(dataset, to, tmp_path / "broken"), broken_first) == expected
    assert not [name for name in expected if ".tmp-" in name or name.endswith(".part")]
