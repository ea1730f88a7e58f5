"""Arrays in Zarr, where its library is installed; a line that says how to install it where it is not."""

import importlib.util
import json
import shutil

import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.arrays import stored
from beamfeed.contract.arrays.catalog import find_arrays
from beamfeed.contract.config.sources.array import ArraySource
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.array.read import read_rows

DESCRIBED = {2: ".zarray", 3: "zarr.json"}
THERE = importlib.util.find_spec("zarr") is not None


def find(folder, **inputs):
    """The arrays of a section, found as a job finds them."""
    source = ArraySource.model_validate({"kind": "array", "files": str(folder), "inputs": inputs})
    files, empty = storage.match_inputs(source.patterns, source.suffixes)
    assert not empty
    return find_arrays(source.array_specs(files))


@pytest.mark.skipif(THERE, reason="zarr is installed")
def test_who_has_no_zarr_is_told_how_to_install_it(tmp_path):
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(UserError, match=r"x.zarr/zarr.json: Zarr needs .*: pip install 'beamfeed\[zarr\]'"):
        find(tmp_path, x="x.zarr")


@pytest.mark.skipif(not THERE, reason="zarr is not installed")
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_those_of_the_array(tmp_path, version):
    import zarr

    values = np.random.default_rng(0).integers(0, 99, (50, 3, 2)).astype(">i4")
    made = zarr.create_array(
        str(tmp_path / "x.zarr"), shape=values.shape, chunks=(7, 3, 1), dtype="int32", zarr_format=version
    )
    made[:] = values
    (x,) = find(tmp_path, x="x.zarr" if version == 3 else "x.zarr/.zarray")
    assert (x.rows, x.shape, x.dtype) == (50, (3, 2), "int32")
    (part,) = x.parts
    assert not part.stored.is_ranged
    np.testing.assert_array_equal(read_rows(part.stored, 5, 23), values[5:23])


@pytest.mark.skipif(not THERE, reason="zarr is not installed")
def test_arrays_of_a_group_and_what_is_none(tmp_path):
    import zarr

    group = zarr.open_group(str(tmp_path / "all.zarr"), mode="w")
    for path in ("x", "deep/y"):
        made = group.create_array(path, shape=(4,), dtype="float32")
        made[:] = np.arange(4)
    x, y = find(tmp_path, x="all.zarr", other={"files": "all.zarr", "array": "deep/y"})
    np.testing.assert_array_equal(read_rows(x.parts[0].stored, 1, 3), [1, 2])
    np.testing.assert_array_equal(read_rows(y.parts[0].stored, 0, 4), [0, 1, 2, 3])
    with pytest.raises(UserError, match=r"has no array 'z'; say with 'array' which one is meant \(it has: deep/y, x\)"):
        find(tmp_path, z="all.zarr")
    shutil.copytree(tmp_path / "all.zarr", tmp_path / "broken.zarr")
    (tmp_path / "broken.zarr" / "zarr.json").write_text("{broken")
    with pytest.raises(UserError, match=r"broken.zarr/zarr.json is no Zarr array"):
        find(tmp_path, x="broken.zarr")


@pytest.mark.skipif(not THERE, reason="zarr is not installed")
def test_what_says_more_than_it_holds_is_refused_in_a_line(tmp_path):
    import zarr

    for name, rows, chunk in (("hollow", 10**9, 1000), ("small", 10**6, 1000), ("thick", 10**9, 10**9)):
        made = zarr.create_array(str(tmp_path / f"{name}.zarr"), shape=(rows,), chunks=(chunk,), dtype="float32")
        if name != "thick":
            made[:1000] = 1
    with pytest.raises(UserError, match=r"4,000,000,000 bytes by its shape \[1000000000\], of which .* are stored"):
        find(tmp_path, x="hollow.zarr")
    with pytest.raises(UserError, match=r"has chunks of 4,000,000,000 bytes, more than 268,435,456"):
        find(tmp_path, x="thick.zarr")
    (x,) = find(tmp_path, x="small.zarr")
    assert x.rows == 10**6


@pytest.mark.skipif(not THERE, reason="zarr is not installed")
@pytest.mark.parametrize(("version", "shards"), [(2, None), (3, None), (3, (2, 4_000_000))])
def test_what_is_the_same_everywhere_is_read_where_it_is_there(tmp_path, monkeypatch, version, shards):
    import zarr

    monkeypatch.setattr(stored, "FREE_BYTES", 0)
    for name, rows in (("whole", 24), ("few", 2)):
        made = zarr.create_array(
            str(tmp_path / f"{name}.zarr"), shape=(24, 4_000_000), chunks=(1, 4_000_000), shards=shards, dtype="int8",
            zarr_format=version,
        )  # fmt: skip
        made[:rows] = 1
    (x,) = find(tmp_path, x=f"whole.zarr/{DESCRIBED[version]}")
    assert x.rows == 24
    with pytest.raises(UserError, match="nearly all values are a fill value"):
        find(tmp_path, x=f"few.zarr/{DESCRIBED[version]}")


@pytest.mark.skipif(not THERE, reason="zarr is not installed")
def test_a_name_that_leads_out_of_a_group_is_refused(tmp_path):
    import zarr

    zarr.open_group(str(tmp_path / "a.zarr"), mode="w").create_array("x", shape=(4,), dtype="float32")
    zarr.consolidate_metadata(str(tmp_path / "a.zarr"))
    head = tmp_path / "a.zarr" / "zarr.json"
    metadata = json.loads(head.read_text())
    members = metadata["consolidated_metadata"]["metadata"]
    members["..\\private"] = members.pop("x")
    head.write_text(json.dumps(metadata))
    with pytest.raises(UserError, match=r"a.zarr/zarr.json is no Zarr"):
        find(tmp_path, x="a.zarr")
