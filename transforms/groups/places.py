"""Where the records of each group are: by a field of the records, or by the partitions of the dataset."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import LENGTHS, Field
from beamfeed.contract.dataset.manifest import Manifest, partition_values
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed, UserError, near_miss
from beamfeed.contract.records.entries import as_binary, entries_of
from beamfeed.contract.records.examples import Records, count_entries, features_of, find_lists
from beamfeed.contract.records.frames import FRAMING_BYTES, Damaged, read_frames
from beamfeed.contract.records.pieces import Pieces

# Columns of a place.
OFFSET, SIZE, ROWS = range(3)


@dataclass(frozen=True, eq=False)
class Place:
    """Where the records of a group are in a shard.

    Attributes:
      split: of the shard.
      shard: its number, in the manifest's order.
      records: int64 `[3, records]`: bytes before each in the unpacked shard; its bytes, framed; its rows.
    """

    split: SplitName
    shard: int
    records: np.ndarray


@dataclass(frozen=True, eq=False)
class Group:
    """The records of a group.

    Attributes:
      name: the value of the field or partition.
      windows: by split; of a split that holds nothing of the group, none.
      places: of its records, in the order of splits and shards; none where a partition holds them.
    """

    name: str
    windows: dict[SplitName, int]
    places: tuple[Place, ...] = ()

    @classmethod
    def of(cls, name: str, places: Iterable[Place], windows: Windows) -> "Group":
        """A group whose records are at these places; `windows` are those of the dataset."""
        ordered = tuple(sorted(places, key=lambda place: (SPLITS.index(place.split), place.shard)))
        counts: dict[SplitName, int] = {}
        for place in ordered:
            held = count_windows(place.records[ROWS], windows.length, windows.stride)
            counts[place.split] = counts.get(place.split, 0) + int(held.sum())
        return cls(name, counts, ordered)


def partitions(manifest: Manifest, column: str) -> list[Group] | None:
    """The groups of a dataset that is partitioned by a column; None where it is not."""
    windows: dict[str, dict[SplitName, int]] = defaultdict(dict)
    for split, info in manifest.splits.items():
        for shard in info.shards:
            name = partition_values(shard.folder).get(column)
            if name is not None and shard.windows:
                windows[name][split] = windows[name].get(split, 0) + shard.windows
    return [Group(name, dict(of_splits)) for name, of_splits in sorted(windows.items())] or None


def key_field(manifest: Manifest, name: str) -> Field:
    """The field of this name, by which records can be distinguished.

    Raises:
      UserError: if there is none.
    """
    fits = [field for field in manifest.fields if _tells_groups(field)]
    match = next((field for field in fits if field.name == name), None)
    if match is not None:
        return match
    columns = {
        key for info in manifest.splits.values() for shard in info.shards for key in partition_values(shard.folder)
    }
    names = sorted({*(field.name for field in fits), *columns})
    has = f"it can be {', '.join(names)}" if names else "it has no key field and no partition"
    raise UserError(
        f"--by {name}: dataset {manifest.name} has no such key or partition{near_miss(name, names)} ({has})"
    )


def _tells_groups(field: Field) -> bool:
    names = field.dtype == "bytes" or (field.dtype == "int64" and field.per != "record")  # not the place of a record
    return field.role == "key" and names and not field.shape and field.time is None


def scan_groups(path: str, manifest: Manifest, key: Field) -> dict[str, np.ndarray]:
    """The records of each group in a shard, as of `Place`.

    Args:
      path: of the shard, which is not compressed.
      manifest: of the dataset.
      key: the field whose value names the group of a record.

    Raises:
      JobFailed: if it is damaged.
      UserError: if a record holds rows of several groups.
    """
    by_group: dict[str, list[np.ndarray]] = defaultdict(list)
    offset = 0
    try:
        with storage.open_stream(path) as file:
            for batch in read_frames(file):
                records = Records.of(batch)
                names, of_record, rows = _look_at(records, manifest, key)
                sizes = records.pieces.sizes + FRAMING_BYTES
                ends = offset + np.cumsum(sizes)
                places = np.stack([ends - sizes, sizes, rows])
                for number, name in enumerate(names):
                    by_group[name].append(places[:, of_record == number])
                offset = int(ends[-1])
    except (Damaged, ValueError) as error:
        raise JobFailed(f"{path}: damaged: {error}; {manifest.remedy}") from None
    return {name: np.concatenate(parts, axis=1) for name, parts in by_group.items()}


def _look_at(records: Records, manifest: Manifest, key: Field) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The groups of some records; of each record int64 the number of its group, and its rows."""
    features = features_of(manifest.fields)
    lists = find_lists(records, features, manifest.remedy)
    entries, counts = entries_of(lists, key)
    if (counts != 1).any():
        raise UserError(
            f"--by {key.name}: a record holds rows of several groups; preprocess with output.partition_by: [{key.name}]"
        )
    values = as_binary(lists.buffer, entries) if isinstance(entries, Pieces) else pa.array(entries)
    encoded = values.dictionary_encode()
    names = [
        value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
        for value in encoded.dictionary.to_pylist()
    ]
    by_row = key if key.per == "row" else next(field for field in manifest.fields if field.per == "row")
    listed = by_row.name + LENGTHS if by_row.is_ragged else by_row.name
    (feature,) = (feature for feature in features if feature.key == listed)
    rows = count_entries(lists, feature) // (1 if by_row.is_ragged else by_row.listed_width)
    return names, encoded.indices.to_numpy(), rows
