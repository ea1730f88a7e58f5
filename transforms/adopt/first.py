"""A glance at the first records, so that a name that is spelled wrong is told before all records are read."""

from collections.abc import Sequence

from beamfeed.contract import storage
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.adopt.examples import look_at
from beamfeed.transforms.adopt.frames import Counted, read_frames, unpacked
from beamfeed.transforms.adopt.scan import find_compression
from beamfeed.transforms.rejects import BadInput

RECORDS, FILES = 100, 10  # looked at


def first_names(shards: Sequence[FileStat]) -> list[str]:
    """The names of the features of the first records of the first shard that can be read; none where none can."""
    for shard in shards[:FILES]:
        compression = find_compression(shard.path)
        if compression is None:
            continue
        try:
            with storage.open_input(shard.path) as file:
                batch = next(read_frames(unpacked(Counted(file), compression), shard.path), [])
            found = look_at(batch[:RECORDS])
        except (BadInput, ValueError):
            continue
        if found:
            return sorted({name.name for name in found})
    return []
