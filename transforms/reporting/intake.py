"""What went into a dataset, and what came out."""

from collections.abc import Mapping, Sequence
from typing import Any

from beamfeed.contract.dataset.facts import Facts
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.text import counted, size_text
from beamfeed.transforms.reporting import page
from beamfeed.transforms.reporting.page import Chapter, Items, Table, Words

MOST_CLASSES = 30


def overview(manifest: Manifest, facts: Facts) -> page.Facts:
    """The numbers that are seen first."""
    counts = manifest.counts
    windows = sum(split.windows for split in manifest.splits.values())
    size = sum(split.bytes for split in manifest.splits.values())
    rejected = {"asset": counts.rejected_assets, "file": counts.rejected_files, "row": counts.rejected_rows}
    aside = [counted(count, noun) for noun, count in rejected.items() if count]
    missing = sum(facts.missing.values())
    numbers = [
        ("files", f"{counts.files:,}", ""),
        ("assets", f"{counts.assets:,}", ""),
        ("rows read", f"{counts.rows_read:,}", ""),
        ("set aside", aside[0] if aside else "nothing", ", ".join(aside[1:])),
    ]
    if facts.cells:
        share = f"{missing / facts.cells:.2%}" if missing else "none"
        numbers.append(("missing values", share, "of the cells of training rows" if missing else ""))
    if manifest.noun != "row" or windows != counts.rows_read:
        numbers.append((f"{manifest.noun}s", f"{windows:,}", ""))
    return page.Facts([*numbers, ("size", size_text(size), "of all shards")])


def went_in(
    manifest: Manifest, facts: Facts, stats: Mapping[str, Any], rejects: Sequence[Mapping[str, Any]]
) -> Chapter:
    """Files, rejects by reason, missing values.

    Args:
      manifest: of the dataset.
      facts: of it.
      stats: what stats.json holds.
      rejects: some of what was set aside.
    """
    section = Chapter("What went in")
    if manifest.source:
        section.parts.append(Words(f"Read from {', '.join(manifest.source)}"))
    if manifest.notes:
        section.parts.append(Items(manifest.notes))
    if facts.reasons:
        head = ("reason, as it was first said", "times")
        part = f", in the first {size_text(facts.counted)} of {facts.rejects}" if facts.counted is not None else ""
        section.parts.append(Table(head, facts.reasons, f"Set aside, by reason{part}"))
        where = [(reject.get("file") or reject.get("asset") or "", reject.get("place", ""), reject.get("reason", ""))
                 for reject in rejects]  # fmt: skip
        section.parts.append(Table(("where", "place", "reason"), where, "The first that were set aside", folded=True))
    elif facts.rejects is not None:
        section.parts.append(Words(f"Why something was set aside cannot be read; see {facts.rejects}"))
    else:
        section.parts.append(Words("Nothing was set aside."))
    features = {name: entry for name, entry in (stats.get("features") or {}).items() if isinstance(entry, dict)}
    if facts.missing:
        rows = [
            (name, count, f"{count / max(1, count + features.get(name, {}).get('count', 0)):.2%}")
            for name, count in facts.missing.items()
        ]
        section.parts.append(Table(("column", "missing", "share"), rows, "Missing values in training rows"))
    elif facts.cells:
        section.parts.append(Words("No value is missing in training rows."))
    constant = [name for name, entry in features.items() if entry.get("constant")]
    if constant:
        section.parts.append(Words(f"Constant in training rows: {', '.join(constant)}"))
    numbers = [
        (name, entry["mean"], entry["std"], entry["min"], entry["max"])
        for name, entry in features.items()
        if all(isinstance(entry.get(key), int | float) for key in ("mean", "std", "min", "max"))
    ]
    if numbers:
        of_numbers = ("column", "mean", "deviation", "least", "most")
        section.parts.append(
            Table(of_numbers, numbers, "Numbers of training rows, in the units of the files", folded=True)
        )
    other = {key: value for key, value in stats.items() if key != "features" and not isinstance(value, dict | list)}
    other |= {
        f"{key} {name}": entry
        for key, value in stats.items()
        if key != "features" and isinstance(value, dict)
        for name, entry in value.items()
        if not isinstance(entry, dict | list)
    }
    if not features and other:
        section.parts.append(Table(("of the files", ""), list(other.items())))
    return section


def came_out(manifest: Manifest, drifts: Sequence[str]) -> Chapter:
    """Splits, shards, and targets in each.

    Args:
      manifest: of the dataset.
      drifts: targets that differ between splits, a sentence each.
    """
    section = Chapter("What came out")
    head = ("split", "assets", f"{manifest.noun}s", "records", "shards", "size")
    rows = [
        (name, split.assets, split.windows, split.records, len(split.shards), size_text(split.bytes))
        for name, split in manifest.splits.items()
    ]
    section.parts.append(Table(head, rows))
    frame = manifest.windows
    if frame.length > 1:
        ahead = f", of which {manifest.rows_ahead} are predicted" if manifest.rows_ahead else ""
        section.parts.append(Words(f"A window has {frame.length} rows{ahead}; one begins every {frame.stride}."))
    section.parts += [Words(line, "plain") for line in drifts]
    splits = [name for name, split in manifest.splits.items() if split.windows]
    for name in {name: None for split in manifest.splits.values() for name in split.targets}:
        classes = manifest.field(name).classes
        targets = {split: manifest.splits[split].targets.get(name) for split in splits}
        counts = {split: target.counts for split, target in targets.items() if target and any(target.counts)}
        if classes and counts:
            order = sorted(range(len(classes)), key=lambda at: -sum(of_split[at] for of_split in counts.values()))
            shares = [
                (classes[at], *(cell for of_split in counts.values()
                                for cell in (of_split[at], f"{of_split[at] / sum(of_split):.2%}")))
                for at in order
            ]  # fmt: skip
            shown = (name, *(cell for split in counts for cell in (split, "share")))
            section.parts.append(Table(shown, shares, f"Classes of {name}"))
        else:
            numbers = [
                (split, target.mean, target.std, target.min, target.max)
                for split, target in targets.items()
                if target is not None and target.mean is not None
            ]
            if numbers:
                section.parts.append(Table(("split", "mean", "deviation", "least", "most"), numbers, f"Target {name}"))
    return section
