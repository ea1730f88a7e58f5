"""What preprocessing left out, and what it had to fill: read from the files beside the shards."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.dataset.manifest import Manifest

MOST_BYTES = 32 << 20  # of the rejects that are read
REASONS = 3  # that are told
EXACT = re.compile(r"'[^']*'|\d[\d.,:]*")  # in a reason, what differs from file to file


@dataclass(frozen=True)
class Facts:
    """What is known of a dataset beside its manifest.

    Attributes:
      reasons: the most common reasons of rejects, such as the first of them said it, and how many there are; none
        where they cannot be read.
      rejects: the path of all of them; None where nothing was set aside.
      counted: bytes of it that `reasons` are of; None of all.
      missing: cells of training rows without a value, by feature.
      cells: of training rows, in all.
    """

    reasons: list[tuple[str, int]]
    rejects: str | None
    missing: dict[str, int]
    cells: int
    counted: int | None = None


def read_facts(output: str, manifest: Manifest) -> Facts:
    """The facts of the dataset at `output`; what is not there is left out. Of rejects the first MOST_BYTES are read."""
    names, counts = manifest.data_layout(output), manifest.counts
    reasons: list[tuple[str, int]] = []
    rejects = names.rejects if counts.rejected_assets + counts.rejected_files + counts.rejected_rows else None
    counted: int | None = None
    try:
        if rejects is not None:
            with storage.open_input(rejects) as file:
                first, more = file.read(MOST_BYTES), file.read(1)
            if more:
                first = first[: first.rfind(b"\n") + 1]
                counted = len(first)
            reasons = count_reasons(json.loads(line)["reason"] for line in first.splitlines())
    except (OSError, ValueError, KeyError):
        reasons, counted = [], None
    missing, cells = count_missing(read_stats(output, manifest))
    return Facts(reasons, rejects, missing, cells, counted)


def read_stats(output: str, manifest: Manifest) -> dict[str, Any]:
    """What stats.json of the dataset at `output` says; nothing where it cannot be read."""
    return storage.read_mapping(manifest.data_layout(output).stats)


def count_reasons(reasons: Iterable[str]) -> list[tuple[str, int]]:
    """Reasons that differ in numbers and names alone are one; the most common ones first."""
    counts, firsts = Counter[str](), dict[str, str]()
    for reason in reasons:
        kind = EXACT.sub("#", reason)
        counts[kind] += 1
        firsts.setdefault(kind, reason)
    return [(firsts[kind], count) for kind, count in counts.most_common()]


def count_missing(stats: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Missing cells by feature, those with the most first, and all cells; of what stats.json says of the features."""
    features = stats.get("features")
    by_name = features if isinstance(features, dict) else {}
    entries = {name: entry for name, entry in by_name.items() if isinstance(entry, dict)}
    missing = {name: entry["missing"] for name, entry in entries.items() if entry.get("missing")}
    cells = sum(entry.get("count", 0) + entry.get("missing", 0) for entry in entries.values())
    return dict(sorted(missing.items(), key=lambda item: -item[1])), cells
