"""A dataset that has grown, in fewer and larger shards, and without what is older than it keeps."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.blocks import write_blocks
from beamfeed.contract.dataset.growth import data_layout, fingerprint_with, list_known
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest, Shard, SplitInfo, read_manifest
from beamfeed.contract.dataset.published import replace_manifest
from beamfeed.contract.dataset.times import ticks_of, time_text
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.growth import Learned, without_shards
from beamfeed.transforms.known_assets import known_before
from beamfeed.transforms.outcome import count_targets, describe_splits
from beamfeed.transforms.records.blocks import index_table
from beamfeed.transforms.records.rewrite import Left, Rule, ToCopy, copy_shards
from beamfeed.transforms.records.shard_plan import count_shards
from beamfeed.transforms.sources import kind_of
from beamfeed.transforms.sources.descriptors import CannotGoOn
from beamfeed.transforms.taken_over import Merges, superseding, to_copy, what_is_left


def plan_merges(shards: Sequence[Shard], count: Any) -> list[list[int]]:
    """Which shards of a split become one, by their numbers, in order: neighbours in a partition that are small.

    What is more than half as large as a shard that a run over all files would write is left as it is, so that no record
    is copied again and again.

    Args:
      shards: of the split.
      count: `output.shards` of the job.
    """
    by_folder: dict[str, list[int]] = {}
    for number, shard in enumerate(shards):
        by_folder.setdefault(shard.folder, []).append(number)
    merges: list[list[int]] = []
    for numbers in by_folder.values():
        total = sum(shards[number].bytes for number in numbers)
        usual = total / max(1, count_shards(len(numbers), total, count, few=len(by_folder) > 1))
        size, is_full = 0, True
        for number in numbers:
            is_large = shards[number].bytes > usual / 2
            if is_full or is_large or size + shards[number].bytes > 1.5 * usual:
                merges.append([])
                size = 0
            merges[-1].append(number)
            size += shards[number].bytes
            is_full = is_large or size > 0.9 * usual
    return merges


@dataclass(frozen=True)
class Compaction:
    """What becomes of a dataset.

    Attributes:
      job: that made it.
      before: the dataset, without its shards.
      layout: of the new data folder.
      merges: by split, which shards become one.
      rule: which records stay; None keeps all.
      changed: the manifest's `grows` and `fingerprint` where records go, or their order changes.
      reorders: whether their order changes in any case.
    """

    job: Job
    before: Manifest = field(repr=False)
    layout: DataLayout
    merges: Merges = field(repr=False)
    rule: Rule | None
    changed: Mapping[str, Any]
    reorders: bool

    @classmethod
    def of(cls, job: Job, manifest: Manifest) -> "Compaction":
        """Of a dataset that grows.

        Raises:
          UserError: if `output.keep` does not fit the times of the dataset.
          CannotGoOn: if what is known of its files or assets cannot be read.
        """
        assert manifest.grows is not None
        merges = {name: plan_merges(info.shards, job.output.shards) for name, info in manifest.splits.items()}
        order = [number for name in SPLITS for merge in merges[name] for number in merge]
        reorders = order != [number for name in SPLITS for number in range(len(manifest.splits[name].shards))]
        layout, rule = data_layout(job, manifest.fingerprint), rule_of(job, manifest)
        identity = f"{manifest.grows.compacted} {order if reorders else ''} {rule.since if rule else ''}"
        compacted = hashlib.sha256(identity.encode()).hexdigest()[:16]
        grows = manifest.grows.model_copy(update={"compacted": compacted})
        listed = list_known(manifest.data_layout(job.output.path))
        if listed is None:
            raise CannotGoOn("its list of files is missing, or of another version")
        changed = {"grows": grows, "fingerprint": fingerprint_with(job, *listed, grows)}
        return cls(job, without_shards(manifest), layout, merges, rule, changed, reorders)

    def copies(self, manifest: Manifest) -> list[ToCopy]:
        """The shards of the dataset that are written anew: what becomes one, and where there is a rule, all."""
        every = to_copy(self.job.output.path, manifest, self.merges)
        return [copied for copied in every if len(copied.paths) > 1 or self.rule is not None]


def rule_of(job: Job, manifest: Manifest) -> Rule | None:
    """Which records stay by `output.keep`; None where all do."""
    kind = kind_of(job)
    if job.output.keep is None or kind.asset_field is None or kind.time_field is None:
        return None
    known = known_before(manifest.data_layout(job.output.path))
    known = known.filter(pc.invert(known["set_aside"]))
    if not len(known):
        return None
    asset, newest = max(
        zip(known["asset"].to_pylist(), known["last"].to_pylist(), strict=True), key=lambda pair: pair[1]
    )
    time = manifest.field(kind.time_field).time
    since = newest - ticks_of(job.output.keep, time, "output.keep")
    why = f"the newest row, of asset {asset}, is from {time_text(newest, time)}"
    return Rule(kind.asset_field, time=kind.time_field, since=since, why=why)


def compact_shards(pipeline: beam.Pipeline, compaction: Compaction, copies: Sequence[ToCopy]) -> beam.PCollection:
    """PCollection of one: the compacted manifest, published, or None where nothing was to be done."""
    left = (
        pipeline
        | "Shards" >> beam.Create(copies)
        | "SpreadShards" >> beam.Reshuffle()
        | "CopyShards" >> beam.FlatMap(copy_shards, compaction.layout, compaction.before, compaction.rule)
    )
    once = pipeline | "Once" >> beam.Create([None])
    return once | "PublishManifest" >> beam.Map(publish, compaction, beam.pvalue.AsList(left))


def publish(_: None, compaction: Compaction, left: Iterable[Left]) -> Manifest | None:
    """Writes what belongs to the compacted dataset, the manifest last. Done twice, it comes to the same.

    Raises:
      JobFailed: if somebody replaced the dataset, or too little would be left of it.
    """
    output, layout = compaction.job.output.path, compaction.layout
    before = read_manifest(output)
    if before.data == layout.folder:
        return before  # by an attempt before this one
    if (before.data, before.fingerprint) != (compaction.before.data, compaction.before.fingerprint):
        raise JobFailed(f"{output}: the dataset was replaced while it was compacted; nothing was published")
    copied = {(rest.split, rest.index): rest for rest in sorted(left, key=lambda rest: (rest.split, rest.index))}
    if all(rest.shard is None for rest in copied.values()):
        return None
    parts = what_is_left(output, before, compaction.merges, copied.values())
    old = before.data_layout(output)
    for path, target in zip((*old.beside_shards, old.base), (*layout.beside_shards, layout.base), strict=True):
        if storage.exists(path):
            storage.write_bytes(target, storage.read_bytes(path))
    for folder, target in zip(old.graph, layout.graph, strict=True):
        storage.copy_tree(folder, target)
    splits = {
        name: SplitInfo.of(info.assets, [shard for shard, _ in parts[name]], info.targets)
        for name, info in before.splits.items()
    }
    if compaction.rule is not None:
        splits = _counted_anew(splits, before, compaction, copied)
    is_changed = any(info.records != before.splits[name].records for name, info in splits.items())
    changed = compaction.changed if is_changed or compaction.reorders else {}
    manifest = before.model_copy(update={"data": layout.folder, "splits": splits, **changed})
    manifest = superseding(manifest, before)
    for name in SPLITS:
        write_blocks(layout.blocks(name), index_table([blocks for _, blocks in parts[name]]))
    replace_manifest(output, manifest, before)
    return manifest


def _counted_anew(
    splits: Mapping[SplitName, SplitInfo], before: Manifest, compaction: Compaction,
    copied: Mapping[tuple[SplitName, int], Left],
) -> dict[SplitName, SplitInfo]:  # fmt: skip
    """The splits with the targets and assets of what is left, which are written for later runs, too.

    Raises:
      JobFailed: if a split would lose all it had.
    """
    assert compaction.rule is not None
    for name, info in splits.items():
        if before.splits[name].windows and not info.windows:
            raise JobFailed(
                f"output.keep: nothing of {name} would be left, as {compaction.rule.why}; nothing was changed; "
                "keep more"
            )
    old = before.data_layout(compaction.job.output.path)
    left = {name: [rest for (split, _), rest in copied.items() if split == name] for name in SPLITS}
    targets = count_targets(before.fields, {name: [rest.targets for rest in ones] for name, ones in left.items()})
    storage.write_text(compaction.layout.learned, Learned(Learned.read(old.learned).statistics, targets).text())
    assets = {name: set[str]().union(*(rest.assets for rest in ones)) for name, ones in left.items()}
    storage.write_table(compaction.layout.assets, with_splits(known_before(old), assets))
    counts = {name: len(names) for name, names in assets.items()}
    return describe_splits(counts, {name: info.shards for name, info in splits.items()}, targets)


def with_splits(known: pa.Table, assets: Mapping[SplitName, set[str]]) -> pa.Table:
    """What is known of assets, with the splits that hold something of each now."""
    splits = [[name for name in sorted(assets) if asset in assets[name]] for asset in known["asset"].to_pylist()]
    place = known.schema.get_field_index("splits")
    return known.set_column(place, known.schema.field(place), pa.array(splits, known.schema.field(place).type))


def describe(before: Manifest, after: Manifest, compaction: Compaction) -> list[str]:
    """What was done, a line for each split that changed."""
    lines = []
    for name, info in before.splits.items():
        now = after.splits[name]
        line = f"{name}: {len(info.shards):,} shards are {len(now.shards):,} now"
        if gone := info.windows - now.windows:
            assert compaction.rule is not None
            since = time_text(compaction.rule.since, before.field(compaction.rule.time).time)
            line += f", without {gone:,} {before.noun}s from before {since}"
        if info != now:
            lines.append(line)
    if any(", without" in line for line in lines) and compaction.rule is not None:
        lines.append(compaction.rule.why)
    return lines
