"""A glance at the first records, so that a name that is spelled wrong is told before all records are read."""

from collections.abc import Iterator, Sequence

from beamfeed.contract import storage
from beamfeed.contract.dataset.frames import Counted, Damaged, read_frames, unpacked
from beamfeed.transforms.adopt.examples import look_at
from beamfeed.transforms.adopt.scan import find_compression

RECORDS, FILES = 100, 10  # looked at


def first_records(paths: Sequence[str]) -> Iterator[list[bytes]]:
    """The first records of the first shards; of those that cannot be read, none."""
    for path in paths[:FILES]:
        compression = find_compression(path)
        if compression is None:
            continue
        try:
            with storage.open_input(path) as file:
                batch = next(read_frames(unpacked(Counted(file), compression)), [])
        except Damaged:
            continue
        yield batch[:RECORDS]


def first_names(paths: Sequence[str]) -> list[str]:
    """The names of the features of the first records of the first shard that can be read; none where none can."""
    for records in first_records(paths):
        try:
            found = look_at(records)
        except ValueError:
            continue
        if found:
            return sorted({name.name for name in found})
    return []
