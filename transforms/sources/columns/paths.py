"""What paths tell: folders `key=value`, as Hive writes them, are columns."""

import re
from urllib.parse import unquote

_KEY = re.compile(r"(?:^|/)([^/=]+)=([^/]*)(?=/)")  # a folder such as machine=A
NOTHING = "__HIVE_DEFAULT_PARTITION__"  # how Hive writes a missing value


def key_columns(path: str) -> dict[str, str]:
    """The keys of the folders of a path, with their values."""
    return {key: unquote(value) for key, value in _KEY.findall(path)}
