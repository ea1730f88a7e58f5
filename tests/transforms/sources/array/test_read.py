"""Rows of files by ranges, against NumPy's own reading of the whole."""

import h5py
import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import DTYPES
from beamfeed.contract.arrays.stored import find_array
from beamfeed.transforms.rejects import BadInput
from beamfeed.transforms.sources.array.read import read_rows, unpack

RNG = np.random.default_rng(0)


def some(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    values = RNG.integers(0, 200, shape)
    return (values % 2 == 0) if dtype == "bool" else values.astype(dtype)


def rows_of(path, start, end, name="x", member=None) -> np.ndarray:
    return read_rows(find_array(storage.stat(str(path)), name, member), start, end)


@pytest.mark.parametrize("dtype", [*DTYPES.values(), "S4", "U4"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_dtype_in_both_byte_orders(tmp_path, dtype, order):
    values = some(dtype, (9, 3)).astype(np.dtype(dtype).newbyteorder(order))
    np.save(tmp_path / "x.npy", values)
    found = rows_of(tmp_path / "x.npy", 2, 7)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, values[2:7])


@pytest.mark.parametrize("shape", [(8,), (8, 3), (8, 3, 2), (8, 2, 3, 2)])
def test_an_array_in_fortrans_order(tmp_path, shape):
    values = np.asfortranarray(some("i4", shape))
    np.save(tmp_path / "x.npy", values)
    for start, end in ((0, 8), (3, 5), (7, 8)):
        np.testing.assert_array_equal(rows_of(tmp_path / "x.npy", start, end), values[start:end])


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_members_of_a_npz(tmp_path, pack, order):
    values = np.array(some("f8", (20, 3)), order=order)
    pack(tmp_path / "a.npz", x=values, other=np.zeros(3))
    stored = find_array(storage.stat(str(tmp_path / "a.npz")), "x", None)
    if stored.offset is None:
        stored = unpack(stored, str(tmp_path / "scratch"))
    np.testing.assert_array_equal(read_rows(stored, 4, 17), values[4:17])


@pytest.mark.parametrize("options", [{}, {"chunks": (3, 2)}, {"chunks": (4, 1), "compression": "gzip"}])
@pytest.mark.parametrize("dtype", ["f4", ">i2", "bool"])
def test_hdf5(tmp_path, options, dtype):
    values = some(dtype, (10, 2)).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=values, **options)
    found = rows_of(tmp_path / "a.h5", 1, 9)
    assert found.dtype.isnative
    np.testing.assert_array_equal(found, values[1:9])


def test_a_byte_that_is_neither_true_nor_false_is_true(tmp_path):
    np.save(tmp_path / "x.npy", np.array([True, False, True]))
    data = bytearray((tmp_path / "x.npy").read_bytes())
    data[-1] = 2
    (tmp_path / "x.npy").write_bytes(data)
    assert rows_of(tmp_path / "x.npy", 0, 3).view("u1").tolist() == [1, 0, 1]


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_file_that_was_cut_off_since_is_set_aside(tmp_path, order):
    np.save(tmp_path / "x.npy", np.array(some("i4", (50, 2)), order=order))
    stored = find_array(storage.stat(str(tmp_path / "x.npy")), "x", None)
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-100])
    read_rows(stored, 0, 5) if order == "C" else None
    with pytest.raises(BadInput, match="is cut off after"):
        read_rows(stored, 40, 50)


def test_a_packed_member_that_is_damaged_is_set_aside(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=RNG.random(5000))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[20_000:20_100] = bytes(100)
    (tmp_path / "a.npz").write_bytes(data)
    stored = find_array(storage.stat(str(tmp_path / "a.npz")), "x", None)
    with pytest.raises(BadInput, match=r"x: (is no .npz file|cannot be unpacked|is cut off)"):
        unpack(stored, str(tmp_path / "scratch"))
