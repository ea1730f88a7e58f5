"""Rows of files by ranges, against NumPy's own reading of the whole."""

import io
from dataclasses import replace

import h5py
import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import DTYPES
from beamfeed.contract.arrays.stored import find_array
from beamfeed.contract.errors import JobFailed, Unanswered
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
        stored = unpack(stored, str(tmp_path / "scratch"), 20)
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


class Failing(io.BytesIO):
    """A file that gives so many reads, and then an error."""

    def __init__(self, path, reads, error):
        super().__init__(path.read_bytes())
        self.left, self._error = reads, error

    def readinto(self, buffer):
        self.left -= 1
        if self.left < 0:
            raise self._error
        return super().readinto(buffer)


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), Unanswered("gs://b/a.h5: no answer")])
def test_what_fails_in_the_machine_is_no_fault_of_a_hdf5_file(tmp_path, monkeypatch, error):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros((4000, 20)), chunks=(1000, 20))
    stored = find_array(storage.stat(str(path)), "x", None)
    monkeypatch.setattr(storage, "is_remote", lambda path: True)
    whole = Failing(path, 100, error)
    monkeypatch.setattr(storage, "open_input", lambda _: whole)
    assert read_rows(stored, 0, 4000).shape == (4000, 20)
    for reads in range(100 - whole.left):  # each of the reads may be the one that fails
        monkeypatch.setattr(storage, "open_input", lambda _, reads=reads: Failing(path, reads, error))
        with pytest.raises(JobFailed, match=r"Input/output error|no answer"):
            read_rows(stored, 0, 4000)
    monkeypatch.setattr(storage, "open_input", lambda _: Failing(path, 1, error))
    with pytest.raises(type(error)):
        find_array(stored.file, "x", None)


def test_a_number_in_the_words_of_h5py_is_the_machines(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError("Can't read data (file read failed: file descriptor = 5, errno = 5, error message = 'Input/...')")

    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.zeros(4), chunks=(2,))
    stored = find_array(storage.stat(str(path)), "x", None)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", fail)
    with pytest.raises(JobFailed, match="Input/output error"):
        read_rows(stored, 0, 4)


def test_a_hdf5_file_with_a_damaged_chunk_is_set_aside(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=RNG.random((2000, 4)), chunks=(500, 4), compression="gzip")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 500] = bytes(500)
    path.write_bytes(data)
    with pytest.raises(BadInput, match="x: cannot be read: Can't"):
        rows_of(path, 0, 2000)


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
        unpack(stored, str(tmp_path / "scratch"), stored.rows)


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_more_is_unpacked_than_is_asked_for(tmp_path, order):
    values = np.array(some("f8", (100, 3)), order=order)
    np.savez_compressed(tmp_path / "a.npz", x=values)
    stored = find_array(storage.stat(str(tmp_path / "a.npz")), "x", None)
    copy = unpack(stored, str(tmp_path / "scratch"), 10)
    assert copy.file.size == (10 if order == "C" else 100) * 3 * 8  # in Fortran's order a row is all over the array
    np.testing.assert_array_equal(read_rows(copy, 4, 10), values[4:10])


def test_no_more_is_unpacked_than_the_head_tells_of(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1_000_000))
    stored = replace(find_array(storage.stat(str(tmp_path / "a.npz")), "x", None), shape=(4,))
    with pytest.raises(BadInput, match="x: has more values than its header says"):
        unpack(stored, str(tmp_path / "scratch"), 4)
    assert not [path for path in (tmp_path / "scratch").rglob("*") if path.stat().st_size > 32]
