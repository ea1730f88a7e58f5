"""What a run came to: its splits, and the manifest that they make, by itself or with the dataset that it adds to."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.fingerprint import prepared_keys
from beamfeed.contract.dataset.manifest import Counts, Grows, Increment, Manifest, Shard, SplitInfo
from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.growth import Growth, Targets
from beamfeed.transforms.notes import LACKING, add_lines, most_notes
from beamfeed.transforms.records.targets import TargetTally, check_targets, is_target
from beamfeed.transforms.splits import wanted_splits

FAR = 0.5  # deviations that a mean may be from the first run's, before a word is said of it
MOST_FAR = 20  # features that are told
UNLIKE = "new files are unlike those of the first run: "  # begins the note of the last run


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
        name: SplitInfo.of(
            assets.get(name, 0), shards[name], {field: tally.target() for field, tally in targets[name].items()}
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


def grown_manifest(
    growth: Growth, manifest: Manifest, base: Manifest | None, windows: int, drift: dict[str, float],
    in_splits: Mapping[SplitName, int], outdated: Collection[str] = (), lacking: Sequence[str] | None = None,
) -> Manifest:  # fmt: skip
    """The manifest of a run, together with the dataset that it adds to.

    Args:
      growth: of the run.
      manifest: with the numbers and notes of the run alone, and the splits of both.
      base: that dataset, without the counts and runs of what is prepared again.
      windows: that the run wrote.
      drift: see `drift_of`.
      in_splits: how many assets of the run alone have something in each.
      outdated: notes of the dataset that may be true no more.
      lacking: of a dataset whose assets may go on, what `lacking_lines` gives of both.
    """
    if not growth.job:
        return manifest
    increment = Increment(
        **manifest.counts.model_dump(), data=manifest.data, fingerprint=manifest.fingerprint, windows=windows,
        in_splits=[in_splits[name] for name in SPLITS], drift=drift,
    )  # fmt: skip
    far = [f"the mean of {name} is {away:+.1f} deviations away" for name, away in list(drift.items())[:3]]
    changed: dict[str, Any] = {
        "grows": growth.grows or Grows(job=growth.job, first=manifest.fingerprint),
        # A run that only took files away adds nothing.
        "increments": [*(() if base is None else base.increments), *([increment] if increment.files else [])],
        "base": [] if base is None else [base.data, *base.model_copy(update={"base": []}).folders],
        "notes": [*manifest.notes, *([f"{UNLIKE}{', '.join(far)}"] if drift else [])],
    }
    if base is not None:
        changed["counts"] = base.counts + manifest.counts
        before = [note for note in base.notes if note not in outdated and not note.startswith(UNLIKE)]
        if lacking is not None:
            before, now = (
                [line for line in lines if not line.startswith(LACKING)] for lines in (before, changed["notes"])
            )
            changed["notes"] = [*now, *lacking]
        apart = not growth.goes_on and not growth.replaced
        changed["notes"] = most_notes(add_lines(before, changed["notes"], apart=apart))
    return manifest.model_copy(update=changed)


def drift_of(learned: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, float]:
    """How many deviations the means of features are away from those of the first run, where that is far.

    Args:
      learned: what `Source.stats` gives of the first run's statistics.
      new: likewise, of new files.
    """
    far: dict[str, float] = {}
    for name, before in learned.get("features", {}).items():
        mean, std = before.get("mean"), before.get("std")
        now = new.get("features", {}).get(name, {}).get("mean")
        if mean is None or now is None:
            continue
        away = (now - mean) / (std or 1.0)  # what is constant is divided by one, as its values are
        if abs(away) > FAR:
            far[name] = round(away, 3)
    return dict(sorted(far.items(), key=lambda item: -abs(item[1]))[:MOST_FAR])


def add_up_targets(before: Targets, new: Targets) -> dict[SplitName, dict[str, TargetTally]]:
    """The targets of both."""
    return {
        split: {
            name: new[split][name] + before[split][name] if name in before.get(split, {}) else tally
            for name, tally in new[split].items()
        }
        for split in SPLITS
    }
