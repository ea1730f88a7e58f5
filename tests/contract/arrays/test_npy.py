"""Heads of .npy files, against NumPy's own reading of them."""

import io

import numpy as np
import pytest

from beamfeed.contract.arrays.npy import DTYPES, BadArray, dtype_name, item_bytes, read_head


def saved(values: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, values, version=version, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (3, 1, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_it_says_what_numpy_reads(version, shape, order):
    values = np.zeros(shape, ">i2", order)
    data = saved(values, version)
    head = read_head(io.BytesIO(data).read)
    assert (head.descr, head.shape) == (values.dtype.str, shape)
    assert head.fortran == (values.flags.f_contiguous and not values.flags.c_contiguous)
    assert len(data) - head.size == values.nbytes


@pytest.mark.parametrize("name", DTYPES.values())
def test_dtypes_have_the_names_of_numpy(name):
    for order in "<>":
        dtype = np.dtype(name).newbyteorder(order)
        assert dtype_name(dtype.str) == name
        assert item_bytes(dtype.str) == dtype.itemsize


@pytest.mark.parametrize(("dtype", "name"), [("S7", "bytes"), ("U3", "text"), (">U3", "text")])
def test_texts_of_one_length(dtype, name):
    assert dtype_name(np.dtype(dtype).str) == name
    assert item_bytes(np.dtype(dtype).str) == np.dtype(dtype).itemsize


def test_what_would_have_to_be_unpickled_is_refused():
    head = read_head(io.BytesIO(saved(np.array([{}, []], object))).read)
    with pytest.raises(BadArray, match="Python objects"):
        dtype_name(head.descr)


@pytest.mark.parametrize("descr", ["<M8[ns]", "<f16", "|V8", "<c32", "|S0", "nonsense", "<<f4", "<"])
def test_what_no_tensor_holds_is_refused(descr):
    with pytest.raises(BadArray, match="cannot be used"):
        dtype_name(descr)


WHOLE = saved(np.zeros(3))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04 something else", "is not a NumPy array"),
        (WHOLE[:6], "is not a NumPy array"),
        (WHOLE[:6] + b"\x07\x00" + WHOLE[8:], "version 7"),
        (WHOLE[:40], "cut off in its head"),
        (WHOLE[:8] + b"\x04\x00" + b"oops", "cannot be read"),
        (WHOLE[:8] + b"\x02\x00" + b"[]", "cannot be read"),
        (WHOLE.replace(b"(3,)", b"(-3)"), "has the invalid shape"),
        (saved(np.zeros(2, [("a", "f4"), ("b", "i4")])), "records of several values"),
        (b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little"), "which is broken"),
    ],
)
def test_what_is_no_head_is_told(data, message):
    with pytest.raises(BadArray, match=message):
        read_head(io.BytesIO(data).read)


def test_long_integers_of_python_2_are_read():
    data = WHOLE.replace(b"(3,), }", b"(3L,), }").replace(b" \n", b"\n")
    assert read_head(io.BytesIO(data).read).shape == (3,)
