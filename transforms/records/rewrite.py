"""Shards of a dataset, copied without some of their records: those of some assets, or from before a time.

Records are copied as they are; of each, what it holds is counted again where not all stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import compress

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest, Shard
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.records.entries import as_binary, entries_of
from beamfeed.contract.records.examples import Records, features_of, find_lists
from beamfeed.contract.records.frames import Damaged, read_frames, unpacked
from beamfeed.contract.records.pieces import find_numbers, find_strings
from beamfeed.transforms.records.targets import Tally, TargetTally, is_target
from beamfeed.transforms.records.tfrecord import Written, write_file
from beamfeed.transforms.records.verify import measured_records, verify_shard


@dataclass(frozen=True)
class Rule:
    """Which records stay.

    Attributes:
      asset: the field that names their asset; empty where all stay, and are only counted.
      without: no record of these assets stays.
      time: the field of their last time; empty where that does not count.
      since: none stays in which it is less.
      why: it is that time, in words.
    """

    asset: str = ""
    without: frozenset[str] = frozenset()
    time: str = ""
    since: int = 0
    why: str = ""

    def apply(self, batch: list[bytes], manifest: Manifest) -> tuple[list[bytes], list[str]]:
        """Those of some records that stay, and the asset of each of them."""
        if not self.asset:
            return batch, []
        lists = find_lists(Records.of(batch), features_of(manifest.fields))
        strings, _ = find_strings(lists.buffer, lists.pieces[self.asset])
        names = [name.decode() for name in as_binary(lists.buffer, strings).to_pylist()]
        stay = np.fromiter((name not in self.without for name in names), bool, len(names))
        if self.time:
            stay &= find_numbers(lists.buffer, lists.pieces[self.time])[0] >= self.since
        return list(compress(batch, stay)), list(compress(names, stay))


@dataclass(frozen=True)
class ToCopy:
    """Shards of a split and a partition that become one, `index` of `count`.

    Attributes:
      split: theirs.
      index: of what they become.
      count: likewise.
      paths: of the shards, in order.
      records: in them.
      folder: of the partition.
    """

    split: SplitName
    index: int
    count: int
    paths: tuple[str, ...]
    records: int
    folder: str = ""


@dataclass(frozen=True)
class Left:
    """What is left of shards that were copied.

    Attributes:
      split: theirs.
      index: of `ToCopy`.
      targets: the values of their targets, where a rule says which records stay.
      assets: whose records these are, where a time says which of them stay.
      path: of what was written; nothing was, and `shard` is None, where a shard stays as it is.
      shard: as it was read back.
      blocks: of it, int64 `[blocks, 3]`.
    """

    split: SplitName
    index: int
    targets: dict[str, TargetTally]
    assets: frozenset[str]
    path: str = ""
    shard: Shard | None = None
    blocks: np.ndarray = field(default_factory=lambda: np.empty([0, 3], np.int64), repr=False)


def iter_left(copied: ToCopy, manifest: Manifest, rule: Rule | None, tally: Tally) -> Iterator[bytes]:
    """The records that stay, in order; counts them in `tally`, with targets and assets where there is a rule.

    Raises:
      JobFailed: if a shard is damaged or missing.
    """
    fields, windows = manifest.fields, manifest.windows
    targets = [field for field in fields if is_target(field)] if rule is not None else []
    for path in copied.paths:
        try:
            with storage.open_stream(path) as file:
                for batch in read_frames(unpacked(file, manifest.compression)):
                    if rule is not None:
                        batch, names = rule.apply(batch, manifest)
                        tally.windows_by_asset.update(dict.fromkeys(names, 1) if rule.time else {})
                    if not batch:
                        continue
                    records = Records.of(batch)
                    sizes, rows = measured_records(records, fields, windows)
                    tally.bytes += int(sizes.sum())
                    values = {}
                    if targets:
                        lists = find_lists(records, features_of(fields))
                        for target in targets:
                            values[target.name] = TargetTally.of(np.asarray(entries_of(lists, target)[0]), target)
                    tally.add_records(rows, windows, values)
                    yield from batch
        except (Damaged, OSError) as error:
            raise JobFailed(f"{path}: cannot be read: {error}") from None


def copy_shards(copied: ToCopy, layout: DataLayout, manifest: Manifest, rule: Rule | None) -> Iterator[Left]:
    """ToCopy -> Left. A single shard of which all stays is not copied.

    Args:
      copied: to copy.
      layout: names what is written.
      manifest: of the dataset; its shards do not count.
      rule: which records stay; None keeps all.
    """
    split, index = copied.split, copied.index
    tally = Tally()
    if len(copied.paths) == 1:
        for _ in iter_left(copied, manifest, rule, tally):
            pass
        if tally.records == copied.records:
            yield Left(split, index, tally.targets, frozenset(tally.windows_by_asset))
            return
    path = layout.shard(split, index, copied.count, copied.folder, is_copy=True)
    tally = Tally()
    records = iter_left(copied, manifest, rule, tally)
    write_file(path, layout.attempt(split, index), records, manifest.compression)
    written = Written(split, index, copied.count, path, tally, copied.folder)
    shard, blocks = verify_shard(written, manifest.fields, manifest.windows, manifest.compression)
    if not shard.records:
        storage.remove_file(path)
    yield Left(split, index, tally.targets, frozenset(tally.windows_by_asset), path, shard, blocks)
