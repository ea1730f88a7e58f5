"""The head of an array in NumPy's format, and which dtypes can be used.

https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html describes the format. Nothing is unpickled: an
array of Python objects is refused by its head.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

MAGIC = b"\x93NUMPY"
MOST_HEAD_BYTES = 1 << 20
# By kind and bytes of NumPy's descriptions.
DTYPES = {
    "b1": "bool", "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "i1": "int8", "i2": "int16",
    "i4": "int32", "i8": "int64", "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64",
    "c16": "complex128",
}  # fmt: skip
TEXTS = ("bytes", "text")  # of one length in the file, filled up with zeros
ALLOWED = ", ".join([*DTYPES.values(), "and texts of one length"])


class BadArray(ValueError):
    """Why something cannot be used as an array, in a few words after its name."""


class NoSuchArray(BadArray):
    """A file of several arrays has none of a name."""


@dataclass(frozen=True)
class Head:
    """What the head of an array says.

    Attributes:
      descr: the dtype as NumPy writes it: `<f4`.
      shape: of the whole array.
      fortran: whether the first axis is the one that changes fastest.
      size: bytes of the head, so that the values begin after it.
    """

    descr: str
    shape: tuple[int, ...]
    fortran: bool
    size: int


def read_head(read: Callable[[int], bytes]) -> Head:
    """Reads a head; `read` gives the next so many bytes.

    Raises:
      BadArray: if it is none, or of a version that is not known.
    """
    begin = read(len(MAGIC) + 2)
    if begin[: len(MAGIC)] != MAGIC or len(begin) != len(MAGIC) + 2:
        raise BadArray("is not a NumPy array (.npy)" if begin else "is empty")
    version = begin[len(MAGIC)]
    if version not in (1, 2, 3):
        raise BadArray(f"is of version {version} of NumPy's format, known are 1 to 3")
    width = 2 if version == 1 else 4
    length = int.from_bytes(read(width), "little")
    if length > MOST_HEAD_BYTES:
        raise BadArray(f"has a head of {length:,} bytes, which is broken")
    text = read(length)
    if len(text) != length:
        raise BadArray("is cut off in its head")
    return _parsed(text.decode("utf-8" if version == 3 else "latin-1", "replace"), len(begin) + width + length)


def _parsed(text: str, size: int) -> Head:
    try:
        header = ast.literal_eval(re.sub(r"(\d)L\b", r"\1", text).strip())  # Python 2 wrote long integers as 7L
        descr, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        raise BadArray("has a header that cannot be read") from None
    if not isinstance(shape, tuple) or not all(isinstance(axis, int) and 0 <= axis < 1 << 63 for axis in shape):
        raise BadArray(f"has the invalid shape {shape!r} in its header")
    if not isinstance(descr, str):
        raise BadArray("holds records of several values; give each its own array")
    return Head(descr, shape, bool(fortran), size)


def dtype_name(descr: str) -> str:
    """The name of a dtype: `<f4` is float32; of texts `bytes` or `text`.

    Raises:
      BadArray: if no tensor can hold it.
    """
    kind, size = _kind_and_size(descr)
    if kind == "O":
        raise BadArray("holds Python objects, which would have to be unpickled: that could run any code. Save numbers")
    if kind in ("S", "U") and size.isdigit() and int(size):
        return "bytes" if kind == "S" else "text"
    name = DTYPES.get(f"{kind}{size}")
    if name is None:
        raise BadArray(f"is of the dtype {descr!r}, which cannot be used ({ALLOWED})")
    return name


def item_bytes(descr: str) -> int:
    """Of one value in the file."""
    kind, size = _kind_and_size(descr)
    return 4 * int(size) if kind == "U" else int(size)


def _kind_and_size(descr: str) -> tuple[str, str]:
    """`<f4` is ("f", "4"); of a text that is no dtype, both are empty."""
    match = re.fullmatch(r"[<>|=]?([A-Za-z?])(\d*)", descr, re.ASCII)
    return (match[1], match[2]) if match else ("", "")
