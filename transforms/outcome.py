"""What a run came to: the numbers of its fleet and its splits, and the manifest that they make."""

from collections.abc import Mapping, Sequence

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.fingerprint import prepared_keys
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.notes import most_notes
from beamfeed.transforms.records.targets import TargetTally, check_targets, is_target
from beamfeed.transforms.splits import wanted_splits


def count_targets(
    fields: Sequence[Field], shards: Mapping[SplitName, Sequence[Mapping[str, TargetTally]]]
) -> dict[SplitName, dict[str, TargetTally]]:
    """The values of each target in each split, of those in each of its shards."""
    return {
        name: {
            field.name: sum(
                (targets[field.name] for targets in shards[name] if field.name in targets), TargetTally.zero(field)
            )
            for field in fields
            if is_target(field)
        }
        for name in SPLITS
    }


def describe_splits(
    assets: Mapping[SplitName, int],
    shards: Mapping[SplitName, Sequence[Shard]],
    targets: Mapping[SplitName, Mapping[str, TargetTally]],
) -> dict[SplitName, SplitInfo]:
    """What the manifest says of each split.

    Args:
      assets: by split, those with a window.
      shards: by split, in order.
      targets: by split and field.
    """
    return {
        name: SplitInfo(
            assets=assets.get(name, 0),
            windows=sum(shard.windows for shard in shards[name]),
            records=sum(shard.records for shard in shards[name]),
            bytes=sum(shard.bytes for shard in shards[name]),
            targets={field: tally.target() for field, tally in targets[name].items()},
            shards=list(shards[name]),
        )
        for name in SPLITS
    }


def check_splits(job: Job, fields: Sequence[Field], splits: Mapping[SplitName, SplitInfo]) -> None:
    """Refuses splits that nothing can be learned from.

    Raises:
      JobFailed
    """
    if not splits["train"].windows:
        smaller = "a smaller windows.length, or " if "windows" in job.source.sections else ""
        raise JobFailed(f"the train split has no {job.source.noun}; try {smaller}more split.train")
    check_targets(fields, {name: info.targets for name, info in splits.items()}, job.source.noun)


def empty_splits(job: Job, splits: Mapping[SplitName, SplitInfo]) -> list[str]:
    """Splits by time that the job asks for and that got nothing, a line each with what may be done about it."""
    split = job.split
    if split.by != "time":
        return []
    keys = {key: getattr(split, key) for key in ("train_from", "eval_from", "test_from")}
    cuts = ", ".join(f"{key}: {value}" for key, value in keys.items() if value is not None)
    lines = []
    for name in wanted_splits(split):
        if splits[name].windows:
            continue
        if "windows" in job.source.sections:  # it may well have rows, but too few
            why = f"no asset has the rows of one in it (windows.length: {job.windows.length})"
            why += f", if any ({cuts})" if cuts else f"; try a smaller windows.length, or more split.{name}"
        else:
            why = f"no time of the files is in it ({cuts or f'{name}: {getattr(split, name):g}'})"
            why += ", or no row of it has a label" if job.label else ""
        lines.append(f"the split {name} has no {job.source.noun}: {why}")
    return lines


def make_manifest(
    job: Job, fields: Sequence[Field], fingerprint: str, data: str, counts: Counts, notes: Sequence[str],
    splits: dict[SplitName, SplitInfo],
) -> Manifest:  # fmt: skip
    """The manifest of a run whose numbers are checked; `data` is the folder of the shards below the output."""
    return Manifest(
        name=job.name,
        kind=job.source.kind,
        source=list(job.source.patterns),
        fingerprint=fingerprint,
        data=data,
        fields=list(fields),
        windows=job.frame,
        prepared=prepared_keys(job),
        records=job.output.records,
        compression=job.output.compression,
        counts=counts,
        notes=most_notes([*empty_splits(job, splits), *notes]),
        splits=splits,
    )
