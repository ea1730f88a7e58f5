"""Arrays in Zarr, where its library is installed; a line that says how to install it where it is not."""

import importlib.util
import shutil

import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.arrays.catalog import find_arrays
from beamfeed.contract.config.sources.array import ArraySource
from beamfeed.contract.errors import UserError
from beamfeed.transforms.sources.array.read import read_rows

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
