"""Copies of shards on this machine, not compressed, for as long as the process lives."""

import atexit
import gzip
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache

import tensorflow as tf

from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.scratch import scratch_folder

THREADS = 8
CHUNK_BYTES = 8 << 20


def local_copies(paths: list[str], compression: str) -> list[str]:
    """Copies the shards to a folder of temporary files and returns their paths there; once for each shard.

    Raises:
      UserError: if there is no room for them, or a compressed one is damaged.
    """
    folder = _folder()
    targets = [os.path.join(folder, path.replace("://", "/").lstrip("/")) for path in paths]
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(_copy, paths, targets, [compression] * len(paths)):
                pass
    except OSError as error:
        raise UserError(
            f"{folder}: cannot hold copies of the shards: {error}; TMPDIR can name another folder"
        ) from None
    return targets


def _copy(source: str, target: str, compression: str) -> None:
    if os.path.exists(target):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    part = target + ".part"
    with tf.io.gfile.GFile(source, "rb") as file, open(part, "wb") as out:
        stream = gzip.GzipFile(fileobj=file) if compression == "gzip" else file
        try:
            while chunk := stream.read(CHUNK_BYTES):
                out.write(chunk)
        except (gzip.BadGzipFile, zlib.error, EOFError) as error:
            raise UserError(f"{source}: damaged: {error}; prepare the data set again") from None
    os.replace(part, target)


@cache
def _folder() -> str:
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(scratch_folder())
