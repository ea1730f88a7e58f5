"""Shards of a dataset, written anew without some of their records: those of some assets, or from before a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress

import apache_beam as beam
import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest, Shard
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.contract.errors import JobFailed
from beamfeed.contract.records.examples import Records, features_of, find_lists
from beamfeed.contract.records.frames import Damaged, read_frames, unpacked
from beamfeed.contract.records.pieces import find_numbers, find_strings
from beamfeed.transforms.records.example_decoder import Decoder
from beamfeed.transforms.records.targets import Tally, TargetTally, is_target, tally_targets
from beamfeed.transforms.records.tfrecord import Written, write_file
from beamfeed.transforms.records.verify import measured_records, verify_shard


@dataclass(frozen=True)
class Rule:
    """Which records go.

    Attributes:
      key: the field that says it.
      assets: those in which it is one of these, or
      before: those in which it is less than this.
    """

    key: str
    assets: frozenset[str] = frozenset()
    before: int | None = None

    def stay(self, records: Records, manifest: Manifest) -> np.ndarray:
        """Which of some records stay, bool `[records]`."""
        lists = find_lists(records, features_of(manifest.fields))
        content = lists.pieces[self.key]
        if self.before is not None:
            return find_numbers(lists.buffer, content)[0] >= self.before
        strings, _ = find_strings(lists.buffer, content)
        edges = zip(strings.first.tolist(), strings.end.tolist(), strict=True)
        names = (lists.buffer[first:end].tobytes().decode() for first, end in edges)
        return np.fromiter((name not in self.assets for name in names), bool, len(strings.first))


@dataclass(frozen=True)
class Left:
    """What is left of a shard.

    Attributes:
      split: it is in.
      number: among those of the split.
      targets: the values of its targets.
      path: where it was written anew; the others where it was not are None or empty.
      shard: as it was read back.
      blocks: of it, int64 `[blocks, 3]`.
    """

    split: SplitName
    number: int
    targets: dict[str, TargetTally]
    path: str = ""
    shard: Shard | None = None
    blocks: np.ndarray = field(default_factory=lambda: np.empty([0, 3], np.int64), repr=False)


def iter_left(paths: Sequence[str], manifest: Manifest, rule: Rule | None, tally: Tally) -> Iterator[bytes]:
    """The records of some shards that stay, in order; counts them in `tally`, but for their assets.

    Raises:
      JobFailed: if a shard is damaged or missing.
    """
    fields, windows = manifest.fields, manifest.windows
    decoder = Decoder(fields, windows) if any(map(is_target, fields)) else None
    for path in paths:
        try:
            with storage.open_input(path) as file:
                for batch in read_frames(unpacked(file, manifest.compression)):
                    if rule is not None:
                        batch = list(compress(batch, rule.stay(Records.of(batch), manifest)))
                    if not batch:
                        continue
                    sizes, rows = measured_records(Records.of(batch), fields, windows)
                    tally.records += len(batch)
                    tally.bytes += int(sizes.sum())
                    tally.rows += int(rows.sum())
                    tally.windows += int(count_windows(rows, windows.length, windows.stride).sum())
                    if decoder is not None:
                        for name, more in tally_targets(decoder.decode(batch), fields, windows).items():
                            tally.targets[name] = tally.targets[name] + more if name in tally.targets else more
                    yield from batch
        except (Damaged, OSError) as error:
            raise JobFailed(f"{path}: cannot be read: {error}") from None


class WithoutAssets(beam.DoFn):
    """What `growth.each_shard` gives of a shard -> Left, of a dataset some of whose assets are prepared again.

    A shard that holds nothing of them stays where it is.

    Args:
      layout: of the run, which names what is written.
      manifest: of the dataset that is added to, without its shards.
      rule: which records go.
    """

    def __init__(self, layout: DataLayout, manifest: Manifest, rule: Rule):
        self._layout, self._manifest, self._rule = layout, manifest, rule

    def process(self, shard: tuple[SplitName, int, str, Shard, int]) -> Iterator[Left]:
        split, number, path, info, count = shard
        tally = Tally()
        for _ in iter_left([path], self._manifest, self._rule, tally):
            pass
        if tally.records == info.records:
            yield Left(split, number, tally.targets)
            return
        target = self._layout.shard(split, number, count, info.folder, kept=True)
        yield write_left(
            self._layout,
            Written(split, number, count, target, Tally(), info.folder),
            [path],
            self._manifest,
            self._rule,
        )


def write_left(
    layout: DataLayout, written: Written, paths: Sequence[str], manifest: Manifest, rule: Rule | None
) -> Left:
    """Writes what is left of some shards as one, and reads it back.

    Args:
      layout: of the run.
      written: where to, with a tally of nothing.
      paths: of the shards.
      manifest: of their dataset.
      rule: which records go; None keeps all.

    Raises:
      JobFailed
    """
    tally = written.tally
    records = iter_left(paths, manifest, rule, tally)
    write_file(written.path, layout.attempt(written.split, written.index), records, manifest.compression)
    shard, blocks = verify_shard(written, manifest.fields, manifest.windows, manifest.compression)
    return Left(written.split, written.index, tally.targets, written.path, shard, blocks)
