"""Reads the files of many images and looks whether each can be used, in the order of the files."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.sources.image import ImageSource, Store
from beamfeed.contract.cores import available_cores
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.rejects import BadInput, check_same
from beamfeed.transforms.sources.image.header import BadImage
from beamfeed.transforms.sources.image.picture import Picture, make_picture, quick_picture
from beamfeed.transforms.sources.image.run_file import starts_by_size
from beamfeed.transforms.sources.readers import naming_the_file

MOST_BYTES = 1 << 30  # of a file that is read
TASK_BYTES, TASK_IMAGES = 256 << 10, 16  # that a thread takes at a time
REMOTE_THREADS = 32  # of a process, that wait for a bucket
JPEGS = (".jpg", ".jpeg", ".jpe", ".jfif")  # most are; what a file is its bytes say

R = TypeVar("R")
P = TypeVar("P", Picture, Picture | None)
Task = Callable[[], list[R]]


class Listed(NamedTuple):
    """An image of a run.

    Attributes:
      path: of the file.
      size: bytes.
      mtime: nanoseconds since 1970.
      wrong: why it cannot be used, if the list of images says so already.
    """

    path: str
    size: int
    mtime: int
    wrong: str | None


def look_at_all(source: ImageSource, files: Sequence[Listed]) -> Iterator[Picture | BadInput]:
    """What records hold of the images, or why one cannot be used.

    Files of a disk are read one after the other, as threads would wait for Python's lock and not for the disk. Threads
    read those of a bucket, and what has to be decoded: Pillow does so outside of Python's lock.

    Raises:
      JobFailed: if the machine fails, or a file is not as it was listed.
    """
    remote = any(storage.is_remote(file.path) for file in files)
    threads = REMOTE_THREADS if remote else available_cores()
    batches = (files[first:end] for first, end in _tasks([file.size for file in files]))
    tasks = (_task(source, batch) if remote else _quick(source, batch) or _task(source, batch) for batch in batches)
    return in_order(_pool(threads), tasks, 2 * threads)


def _quick(source: ImageSource, files: Sequence[Listed]) -> list[Picture | BadInput]:
    """The images, or none where one has to be decoded: then all are read again, so that few bytes are held."""
    pictures = []
    for file in files:
        likely = source.store.format == "original" and file.path.lower().endswith(JPEGS)
        picture = _look(source, file, quick_picture) if likely else None
        if picture is None:
            return []
        pictures.append(picture)
    return pictures


def _task(source: ImageSource, files: Sequence[Listed]) -> Task[Picture | BadInput]:
    """What reads and decodes images: in the thread that does it, so that few are held."""
    return lambda: [_look(source, file, make_picture) for file in files]


def _look(source: ImageSource, file: Listed, make: Callable[[bytes, Store, int], P]) -> P | BadInput:
    if file.wrong is not None:
        return BadInput(file.path, "file", file.wrong)
    if file.size > MOST_BYTES:
        return BadInput(file.path, "file", f"has {file.size:,} bytes; more than {MOST_BYTES:,} are no image")
    try:
        with naming_the_file(file.path):
            data, stat = storage.read_dated(file.path, file.size)
            listed = FileStat(file.path, file.size, file.mtime)
            # Of an object of a bucket, which is read as it was at one time, the size alone is compared.
            check_same(stat or listed, listed)
            check_same(FileStat(file.path, len(data), file.mtime), listed)
            try:
                return make(data, source.store, source.max_pixels)
            except BadImage as bad:
                raise BadInput(file.path, bad.place, bad.reason) from None
    except BadInput as bad:
        return bad


def _tasks(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of images that a thread takes at a time: the first, and the one behind the last."""
    weights = np.maximum(np.array(sizes, np.int64), TASK_BYTES // TASK_IMAGES)
    yield from pairwise([*starts_by_size(weights, TASK_BYTES).tolist(), len(sizes)])


@lru_cache(maxsize=2)
def _pool(threads: int) -> ThreadPoolExecutor:
    """The threads of a process: those that run its units share them."""
    return ThreadPoolExecutor(threads, thread_name_prefix="images")


def in_order(pool: ThreadPoolExecutor, tasks: "Iterable[list[R] | Task[R]]", ahead: int) -> Iterator[R]:
    """What tasks give, in their order, where some are done already and others run in threads; so many are ahead."""
    waiting: deque[list[R] | Future[list[R]]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(task) if callable(task) else task)
            while waiting and (isinstance(waiting[0], list) or len(waiting) > ahead):
                yield from _result(waiting.popleft())
        while waiting:
            yield from _result(waiting.popleft())
    finally:
        for pending in waiting:
            if isinstance(pending, Future):
                pending.cancel()


def _result(task: "list[R] | Future[list[R]]") -> list[R]:
    return task if isinstance(task, list) else task.result()
