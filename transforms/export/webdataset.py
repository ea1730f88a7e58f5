"""WebDataset: a tar file for each shard, some members for each item: `KEY.FIELD.EXTENSION`."""

import io
import tarfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.errors import UserError
from beamfeed.transforms.export.base import Export, Format, ShardExport, target
from beamfeed.transforms.export.items import ItemField, Items
from beamfeed.transforms.sources.record_block import Ragged

BLOCK = 512  # bytes; each member begins at a multiple
# What a file of these bytes is, by how it begins.
BEGINS = {
    b"\xff\xd8\xff": "jpg", b"\x89PNG": "png", b"GIF8": "gif", b"BM": "bmp", b"II*\x00": "tif", b"MM\x00*": "tif",
}  # fmt: skip


class WebDataset(Format):
    """Tar files as the library webdataset reads them."""

    name: ClassVar[str] = "webdataset"
    suffix: ClassVar[str] = ".tar"

    def check(self, export: Export) -> None:
        for column in export.fields:
            if column.shape and (column.field.dtype == "bytes" or (column.field.is_ragged and column.time is not None)):
                names = ",".join(other.field.name for other in export.fields if other is not column)
                raise UserError(
                    f"--to webdataset: the field {column.field.name!r} is several strings or lists in each of the "
                    f"{export.what}, and a member of a tar file holds one; leave it out: --fields {names}"
                )

    def write(self, export: Export, shard: ShardExport, items: Iterator[Items]) -> None:
        number, fields = 0, export.fields
        with storage.open_output(target(export, shard, self.suffix)) as file:
            for batch in items:
                columns = [list(contents(column, batch)) for column in fields]
                for members in zip(*columns, strict=True):
                    key = f"{shard.split}-{shard.number:05d}-{number:09d}"
                    for extension, data in members:
                        file.write(member(f"{key}.{extension}", data))
                    number += 1
            file.write(bytes(2 * BLOCK))


def member(name: str, data: bytes) -> bytes:
    """A member of a tar file: its header, and its bytes up to a whole block. The same for the same content.

    A name of more than 100 characters has a header of its own (pax).
    """
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o444
    return info.tobuf(tarfile.PAX_FORMAT) + data + bytes(-len(data) % BLOCK)


def contents(column: ItemField, items: Items) -> Iterator[tuple[str, bytes]]:
    """What is written of a field for each item: the end of the member's name, and its bytes."""
    values, name = items.values[column.field.name], column.field.name
    if isinstance(values, pa.Array):
        for data in values.to_pylist():
            yield f"{name}.{extension_of(data, column.field.content)}", data
    elif column.field.classes and not column.shape:
        for number in np.asarray(values).tolist():
            yield f"{name}.cls", str(number).encode()
    else:
        arrays = np.split(values.values, values.edges[1:-1]) if isinstance(values, Ragged) else values
        for array in arrays:
            yield f"{name}.npy", npy(array)


def extension_of(data: bytes, content: str) -> str:
    """What a member with these bytes is called: by what a file begins with, else text or anything."""
    if content:
        matches = (extension for begin, extension in BEGINS.items() if data.startswith(begin))
        return "webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else next(matches, "bin")
    try:
        data.decode()
    except UnicodeDecodeError:
        return "bin"
    return "txt"


def npy(array: np.ndarray) -> bytes:
    """An array as a .npy file."""
    return _npy_head(array.dtype.str, array.shape) + np.ascontiguousarray(array).tobytes()


@lru_cache(maxsize=1000)
def _npy_head(dtype: str, shape: Sequence[int]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": dtype, "fortran_order": False, "shape": tuple(shape)})
    return out.getvalue()
