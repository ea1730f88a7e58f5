"""What paths tell: folders `key=value`, as Hive writes them, are columns."""

import re
from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract.dataset.raw_values import NOTHING
from beamfeed.contract.errors import JobFailed

_KEY = re.compile(r"(?:^|/)([^/=]+)=([^/]*)(?=/)")  # a folder such as machine=A
LONGEST = 255  # bytes of a folder's name, on most file systems


def key_columns(path: str) -> dict[str, str]:
    """The keys of the folders of a path, with their values."""
    return {_unquoted(key): _unquoted(value) for key, value in _KEY.findall(path)}


def _unquoted(text: str) -> str:
    """Without escapes; as it is written where they are not UTF-8, so that two are never one."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


# What Hive does not write as it is, and a space at an end, which some file systems lose.
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]|^[ .]+|[ .]+$""")


def _escape(text: str) -> str:
    return _ESCAPED.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def folders_of(columns: Sequence[str], values: Sequence[pa.Array]) -> pa.StringArray:
    """The folder of each row, string [n], from a column of values for each level, as Hive names it: `land=DE/kind=web`.

    Odd characters are written as `%2F`.
    """
    parts = []
    for name, column in zip(columns, values, strict=True):
        encoded = column.dictionary_encode(null_encoding="encode")
        folders = [
            f"{_escape(name)}={NOTHING if value is None else _escape(value)}"
            for value in encoded.dictionary.to_pylist()
        ]
        if long := [folder for folder in folders if len(folder.encode()) > LONGEST]:
            raise JobFailed(f"output.partition_by: {name} has values too long for a folder's name: {long[0][:60]}...")
        names = pa.array(folders, pa.string())
        parts.append(names.take(encoded.indices))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
