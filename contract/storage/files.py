"""Small files and listings on local disk or gs://, through pyarrow's file systems.

Shards are written and read by Beam's and TensorFlow's own file systems; this
module serves the job file, the manifest, and the one listing of the input.
"""

import glob
import io
import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from beamfeed.contract.errors import Unanswered, UserError, first_line
from beamfeed.contract.storage.credentials import require_credentials
from beamfeed.contract.storage.patterns import Reading, escaped_glob, is_hidden, readings

if TYPE_CHECKING:
    import pyarrow as pa

GS = "gs://"
PART_BYTES = 8 << 20  # of a file, that are read at a time, or are a request that writes to gs://
ASKED_TOGETHER = 32  # files of a bucket, asked for at the same time
MOST_STATS = 1000  # of them; a listing tells as many at a time
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file of a listing; what it was when it was listed."""

    path: str
    size: int  # bytes
    mtime: int  # nanoseconds


def is_remote(path: str) -> bool:
    """Whether a path is in a bucket.

    Raises:
      UserError: if it is in storage of another kind, such as s3://: no local folder shall have that name.
    """
    if path.startswith(GS):
        return True
    if match := _SCHEME.match(path):
        raise UserError(
            f"{path}: Beamfeed reads and writes local folders and gs:// alone, not {match[0]}; mount that storage as a "
            "folder, or copy the files"
        )
    return False


def absolute(path: str) -> str:
    """A path from the root of the file system, or in a bucket: the same whichever folder a process works in."""
    return path if is_remote(path) else os.path.abspath(path)


def join(folder: str, *names: str) -> str:
    """The path of something in a folder."""
    return "/".join([folder.rstrip("/") or "/", *names]).replace("//", "/", 0 if is_remote(folder) else 1)


@lru_cache
def _gcs() -> Any:
    require_credentials()
    from pyarrow import fs

    return fs.GcsFileSystem()


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Tells in a few words what Cloud Storage said of a gs:// path.

    Raises:
      UserError: if the bucket is not there, or not for this user.
      FileNotFoundError, NotADirectoryError
      Unanswered: for all else, which is trouble of the service.
    """
    try:
        yield
    except OSError as error:
        quoted = re.search(r"with a last message of (.*?)(?: error_info=|\)\. Detail)", str(error), re.DOTALL)
        reason = quoted[1].strip() if quoted else first_line(error)
        if isinstance(error, FileNotFoundError) or reason.startswith("No such"):  # pyarrow's own have no type
            if "bucket does not exist" in reason:
                raise UserError(f"{path}: there is no bucket {_bare(path).partition('/')[0]!r}") from None
            raise FileNotFoundError(f"{path}: there is no such file") from None
        if reason.startswith("Cannot use file"):
            raise NotADirectoryError(f"{path}: is a file") from None
        if isinstance(error, PermissionError) or "UNAUTHENTICATED" in str(error):
            raise UserError(f"{path}: no permission: {reason}") from None
        raise Unanswered(f"{path}: {reason}") from None


def _bare(path: str) -> str:
    return path.removeprefix(GS).rstrip("/")


def open_input(path: str) -> Any:
    """Opens a file for random reads; returns a pyarrow NativeFile."""
    if is_remote(path):
        from beamfeed.contract.storage.gcs import open_ranges

        require_credentials()
        return open_ranges(path)
    import pyarrow as pa

    return pa.OSFile(path, "rb")


def open_stream(path: str) -> Any:
    """Opens a file that is read from its beginning to its end: small pieces of gs:// are not requests of their own."""
    file = open_input(path)
    return io.BufferedReader(file, PART_BYTES) if is_remote(path) else file


def read_bytes(path: str) -> bytes:
    """The whole of a small file."""
    if is_remote(path):
        with _naming(path), _gcs().open_input_stream(_bare(path), compression=None) as stream:
            return bytes(stream.read())
    with open(path, "rb") as file:
        return file.read()


def read_dated(path: str, size: int) -> tuple[bytes, FileStat | None]:
    """The whole of a file that had so many bytes, and what the file was then; of a longer one a byte more than that.

    Of gs:// it is None: an object is read whole, as it was at one time. Of many small files nearly all the time goes
    into calls of the system, each of which lets go of Python's lock: here there are four.
    """
    if is_remote(path):
        return read_bytes(path), None
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(file, size + 1)
        if len(data) < size:  # a disk gives all at once; what is mounted may not
            parts, remaining = [data], size + 1 - len(data)
            while more := os.read(file, remaining) if remaining else b"":
                parts.append(more)
                remaining -= len(more)
            data = b"".join(parts)
        status = os.fstat(file)
        return data, FileStat(path, status.st_size, status.st_mtime_ns)
    finally:
        os.close(file)


def read_table(path: str) -> "pa.Table":
    """The whole of a small Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(read_bytes(path)))


def write_table(path: str, table: "pa.Table") -> None:
    """Writes a whole small Parquet file, see `write_bytes`; equal tables give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_bytes(path, sink.getvalue().to_pybytes())


def read_text(path: str) -> str:
    """The whole of a small UTF-8 file."""
    return read_bytes(path).decode("utf-8")


def read_mapping(path: str) -> dict[str, Any]:
    """What a small JSON file holds; nothing where it cannot be read, or is no mapping."""
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def write_text(path: str, text: str) -> None:
    """Writes a whole small file, see `write_bytes`."""
    write_bytes(path, text.encode())


def write_bytes(path: str, data: bytes) -> None:
    """Writes a whole small file so that a reader sees the old or the new, never a part."""
    write_chunks(path, [data])


def read_chunks(path: str) -> Iterator[bytes]:
    """The bytes of a file, some megabytes at a time."""
    with open_input(path) as file:
        while chunk := file.read(PART_BYTES):
            yield chunk


def write_chunks(path: str, chunks: Iterable[bytes]) -> None:
    """Writes a file of any size in pieces, see `write_bytes`."""
    if is_remote(path):
        # Visible when it is closed.
        with _naming(path), _gcs().open_output_stream(_bare(path), buffer_size=PART_BYTES) as file:
            for chunk in chunks:
                file.write(chunk)
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    temporary = f"{path}.tmp-{uuid.uuid4().hex}"
    try:
        with open(temporary, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


@contextmanager
def open_output(path: str, temporary: str | None = None) -> Iterator[Any]:
    """A file to write, a pyarrow NativeFile, which has its name when it is whole.

    Args:
      path: of the file.
      temporary: a path that no other attempt uses, on the same file system. Left out, a name beside it; on gs:// the
        file then has its name when it is closed, also where the writing failed.
    """
    if is_remote(path):
        target = temporary or path
        try:
            with _naming(path), _gcs().open_output_stream(_bare(target), buffer_size=PART_BYTES) as file:
                yield file
            if temporary is not None:
                with _naming(path):
                    _gcs().move(_bare(temporary), _bare(path))
        except BaseException:
            if temporary is not None:
                with suppress(OSError):
                    _gcs().delete_file(_bare(temporary))
            raise
        return
    import pyarrow as pa

    temporary = temporary or f"{path}.tmp-{uuid.uuid4().hex}"
    for name in (path, temporary):
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    try:
        with pa.OSFile(temporary, "wb") as file:
            yield file
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def copy_tree(folder: str, target: str) -> None:
    """Copies the files of a folder, and those below it, into another one; of what is there, those of these names go."""
    for file in match(folder, ("",)):
        write_chunks(join(target, file.path.removeprefix(folder).lstrip("/")), read_chunks(file.path))


def exists(path: str) -> bool:
    """Whether there is a file or a folder at a path."""
    if is_remote(path):
        from pyarrow import fs

        with _naming(path):
            return bool(_gcs().get_file_info(_bare(path)).type != fs.FileType.NotFound)
    return os.path.exists(path)


def list_folder(folder: str) -> list[str]:
    """The names directly in a folder, sorted; none where there is no such folder."""
    if is_remote(folder):
        # pyarrow lists no folder that has no object of its own, or else everything below.
        from beamfeed.contract.storage.gcs import list_names

        require_credentials()
        try:
            return list_names(folder)
        except FileNotFoundError:
            raise UserError(f"{folder}: there is no bucket {_bare(folder).partition('/')[0]!r}") from None
        except PermissionError as error:
            reason = re.sub(r".* (?:GET|POST) \S+: ", "", first_line(error))
            raise UserError(f"{folder}: no permission: {reason}") from None
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def remove_tree(folder: str) -> None:
    """Removes a folder and all in it, or a file on a disk, if it is there."""
    if is_remote(folder):
        with suppress(FileNotFoundError), _naming(folder):
            # Deletes what is in the folder, then the folder's own object, which need not be there.
            _gcs().delete_dir(_bare(folder))
        return
    import shutil

    if os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)
    else:
        remove_file(folder)


def remove_file(path: str) -> None:
    """Removes a file, if it is there."""
    if is_remote(path):
        with suppress(FileNotFoundError), _naming(path):
            _gcs().delete_file(_bare(path))
        return
    with suppress(FileNotFoundError):
        os.unlink(path)


def match(pattern: str, suffixes: tuple[str, ...], *, hidden: bool = True) -> list[FileStat]:
    """The files that a path, a folder or a glob names, in order of path, by one listing.

    `*` and `?` stay inside a folder, `**` crosses folders. A folder means every
    file under it that ends in one of `suffixes`, in small letters or capitals.
    What is there as it is written is no glob: `in[1]`, and `in[1]/*.csv` is one in the folder `in[1]`.

    Args:
      pattern: a file, a folder or a glob, local or gs://
      suffixes: of the files that are taken from a folder, in small letters.
      hidden: whether files count that other programs keep for themselves, see `is_hidden`.
    """
    if is_remote(pattern):
        reading, files = _list_gcs(pattern)
    else:
        reading = next(
            (candidate for candidate in readings(pattern) if os.path.lexists(candidate.folder)), readings(pattern)[-1]
        )
        files = _list_local(reading, pattern)
    if reading.is_glob:
        files = [stat for stat in files if reading.regex.fullmatch(stat.path)]
    elif not (len(files) == 1 and files[0].path == pattern):  # a folder
        files = [stat for stat in files if stat.path.lower().endswith(suffixes)]
    if not hidden:
        files = [stat for stat in files if stat.path == pattern or not is_hidden(stat.path, pattern)]
    return sorted(files, key=lambda stat: stat.path)


def match_inputs(
    patterns: Sequence[str], suffixes: tuple[str, ...], fallback: tuple[str, ...] = ()
) -> tuple[list[FileStat], list[str]]:
    """The files of a job's input, each once and in order of path, and the patterns that name none.

    Args:
      patterns: files, folders and globs.
      suffixes: of the files that are taken from a folder.
      fallback: of those that are taken from a folder without any of these.
    """
    by_pattern = {pattern: match(pattern, suffixes, hidden=False) for pattern in patterns}
    if fallback:
        by_pattern = {pattern: files or match(pattern, fallback, hidden=False) for pattern, files in by_pattern.items()}
    files = {stat.path: stat for stats in by_pattern.values() for stat in stats}
    return [files[path] for path in sorted(files)], [pattern for pattern in patterns if not by_pattern[pattern]]


def left_out(pattern: str, suffixes: tuple[str, ...]) -> str:
    """Words on a file that a pattern would name if other programs did not keep such names for themselves, or none."""
    names = [os.path.basename(stat.path) for stat in match(pattern, suffixes)]
    own = next((name for name in names if name.startswith(("_", "."))), None)
    return f"; {own} is left out, as names that begin with _ or . are: name it in full" if own else ""


def _list_local(reading: Reading, pattern: str) -> list[FileStat]:
    folder = reading.folder
    if not reading.is_glob and not os.path.isdir(folder):
        return [_local_stat(pattern)] if os.path.lexists(pattern) else []
    if reading.is_glob and "**" not in reading.rest:
        paths = glob.glob(os.path.join(escaped_glob(folder), reading.rest) if folder else pattern)
    else:
        top = folder or ("/" if pattern.startswith("/") else ".")
        paths = [os.path.join(parent, name) for parent, _, names in os.walk(top) for name in names]
        if top == ".":
            paths = [path.removeprefix("./") for path in paths]
    # A link to nowhere belongs to the listing: whoever reads it says so. Folders and pipes do not.
    return [_local_stat(path) for path in paths if os.path.isfile(path) or not os.path.exists(path)]


def stat(path: str) -> FileStat:
    """What a file is now.

    Raises:
      FileNotFoundError: if it is gone.
    """
    if is_remote(path):
        with _naming(path):
            info = _gcs().get_file_info(_bare(path))
        if info.size is None:
            raise FileNotFoundError(f"{path}: there is no such file")
        return FileStat(path, info.size, info.mtime_ns or 0)
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{path}: there is no such file")
    return _local_stat(path)


def _local_stat(path: str) -> FileStat:
    stat = os.stat(path) if os.path.exists(path) else os.lstat(path)
    return FileStat(path, stat.st_size, stat.st_mtime_ns)


def _list_gcs(pattern: str) -> tuple[Reading, list[FileStat]]:
    """The reading of a pattern that holds, and the files of its folder."""
    from pyarrow import fs

    ways = readings(pattern)
    literal, reading = ways[0], ways[-1]
    infos = _gcs_listing(reading.folder, recursive=not reading.is_glob or "**" in reading.rest or "/" in reading.rest)
    if reading.is_glob:
        paths = [GS + info.path for info in infos]  # one listing tells of all the folders that a pattern may name
        matching = (candidate for candidate in ways if any(_is_or_lies_in(path, candidate.folder) for path in paths))
        reading = next(matching, reading)
        # But for one in its last part: a listing of one folder is silent about those in it.
        if not reading.is_glob or not any(reading.regex.fullmatch(path) for path in paths):
            infos = [info for info in infos if info.type == fs.FileType.File and GS + info.path == pattern]
            infos = infos or _gcs_listing(literal.folder, recursive=True)
            reading = literal
    if not infos and not reading.is_glob and "/" in _bare(pattern):  # a file; a bucket takes a permission more
        with _naming(pattern):
            infos = [_gcs().get_file_info(_bare(pattern))]
    files = [info for info in infos if info.type == fs.FileType.File]
    return reading, [FileStat(GS + info.path, info.size, info.mtime_ns or 0) for info in files]


def _is_or_lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _gcs_listing(folder: str, recursive: bool) -> list[Any]:
    """What is in a folder of a bucket that is there; nothing where there is no such folder."""
    from pyarrow import fs

    try:
        with _naming(folder):
            return list(_gcs().get_file_info(fs.FileSelector(_bare(folder), recursive=recursive)))
    except (FileNotFoundError, NotADirectoryError):
        return []


def stat_all(paths: Sequence[str]) -> dict[str, FileStat]:
    """What the files are that are there, by path.

    Those of a bucket are asked for at the same time, as each waits for an answer; very many are listed instead.
    """

    def ask(path: str) -> FileStat | None:
        try:
            return stat(path)
        except FileNotFoundError:
            return None

    remote = bool(paths) and is_remote(paths[0])
    if remote and len(paths) > MOST_STATS:
        return {file.path: file for file in match(os.path.commonpath(paths).replace(":/", "://", 1), ("",))}
    with ThreadPoolExecutor(ASKED_TOGETHER) as pool:
        stats = list(pool.map(ask, paths) if remote else map(ask, paths))
    return {file.path: file for file in stats if file is not None}
