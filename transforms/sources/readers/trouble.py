"""Tells what is wrong with a file from what is wrong with the machine that reads it."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.rejects import BadInput


@contextmanager
def naming_the_file(path: str) -> Iterator[None]:
    """Turns errors of reading `path` into BadInput, if it is the file's fault, else into JobFailed.

    What a dataset holds must not hang on the health of a worker: a file is set aside for what is in it alone.

    Raises:
      BadInput: the file is broken.
      JobFailed: memory, file handles, a permission, a disk or a bucket failed, or the file is gone. An engine that
        tries again may succeed.
    """
    try:
        yield
    except (BadInput, JobFailed):
        raise
    except FileNotFoundError:
        _check_link(path)
        raise JobFailed(
            f"{path}: was there when the files were listed, and is not any more, or not on the machine that reads it"
        ) from None
    except PermissionError:
        raise JobFailed(f"{path}: no permission to read it") from None
    except ConnectionError as error:
        raise JobFailed(str(error)) from None
    except MemoryError as error:
        if _asks_for_too_much(str(error)):
            raise BadInput(path, "file", f"cannot be read: {error}") from None
        raise JobFailed(f"{path}: no memory left to read it: {error or 'MemoryError'}") from None
    except (pa.ArrowException, OSError, UnicodeDecodeError, ValueError) as error:
        # The system's errors have a number, those of a decoder have none.
        if isinstance(error, OSError) and error.errno:
            _check_link(path)
            raise JobFailed(f"{path}: {os.strerror(error.errno)} ({errno.errorcode.get(error.errno)})") from None
        message = " ".join(str(error).split())[:300]
        row = re.search(r"Row #(\d+)", message)
        raise BadInput(path, f"line {row[1]}" if row else "file", f"cannot be read: {message}") from None


def check_names(path: str, schema: pa.Schema) -> None:
    """Arrow reads names of columns, and of what columns hold, as bytes, and fails where one is first asked for.

    Raises:
      BadInput: if one is not UTF-8.
    """
    fields = list(schema)
    try:
        while fields:
            field = fields.pop()
            field.name  # noqa: B018 - decodes it
            fields += [field.type.field(place) for place in range(field.type.num_fields)]
    except UnicodeDecodeError as error:
        raise BadInput(path, "file", f"the name of a column is not UTF-8: {error.object!r}") from None


def _check_link(path: str) -> None:
    if not storage.is_remote(path) and os.path.islink(path) and not os.path.exists(path):
        raise BadInput(path, "file", f"is a link to {os.readlink(path)}, which leads nowhere") from None


def _asks_for_too_much(message: str) -> bool:
    """Whether Arrow was to take more memory than the machine has: a number in the file is broken."""
    size = re.search(r"of size (\d+)", message)
    return size is not None and int(size[1]) > psutil.virtual_memory().total
