"""What is wrong with a dataset that cannot be read, in one line."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.windows import MISMATCH
from beamfeed.contract.errors import UserError
from beamfeed.trainer.feed.reader import open_shard

LOOK_SECONDS = 60.0  # each worker looks for what is damaged; a large dataset takes hours to read
_DIFFERS = re.compile(rf"{MISMATCH}(: field \w+)?")
# TensorFlow's messages end with the operation that failed; those that decode the files in a field.
_NOT_DECODED = re.compile(r"\{\{node [^}]*\b(?:Decode[A-Z]\w*|ExtractJpegShape)(?:_\d+)?\}\}")
_BEFORE = re.compile(r"^.*Iterator::[\w:\[\]]+: ")  # the reason
_OTHER_TYPE = re.compile(r"Key: ([^,]+),.*Data types don't match")  # TensorFlow's words


@contextmanager
def explained(manifest: Manifest, output: str) -> Iterator[None]:
    """Turns what TensorFlow raises on reading a dataset into one line.

    Raises:
      UserError: naming the damaged shard, or saying that shards and manifest differ.
    """
    try:
        yield
    except tf.errors.DataLossError:
        path, reason = find_damage(manifest, output) or (output, "a shard, which 'beamfeed inspect --verify' names")
        raise UserError(f"{path}: damaged: {reason}; {manifest.remedy}, or set train.feed.skip_corrupt=true") from None
    except tf.errors.InvalidArgumentError as error:
        if _NOT_DECODED.search(error.message):
            why = _BEFORE.sub("", error.message.splitlines()[0])
            line = f"a record holds a file that cannot be decoded: {why}; rewrite the shards without it"
            raise UserError(f"{output}: {line}") from None
        mismatch = find_mismatch(error)
        if mismatch is None:
            raise
        raise UserError(f"{output}: {mismatch}; {manifest.remedy}") from None
    except tf.errors.NotFoundError as error:
        if output not in error.message:
            raise
        raise UserError(f"{output}: a shard is missing: {_short(error)}") from None


def find_mismatch(error: tf.errors.OpError) -> str | None:
    """How records differ from what the manifest says of them; None where the error is none of that."""
    if match := _DIFFERS.search(error.message):
        return match[0]
    if match := _OTHER_TYPE.search(error.message):
        return f"in a shard the field {match[1]} is of another type than the manifest says"
    return None


def find_damage(manifest: Manifest, output: str) -> tuple[str, str] | None:
    """The first shard that cannot be read to its end, and why; None if it is not found in a minute."""
    end = time.monotonic() + LOOK_SECONDS
    for split in manifest.splits:
        for path in manifest.shard_paths(output, split):
            try:
                for _ in open_shard(path, manifest.compression).batch(256):
                    if time.monotonic() > end:
                        return None
            except tf.errors.DataLossError as error:
                return path, _short(error)
    return None


def _short(error: tf.errors.OpError) -> str:
    """TensorFlow's message without the names of graph nodes."""
    return error.message.split("}}")[-1].split(" [Op:")[0].splitlines()[0].strip()
