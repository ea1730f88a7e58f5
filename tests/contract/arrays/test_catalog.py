"""Which arrays files hold, and whether they go together."""

import zipfile

import h5py
import numpy as np
import pytest

from beamfeed.contract import storage
from beamfeed.contract.arrays import stored
from beamfeed.contract.arrays.catalog import ArraySpec, find_arrays
from beamfeed.contract.errors import UserError


@pytest.fixture
def find(tmp_path):
    """Finds arrays by file names, or by (name, array in it)."""

    def found(**wanted):
        asked = []
        for name, files in wanted.items():
            files, member = files if isinstance(files, tuple) else (files, None)
            stats = tuple(storage.stat(str(tmp_path / one)) for one in files.split())
            asked.append(
                ArraySpec(name, f"source.inputs.{name}", stats, member if isinstance(member, tuple) else (member,))
            )
        return find_arrays(asked)

    return found


def test_files_of_an_array_come_one_after_the_other(find, tmp_path):
    for name, rows in (("a", 3), ("b", 0), ("c", 4)):
        np.save(tmp_path / f"{name}.npy", np.zeros((rows, 2), "u1"))
    np.save(tmp_path / "y.npy", np.zeros(7, ">f8"))
    x, y = find(x="a.npy b.npy c.npy", y="y.npy")
    assert (x.rows, x.shape, x.dtype, x.row_bytes) == (7, (2,), "uint8", 2)
    assert [(part.first, part.end) for part in x.parts] == [(0, 3), (3, 7)]  # a file without rows takes no part
    assert (y.rows, y.shape, y.dtype, y.row_bytes) == (7, (), "float64", 8)


@pytest.mark.parametrize("pack", [np.savez, np.savez_compressed])
def test_arrays_of_a_npz(find, tmp_path, pack):
    x, y = np.arange(6.0).reshape(3, 2), np.array([1, 2, 3])
    pack(tmp_path / "both.npz", x=x, y=y)
    found, other = find(x="both.npz", target=("both.npz", "y"))
    assert (found.rows, found.shape, other.dtype) == (3, (2,), "int64")
    (part,) = found.parts
    if pack is np.savez:
        data = (tmp_path / "both.npz").read_bytes()
        assert data[part.stored.offset :][: x.nbytes] == x.tobytes()
        assert part.stored.is_ranged
    else:
        assert (part.stored.offset, part.stored.is_ranged) == (None, False)


@pytest.mark.parametrize("member", ["x", "group/x"])
def test_no_link_of_a_file_leads_to_another(find, tmp_path, member):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"], file["group/x"] = np.arange(3), np.arange(3)
    with h5py.File(tmp_path / "sent.h5", "w") as file:
        file["other"] = np.arange(3)
        file[member.partition("/")[0]] = h5py.ExternalLink("secret.h5", member.partition("/")[0])
    with pytest.raises(UserError, match=rf"sent.h5 has no array '{member}'"):
        find(y=("sent.h5", member))


def test_arrays_of_hdf5(find, tmp_path):
    x = np.arange(24, dtype=">i4").reshape(4, 3, 2)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["deep/x"] = x
        file.create_dataset("packed", data=x, chunks=(2, 3, 2), compression="gzip")
    plain, packed = find(x=("a.h5", "deep/x"), packed="a.h5")
    assert (plain.rows, plain.shape, plain.dtype) == (4, (3, 2), "int32")
    (part,) = plain.parts
    assert (tmp_path / "a.h5").read_bytes()[part.stored.offset :][: x.nbytes] == x.tobytes()
    assert packed.parts[0].stored.offset is None


def test_what_is_the_same_everywhere_is_read_where_it_is_there(find, tmp_path, monkeypatch):
    monkeypatch.setattr(stored, "FREE_BYTES", 0)
    monkeypatch.setattr(stored, "MOST_PACKED", 10)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, rows in (("whole", 100), ("some", 12), ("few", 8)):
            file.create_dataset(name, (100, 5000), "u1", chunks=(1, 5000), compression="gzip")[:rows] = 1
    assert [found.rows for found in find(whole="a.h5", some="a.h5")] == [100, 100]
    with pytest.raises(UserError, match=r"is of 500,000 bytes by its shape .*: nearly all values are a fill value"):
        find(few="a.h5")


def test_one_that_is_the_only_one_needs_no_name(find, tmp_path):
    np.savez(tmp_path / "a.npz", anything=np.zeros(2))
    (x,) = find(x="a.npz")
    assert x.parts[0].stored.member == "anything"


def write(folder):
    np.save(folder / "three.npy", np.zeros((3, 2), "f4"))
    np.save(folder / "four.npy", np.zeros((4, 2), "f4"))
    np.save(folder / "wide.npy", np.zeros((3, 5), "f4"))
    np.save(folder / "ints.npy", np.zeros((3, 2), "i4"))
    np.save(folder / "none.npy", np.zeros((0, 2), "f4"))
    np.save(folder / "single.npy", np.float32(1))
    np.save(folder / "hollow.npy", np.zeros((3, 0), "f4"))
    np.save(folder / "objects.npy", np.array([{}, None], object), allow_pickle=True)
    whole = (folder / "three.npy").read_bytes()
    (folder / "cut.npy").write_bytes(whole[:-5])
    (folder / "boast.npy").write_bytes(whole.replace(b"(3, 2), }  ", b"(3999, 2), }")[: len(whole)])
    (folder / "text.npy").write_text("no array")
    np.savez(folder / "both.npz", x=np.zeros(3), second=np.zeros(3))
    (folder / "broken.npz").write_bytes(b"PK\x03\x04 broken")
    with zipfile.ZipFile(folder / "odd.npz", "w") as archive:
        archive.writestr("x.npy", b"odd")
    with zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", whole + bytes(1_000_000))
        archive.writestr("cut.npy", whole[:-5])
    (folder / "broken.h5").write_bytes(b"\x89HDF broken")
    with h5py.File(folder / "outside.h5", "w") as file:
        file.create_dataset("x", (4,), "u1", external=[(str(folder / "text.npy"), 0, 4)])
        layout = h5py.VirtualLayout((4,), "u1")
        layout[:] = h5py.VirtualSource(folder / "other.h5", "x", (4,))
        file.create_virtual_dataset("virtual", layout)
    with h5py.File(folder / "strings.h5", "w") as file:
        file["x"] = ["some", "texts"]
    with h5py.File(folder / "hollow.h5", "w") as file:
        file.create_dataset("chunked", (10**9, 10), "f4", chunks=(1000, 10), compression="gzip")[:1000] = 1
        file.create_dataset("late", (10**9,), "f4")
        file.create_dataset("small", (10**6, 10), "f4", chunks=(1000, 10))
        file.create_dataset("thick", (10, 10**8), "f4", chunks=(1, 10**8))
    (folder / "digits.npy").write_bytes(long_head("(" + "9" * 4000 + ", " + "9" * 4000 + ")"))
    with zipfile.ZipFile(folder / "lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("x.npy", whole * 100)
    packed = bytearray((folder / "lzma.npz").read_bytes())
    packed[45:50] = b"\xff" * 5  # behind the names
    (folder / "lzma.npz").write_bytes(packed)


def long_head(shape):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x02\0" + len(head).to_bytes(4, "little") + head


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"x": "three.npy", "y": "four.npy"}, "same number of rows: source.inputs.x has 3, source.inputs.y has 4"),
        ({"x": "three.npy wide.npy"}, "wide.npy has rows of the shape [5], {}/three.npy [2]; the files of an array"),
        ({"x": "three.npy ints.npy"}, "ints.npy has values of the dtype int32, {}/three.npy float32"),
        ({"x": "none.npy"}, "source.inputs.x: {}/none.npy has no row"),
        ({"x": "bomb.npz"}, "bomb.npz has 'x' with more values than its header says: 1,000,024 bytes for the shape"),
        ({"x": ("bomb.npz", "cut")}, "bomb.npz has 'cut' cut off: 19 bytes for the shape [3, 2]"),
        ({"x": "outside.h5"}, "outside.h5 has the values of 'x' in other files, which are not read; write them"),
        ({"x": ("outside.h5", "virtual")}, "outside.h5 has the values of 'virtual' in other files"),
        ({"x": "single.npy"}, "single.npy is a single value and has no rows"),
        ({"x": "hollow.npy"}, "hollow.npy has rows of the shape [0], which hold nothing"),
        ({"x": "objects.npy"}, "objects.npy holds Python objects, which would have to be unpickled"),
        ({"x": "cut.npy"}, "cut.npy is cut off: its header says 24 bytes of values, shape [3, 2], and it has 19"),
        ({"x": "boast.npy"}, "boast.npy is cut off: its header says 31,992 bytes of values, shape [3999, 2]"),
        ({"x": "text.npy"}, "text.npy is not a NumPy array (.npy)"),
        ({"x": ("three.npy", "inner")}, "three.npy holds one array and no names of several; leave 'array' out"),
        ({"z": "both.npz"}, "has no array 'z'; say with 'array' which one is meant (it has: x, second)"),
        ({"x": ("both.npz", "secnd")}, "has no array 'secnd'; did you mean 'second'? (it has: x, second)"),
        ({"x": "broken.npz"}, "broken.npz is no .npz file"),
        ({"x": "odd.npz"}, "odd.npz is not a NumPy array"),
        ({"x": "broken.h5"}, "broken.h5 is no HDF5 file"),
        ({"x": "strings.h5"}, "strings.h5 has texts of any length, or other objects, in 'x'"),
        (
            {"x": ("hollow.h5", "chunked")},
            "hollow.h5 is of 40,000,000,000 bytes by its shape [1000000000, 10], of which",
        ),
        (
            {"x": ("hollow.h5", "late")},
            "are stored: nearly all values are a fill value; write it without the rows that",
        ),
        (
            {"x": ("hollow.h5", "thick")},
            "hollow.h5 has chunks of 400,000,000 bytes, more than 268,435,456; write smaller",
        ),
        ({"x": ("hollow.h5", "small"), "y": "three.npy"}, "same number of rows: source.inputs.x has 1,000,000"),
        ({"x": "digits.npy"}, "digits.npy has the invalid shape"),
        ({"x": "lzma.npz"}, "lzma.npz cannot be unpacked: "),
    ],
)
def test_what_cannot_be_used_is_one_line(find, tmp_path, wanted, message):
    write(tmp_path)
    with pytest.raises(UserError) as caught:
        find(**wanted)
    assert message.replace("{}", str(tmp_path)) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_hdf5_that_are_no_utf_8_are_told_as_they_are_read(find, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in (b"\xff1", b"\xff2"):
            file.create_dataset(name, data=np.zeros(3))
    with pytest.raises(UserError, match=r"has no array .x.; .*it has: \ufffd1, \ufffd2"):
        find(x="a.h5")
