"""Arguments of feeds, all of them as keywords; and a shard that is damaged."""

from dataclasses import fields
from typing import Any

from beamfeed.trainer.feed.batching import Batching
from beamfeed.trainer.feed.options import FeedOptions
from beamfeed.trainer.numpy_feed.batches import BatchReader

OPTIONS = {field.name for field in fields(FeedOptions)}


def arguments(**given: Any) -> dict[str, Any]:
    """The arguments of a feed, with those that are options put into one."""
    options = FeedOptions(**{name: value for name, value in given.items() if name in OPTIONS})
    return {**{name: value for name, value in given.items() if name not in OPTIONS}, "options": options}


def batch_reader(output: Any, split: Any = "train", *, fields: Any = None, **given: Any) -> BatchReader:
    return BatchReader(output, split, Batching(**arguments(**given)), fields)


def flip(path: str, at: int) -> None:
    """Changes a bit of a byte."""
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
