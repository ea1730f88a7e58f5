"""What a run and the dataset that it adds to come to: counts, targets, notes, and how far off the new files are."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.manifest import Grows, Increment, Manifest
from beamfeed.transforms.growth import Growth, Targets
from beamfeed.transforms.notes import LACKING, add_lines, most_notes
from beamfeed.transforms.records.targets import TargetTally

FAR = 0.5  # deviations that a mean may be from the first run's, before a word is said of it
MOST_FAR = 20  # features that are told
UNLIKE = "new files are unlike those of the first run: "  # begins the note of the last run


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
    changed: dict[str, Any] = {
        "grows": growth.grows or Grows(job=growth.job, first=manifest.fingerprint),
        # A run that only took files away adds nothing.
        "increments": [*(() if base is None else base.increments), *([increment] if increment.files else [])],
        "base": [] if base is None else [base.data, *base.model_copy(update={"base": []}).folders],
        "notes": [*manifest.notes, *([f"{UNLIKE}{_far(drift)}"] if drift else [])],
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


def _far(drift: Mapping[str, float]) -> str:
    return ", ".join(f"the mean of {name} is {away:+.1f} deviations away" for name, away in list(drift.items())[:3])


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
