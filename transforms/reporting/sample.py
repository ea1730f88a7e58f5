"""Some records of a dataset, from all over it, and single windows by their number: a bounded part of its shards."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.blocks import read_blocks
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.records.frames import Damaged, read_frames, unpacked
from beamfeed.transforms.export.decode import Decoder, naming_the_shard
from beamfeed.transforms.export.items import cut_items, item_fields
from beamfeed.transforms.predictions.columns import ticks_of
from beamfeed.transforms.sources.record_block import Ragged, RecordBlock, Values

SHARDS, PACKED_SHARDS = 24, 4  # of a split that are looked into; what is packed must be read from its beginning
BLOCKS = 160  # of a split
BYTES = 16 << 20  # of a split


@dataclass(frozen=True)
class Place:
    """Where a block is: the number of its shard, its first byte and window there, and how many of each it has."""

    shard: int
    first: int
    bytes: int
    records: int
    first_window: int
    windows: int


class Sample:
    """Reads some of a dataset.

    Args:
      dataset: its folder.
      manifest: of it.
    """

    def __init__(self, dataset: str, manifest: Manifest):
        self.dataset, self.manifest = dataset, manifest
        self.fields: list[Field] = [field for field in manifest.fields if field.stored != "steps"]
        self._places: dict[str, np.ndarray] = {}

    def blocks(self, split: SplitName) -> Iterator[RecordBlock]:
        """Blocks of records of a split, chosen by chance: at most BLOCKS of them, of about BYTES.

        Raises:
          UserError, JobFailed: if the index or a shard is damaged.
        """
        places, rng = self.places(split), np.random.default_rng(0)
        most = SHARDS if self.manifest.compression == "none" else PACKED_SHARDS
        places = places[np.isin(places[:, 0], rng.permutation(np.unique(places[:, 0]))[:most])]
        chosen = places[rng.permutation(len(places))[:BLOCKS]]
        count = max(1, int(np.searchsorted(chosen[:, 2].cumsum(), BYTES, "right")))
        yield from (block for _, block in self.read(split, [Place(*row) for row in chosen[:count].tolist()]))

    def places(self, split: SplitName) -> np.ndarray:
        """Where the blocks of a split are, in order, int64 `[blocks, 6]`: the attributes of `Place`."""
        if split not in self._places:
            table = read_blocks(self.dataset, self.manifest, split)
            shard, size, records, windows = (
                table[name].to_numpy() for name in ("shard", "bytes", "records", "windows")
            )
            first, first_window = (_begins(shard, values) for values in (size, windows))
            self._places[split] = np.stack([shard, first, size, records, first_window, windows], axis=1)
        return self._places[split]

    def read(self, split: SplitName, places: Iterable[Place]) -> Iterator[tuple[Place, RecordBlock]]:
        """The blocks at these places, by shard and place.

        Raises:
          JobFailed: if a shard is damaged, or does not hold what the fields say.
        """
        paths = self.manifest.shard_paths(self.dataset, split)
        decoder = Decoder(self.fields, self.manifest.windows)
        # What is packed is read from its beginning on, of the rest the places alone.
        open_shard = storage.open_input if self.manifest.compression == "none" else storage.open_stream
        ordered = sorted(places, key=lambda place: (place.shard, place.first))
        for shard, of_shard in groupby(ordered, lambda place: place.shard):
            with naming_the_shard(paths[shard]), open_shard(paths[shard]) as opened:
                file = unpacked(opened, self.manifest.compression)
                for place in of_shard:
                    file.seek(place.first)  # type: ignore[attr-defined]
                    records = [record for some in read_frames(io.BytesIO(file.read(place.bytes))) for record in some]
                    if len(records) != place.records:
                        raise Damaged(f"byte {place.first}", f"{len(records)} of {place.records} records are there")
                    yield place, decoder.decode(records)

    def windows(self, split: SplitName, numbers: Sequence[tuple[int, int]]) -> list["Window"]:
        """Single windows.

        Args:
          split: that they are of.
          numbers: of each, its shard and its number in it.
        """
        places = self.places(split)
        shards, ends = np.ascontiguousarray(places[:, 0]), np.cumsum(places[:, 5])
        by_place: dict[Place, list[int]] = {}
        for at, (shard, number) in enumerate(numbers):
            first, end = np.searchsorted(shards, [shard, shard + 1])
            before = ends[first - 1] if first else 0
            block = first + np.searchsorted(ends[first:end], before + number, "right")
            if block < end:
                by_place.setdefault(Place(*places[block].tolist()), []).append(at)
        windows: dict[int, Window] = {}
        for place, block in self.read(split, by_place):
            by_number = {numbers[at][1] - place.first_window: at for at in by_place[place]}
            windows |= {by_number[number]: window for number, window in self.cut(block, by_number)}
        return [windows[at] for at in sorted(windows)]

    def cut(self, block: RecordBlock, numbers: Iterable[int]) -> Iterator[tuple[int, "Window"]]:
        """Windows of a block, by their numbers in it."""
        fields = item_fields(self.fields, self.manifest.windows, "windows")
        keys = [field for field in self.fields if field.role == "key" and field.per == "record"]
        times = [field.name for field in keys if field.time is not None]
        chosen, before = set(numbers), 0
        for items in cut_items(block, fields, self.manifest.windows, "windows"):
            ends = [items.values[name] for name in times]
            ticks = ticks_of(items, 0, ends, None).tolist() if len(ends) == 2 else [None] * items.count
            for number in sorted(chosen):
                if 0 <= (at := number - before) < items.count:
                    values = {name: _only(value) for name, value in items.part(slice(at, at + 1)).values.items()}
                    row, rows = items.in_record[at].tolist()
                    yield number, Window(values, row if rows > self.manifest.windows.length else None, ticks[at])
            before += items.count
            if chosen and max(chosen) < before:
                return


@dataclass(frozen=True)
class Window:
    """One window.

    Attributes:
      values: by name of the field, its value: numbers `[rows, *shape]` or `shape`; of strings a list of bytes.
      row: of its record, at which it begins; None where the record is this window.
      time: of its first row, in ticks; None of what is no series.
    """

    values: Mapping[str, np.ndarray | list[bytes]]
    row: int | None = None
    time: int | None = None


def _begins(shard: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Where each block begins in its shard, of how large all are, int64 `[blocks]`."""
    before = np.cumsum(values) - values
    return before - before[np.searchsorted(shard, shard)]


def _only(values: Values) -> np.ndarray | list[bytes]:
    """The value of the only item."""
    if isinstance(values, np.ndarray):
        return values[0]
    entries = values.values if isinstance(values, Ragged) else values
    if isinstance(entries, np.ndarray):
        return entries
    return [value or b"" for value in entries.cast(pa.binary()).to_pylist()]
