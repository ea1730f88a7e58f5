"""One array in one file: of .npy, .npz, HDF5 and Zarr where its values are, by the heads alone."""

import lzma
import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.arrays.npy import BadArray, Head, NoSuchArray, dtype_name, item_bytes, read_head
from beamfeed.contract.errors import UserError, first_line, near_miss
from beamfeed.contract.storage import FileStat

NPY, NPZ, HDF5 = (".npy",), (".npz",), (".h5", ".hdf5")
# A Zarr array or group is a folder; the file in it that describes it stands for it, in format 3 or 2.
ZARR_FOLDER, ZARR, ZARR_FILE = ".zarr", ("/zarr.json", "/.zarray", "/.zgroup"), "zarr.json"
SUFFIXES = (*NPY, *NPZ, *HDF5, *ZARR)
UNNAMED = ""  # the name of the only array of a file that gives it none
MOST_MEMBERS = 200  # of a file of several arrays, all of which are looked at
CHUNK_BYTES = 256 << 20  # of a chunk of HDF5 or Zarr, which is unpacked as a whole for any row of it
# A file may say that it has more values than are stored: the others are a fill value, of which an array is made up
# without a byte being read. Masks that are nearly empty are packed a thousandfold; of what is the same everywhere less
# is stored, but its chunks are there.
MOST_PACKED = 10_000
MOST_MISSING = 10  # chunks of a shape to one that is there
FREE_BYTES = 256 << 20  # of an array, however little is stored of it
_LOCAL_HEAD = 30  # bytes before the name of a member of a zip file


@dataclass(frozen=True)
class Stored:
    """An array in a file.

    Attributes:
      file: as it was listed.
      member: the name of the array in the file, or UNNAMED.
      descr: the dtype as NumPy writes it: `<f4`.
      shape: of the whole array, rows first.
      offset: the byte of the file at which its values begin, one after the other; None where only a reader of the
        format finds them: of packed or chunked ones.
      fortran: whether the first axis is the one that changes fastest.
    """

    file: FileStat
    member: str
    descr: str
    shape: tuple[int, ...]
    offset: int | None
    fortran: bool = False

    @property
    def rows(self) -> int:
        """How many it has."""
        return self.shape[0]

    @property
    def dtype(self) -> str:
        """The name of the dtype."""
        return dtype_name(self.descr)

    @property
    def row_bytes(self) -> int:
        """Of one row in the file."""
        return item_bytes(self.descr) * math.prod(self.shape[1:])

    @property
    def is_ranged(self) -> bool:
        """Whether some rows after the other are one range of bytes of the file."""
        return self.offset is not None and (not self.fortran or len(self.shape) == 1)


def find_array(file: FileStat, name: str, member: str | None) -> Stored:
    """An array in a file.

    Args:
      file: to look into; only heads are read.
      name: that the job gives the array.
      member: its name in a file of several; None: that of the job, or the only one.

    Raises:
      BadArray: if there is none that can be used.
      OSError: if the file cannot be read.
    """
    with _arrays_in(file) as (names, look):
        if names != [UNNAMED]:
            return look(_choose(names, name, member))
        if member is not None:
            raise BadArray("holds one array and no names of several; leave 'array' out")
        return look(UNNAMED)


def find_arrays_of(file: FileStat) -> tuple[list[Stored], dict[str, str]]:
    """All arrays of a file, by heads alone; and the names of others, with why they cannot be used.

    Raises:
      BadArray: if it is no such file.
      OSError: if it cannot be read.
    """
    arrays, problems = list[Stored](), dict[str, str]()
    with _arrays_in(file) as (names, look):
        if len(names) > MOST_MEMBERS:
            raise BadArray(f"holds {len(names):,} arrays, more than {MOST_MEMBERS:,}")
        for name in names:
            try:
                arrays.append(look(name))
            except BadArray as bad:
                problems[name] = str(bad)
    return arrays, problems


@contextmanager
def _arrays_in(file: FileStat) -> Iterator[tuple[list[str], Callable[[str], Stored]]]:
    """The names of the arrays in a file, and a function that looks at one of them."""
    path = file.path.lower()
    if path.endswith(NPZ):
        with open_npz(file.path) as (archive, source):
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            infos = {info.filename.removesuffix(".npy"): info for info in members}
            yield list(infos), lambda name: _checked(_in_npz(file, name, archive, source, infos[name]))
    elif path.endswith(HDF5):
        with open_hdf5(file.path) as opened:
            # By the listing alone: it follows no link, and to look a name up opens the other file that one may lead to.
            yield _datasets(opened), lambda name: _checked(_in_hdf5(file, name, opened))
    elif path.endswith(ZARR):
        arrays = _zarr_arrays(file.path)
        yield sorted(arrays), lambda name: _checked(_in_zarr(file, name, arrays[name]))
    else:
        with storage.open_input(file.path) as source:
            yield [UNNAMED], lambda name: _checked(_stored(file, name, read_head(source.read), 0))


def _checked(stored: Stored) -> Stored:
    """The array; raises BadArray if it has no rows of values, or not all of them."""
    if not stored.shape:
        raise BadArray("is a single value and has no rows")
    if 0 in stored.shape[1:]:
        raise BadArray(f"has rows of the shape {list(stored.shape[1:])}, which hold nothing")
    dtype_name(stored.descr)
    size = stored.rows * stored.row_bytes
    if stored.offset is not None and stored.offset + size > stored.file.size:
        raise BadArray(
            f"is cut off: its header says {size:,} bytes of values, shape {list(stored.shape)}, "
            f"and it has {max(0, stored.file.size - stored.offset):,}"
        )
    return stored


def _stored(file: FileStat, member: str, head: Head, before: int | None) -> Stored:
    offset = None if before is None else before + head.size
    return Stored(file, member, head.descr, head.shape, offset, head.fortran)


@contextmanager
def open_npz(path: str) -> Iterator[tuple[zipfile.ZipFile, Any]]:
    """The zip file, and the file that it is in.

    Raises:
      BadArray: if it is none.
    """
    with storage.open_input(path) as source:
        try:
            with zipfile.ZipFile(source) as archive:
                yield archive, source
        except BadArray:
            raise
        except (zipfile.BadZipFile, ValueError) as error:  # Arrow's own, for places that are not in the file
            raise BadArray(f"is no .npz file: {error}") from None
        except (zlib.error, lzma.LZMAError, EOFError, NotImplementedError) as error:
            raise BadArray(f"cannot be unpacked: {error}") from None


def _in_npz(file: FileStat, name: str, archive: zipfile.ZipFile, source: Any, info: zipfile.ZipInfo) -> Stored:
    if info.flag_bits & 1:
        raise BadArray(f"has {name!r} encrypted")
    if info.compress_type != zipfile.ZIP_STORED:
        with archive.open(info) as inside:
            head = read_head(inside.read)
        stored = _stored(file, name, head, None)
        dtype_name(head.descr)
        actual, expected = info.file_size - head.size, stored.rows * stored.row_bytes if stored.shape else None
        if expected is not None and actual != expected:
            problem = "cut off" if actual < expected else "with more values than its header says"
            raise BadArray(f"has {name!r} {problem}: {actual:,} bytes for the shape {list(stored.shape)}")
        return stored
    source.seek(info.header_offset)
    local = source.read(_LOCAL_HEAD)
    before = info.header_offset + _LOCAL_HEAD + sum(int.from_bytes(local[at : at + 2], "little") for at in (26, 28))
    source.seek(before)
    return _stored(file, name, read_head(source.read), before)


@contextmanager
def open_hdf5(path: str) -> Iterator[Any]:
    """An HDF5 file, as h5py has it.

    Raises:
      BadArray: if it is none, or cannot be understood where it is read inside.
      OSError: if the machine fails, at whatever it is read.
    """
    import h5py

    if not storage.is_remote(path):
        with open(path, "rb"):  # what is wrong with the machine has a name here; h5py has words of its own
            pass
    source: Any = storage.open_input(path) if storage.is_remote(path) else path
    with _format_errors("is no HDF5 file"):
        opened = h5py.File(source, "r")
    with opened, _format_errors("cannot be read"):
        yield opened


@contextmanager
def _format_errors(problem: str) -> Iterator[None]:
    """Tells h5py's errors about what is in a file from the machine's, which h5py has in its own words.

    The system's have a number, as errno or in the text; those of a bucket come as the file object raises them.
    """
    try:
        yield
    except BadArray:
        raise
    except (OSError, RuntimeError, KeyError, ValueError) as error:
        message = " ".join(str(error.args[0] if error.args else error).split())
        number = re.search(r"\berrno = ([1-9]\d*)", message)
        of_format = type(error) in (OSError, RuntimeError, KeyError, ValueError)
        if of_format and not getattr(error, "errno", None) and number is None:
            raise BadArray(f"{problem}: {message[:300]}") from None
        if number is None or getattr(error, "errno", None):
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


def _text(name: str | bytes) -> str:
    """A name as h5py gives it: bytes, where they are no UTF-8."""
    return name if isinstance(name, str) else name.decode(errors="replace")


def _datasets(opened: Any) -> list[str]:
    names: list[str] = []
    opened.visititems(lambda path, item: names.append(_text(path)) if hasattr(item, "shape") else None)
    return names


def _in_hdf5(file: FileStat, name: str, opened: Any) -> Stored:
    dataset = dataset_of(opened, name)
    if dataset.shape is None:
        raise BadArray(f"has {name!r} without values")
    if dataset.dtype.names:
        raise BadArray(f"has records of several values in {name!r}; give each its own array")
    if dataset.dtype.kind == "O":
        raise BadArray(
            f"has texts of any length, or other objects, in {name!r}; write texts of one length: astype('S')"
        )
    offset = dataset.id.get_offset() if dataset.chunks is None else None
    stored = Stored(file, name, dataset.dtype.str, dataset.shape, offset)
    if offset is None:
        # Several chunks may be said to lie at the same place.
        def bytes_there(_: int) -> int:
            return min(int(dataset.id.get_storage_size()), file.size)

        def chunks_there(_: int) -> int:
            packed = int(dataset.id.get_storage_size())
            return int(dataset.id.get_num_chunks()) * min(packed, file.size) // max(1, packed) if dataset.chunks else 0

        _check_filled(stored, dataset.chunks or (), dataset.chunks or dataset.shape, bytes_there, chunks_there)
    return stored


def dataset_of(opened: Any, name: str) -> Any:
    """An array of an opened HDF5 file, which has its values in this file.

    Raises:
      BadArray: if it has them elsewhere: a file that somebody sent could so take the bytes of any file of this machine.
    """
    dataset = opened[name]
    if dataset.external or dataset.is_virtual:
        raise BadArray(f"has the values of {name!r} in other files, which are not read; write them into this one")
    return dataset


def open_zarr(path: str) -> Any:
    """A Zarr array or group, as zarr has it, by the file that describes it.

    Raises:
      UserError: if zarr is not installed.
      BadArray: if it is none, or on gs://.
    """
    try:
        import zarr
    except ImportError:
        raise UserError(f"{path}: Zarr needs a library more: pip install 'beamfeed[zarr]'") from None
    if storage.is_remote(path):
        raise BadArray("is on gs://, where Zarr cannot be read; copy it to a disk")
    try:
        return zarr.open(path.rpartition("/")[0], mode="r")
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise BadArray(f"is no Zarr array: {first_line(error)}") from None


def _zarr_arrays(path: str) -> dict[str, Any]:
    opened = open_zarr(path)
    if hasattr(opened, "shape"):
        return {UNNAMED: opened}
    try:
        return {name: member for name, member in opened.members(max_depth=None) if hasattr(member, "shape")}
    except (ValueError, KeyError, TypeError) as error:  # such as a name that leads out of the folder
        raise BadArray(f"is no Zarr group: {first_line(error)}") from None


def _in_zarr(file: FileStat, name: str, array: Any) -> Stored:
    if array.dtype.names:
        raise BadArray("has records of several values; give each its own array")
    stored = Stored(file, name, array.dtype.str, tuple(array.shape), None)
    folder = storage.join(file.path.rpartition("/")[0], name)
    places = array.shards or array.chunks  # each of several chunks, or of one
    _check_filled(stored, array.chunks, places, partial(_bytes_below, folder), partial(_chunks_below, folder))
    return stored


def _check_filled(
    stored: Stored,
    chunks: Sequence[int],
    places: Sequence[int],
    stored_bytes: Callable[[int], int],
    stored_chunks: Callable[[int], int],
) -> None:
    """Raises BadArray if an array has chunks that are too large, or little more than its shape.

    Args:
      stored: the array.
      chunks: the shape of one.
      places: the shape of what is stored at a place of its own: a chunk, or several.
      stored_bytes: of its values as they are packed; no more need be counted than its argument.
      stored_chunks: how many of those are there; likewise.
    """
    dtype_name(stored.descr)
    if any(axis >= 1 << 63 for axis in (*stored.shape, *chunks)):
        raise BadArray("has a shape that no array has")
    chunk, size = math.prod(chunks) * item_bytes(stored.descr), math.prod(stored.shape) * item_bytes(stored.descr)
    if chunk > CHUNK_BYTES:
        raise BadArray(f"has chunks of {chunk:,} bytes, more than {CHUNK_BYTES:,}; write smaller ones")
    if size <= FREE_BYTES or (there := stored_bytes(-(-size // MOST_PACKED))) * MOST_PACKED >= size:
        return
    count = math.prod(-(-axis // max(1, part)) for axis, part in zip(stored.shape, places, strict=True))
    if stored_chunks(-(-count // MOST_MISSING)) * MOST_MISSING < count:
        raise BadArray(
            f"is of {size:,} bytes by its shape {list(stored.shape)}, of which {there:,} are stored: "
            "nearly all values are a fill value; write it without the rows that are not there"
        )


def _bytes_below(folder: str, enough: int) -> int:
    """The sizes of the files of chunks below a folder together, as soon as they are enough."""
    total = 0
    for entry in _chunk_files(folder):
        total += entry.stat().st_size
        if total >= enough:
            break
    return total


def _chunks_below(folder: str, enough: int) -> int:
    """How many files of chunks are below a folder, until they are enough."""
    return sum(1 for _ in islice(_chunk_files(folder), enough))


def _chunk_files(folder: str) -> Iterator[os.DirEntry[str]]:
    """The files below the folder of an array of Zarr but those that describe it."""
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name != ZARR_FILE and not entry.name.startswith(".z"):
                    yield entry


def _choose(names: Sequence[str], name: str, member: str | None) -> str:
    """The array that is meant among those of a file."""
    has = f"(it has: {', '.join(names[:20])})" if names else "(it has none)"
    if member is not None:
        member = member if member in names else member.strip("/")  # of groups in groups, as a path
        if member not in names:
            raise NoSuchArray(f"has no array {member!r}{near_miss(member, names)} {has}")
        return member
    if name in names:
        return name
    if len(names) == 1:
        return names[0]
    raise BadArray(f"has no array {name!r}; say with 'array' which one is meant {has}")
