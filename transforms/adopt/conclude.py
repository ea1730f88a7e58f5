"""From what was seen in all shards to the manifest of the folder. Pure."""

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo, Target
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.storage import FileStat
from beamfeed.transforms.adopt.examples import Features, Name, Stats, add_features
from beamfeed.transforms.adopt.fields import check_names, make_fields
from beamfeed.transforms.adopt.files import Candidates, Dealt, deal, named_split, partition_of
from beamfeed.transforms.adopt.request import Request
from beamfeed.transforms.adopt.scan import SINGLE, Scan
from beamfeed.transforms.notes import most_notes
from beamfeed.transforms.records.targets import TargetTally
from beamfeed.transforms.rejects import Reject
from beamfeed.transforms.statistics.moments import Moments
from beamfeed.transforms.tfds.read import Described

KIND = "adopted"
DATA_PREFIX = "_beamfeed-"  # of the folder beside the shards; others pass over what begins with `_`
REVISION = 2  # raise it when adopting gives another manifest or index for the same files


@dataclass(frozen=True)
class Adoption:
    """What a folder holds, as it is published.

    Attributes:
      manifest: but for `previous`.
      rejects: shards that were set aside.
      blocks: of each split's shards, see `cut_blocks`.
      stats: of the features, for stats.json.
    """

    manifest: Manifest
    rejects: list[Reject]
    blocks: dict[SplitName, list[np.ndarray]]
    stats: dict[str, Any]


def fingerprint_of(request: Request, files: Iterable[FileStat], described: Described) -> str:
    """The identity of an adopted folder, 64 hex digits: of its files, and of what was asked for."""
    options = {key: value for key, value in asdict(request).items() if key not in ("folder", "out")}
    options["described"] = asdict(described)
    options["shards"] = "" if request.out == request.folder else request.folder  # as the manifest names it
    digest = hashlib.sha256(json.dumps({"adopt": REVISION, **options}, sort_keys=True).encode())
    for stat in files:
        digest.update(f"\n{storage.below(stat.path, [request.folder])}\t{stat.size}\t{stat.mtime}".encode())
    return digest.hexdigest()


def conclude(
    request: Request, candidates: Candidates, scanned: Iterable[Scan | Reject], described: Described, fingerprint: str
) -> Adoption:
    """What a folder holds, from what was seen of each file.

    Raises:
      UserError: if an option does not fit the records, or shards are compressed in several ways.
      JobFailed: if no shard can be used.
    """
    results = list(scanned)
    rejects = [result for result in results if isinstance(result, Reject)]
    scans = sorted((result for result in results if isinstance(result, Scan)), key=lambda result: result.file.path)
    scans, odd, unreadable = _of_one_type(scans)
    rejects = sorted([*rejects, *odd], key=lambda reject: reject.file)
    scans = [scan for scan in scans if scan.rows]
    if not scans:
        why = f": {rejects[0].file}: {rejects[0].place}: {rejects[0].reason}" if rejects else ""
        raise JobFailed(f"{request.folder}: none of {len(results):,} files can be used{why}")
    compression = _one_compression(scans)
    features = _together(scans)
    check_names(request, [name.name for name in features])
    by_path = {storage.below(scan.file.path, [request.folder]): scan for scan in scans}
    dealt, left_out = _dealt(list(by_path), request, described)
    used = {path: scan for path, scan in by_path.items() if path in dealt.splits}
    features = _together(used.values())
    rows = sum(scan.rows for scan in used.values())
    fields, notes = make_fields(features, rows, request, described.hints)
    if not fields:
        raise UserError(f"{request.folder}: its records hold nothing")
    by_split: dict[SplitName, dict[str, Scan]] = {
        name: {path: scan for path, scan in used.items() if dealt.splits[path] == name} for name in SPLITS
    }
    notes = [
        dealt.how,
        *left_out,
        *unreadable,
        *notes,
        *_of_files(candidates, results, used.values()),
        *_differing(used, described),
    ]
    manifest = Manifest(
        name=request.name,
        kind=KIND,
        fingerprint=fingerprint,
        data=DATA_PREFIX + fingerprint[:16],
        adopted="" if request.out == request.folder else request.folder,
        fields=fields,
        windows=SINGLE,
        records="windows",
        compression=compression,
        counts=Counts(
            files=len(results),
            assets=len(results),
            rejected_assets=len(rejects),
            rejected_files=len(rejects),
            rows_read=rows,
        ),
        notes=most_notes(notes),
        splits={name: _split(scans, fields) for name, scans in by_split.items()},
    )
    blocks = {name: [scan.blocks for scan in scans.values()] for name, scans in by_split.items()}
    return Adoption(manifest, rejects, blocks, _stats(features, fields, rows))


def _of_one_type(scans: Sequence[Scan]) -> tuple[list[Scan], list[Reject], list[str]]:
    """The shards in which features have the type that they have in most records, and the others as rejects.

    A list of another type that holds nothing counts, too: TensorFlow reads none of both together. A feature of which
    every shard has such lists is left out, and a note says so.
    """
    records: dict[Name, Counter[str]] = defaultdict(Counter)
    for scan in scans:
        for name, stats in scan.features.items():
            if stats.listed is not None:
                records[name][stats.listed] += stats.records
    most = {name: max(sorted(counts), key=lambda type_: counts[type_]) for name, counts in records.items()}
    hopeless = {
        name for name, kind in most.items() if all(scan.features.get(name, Stats()).empty - {kind} for scan in scans)
    }
    accepted, odd = [], []
    for scan in scans:
        features = {name: stats for name, stats in scan.features.items() if name not in hopeless}
        wrong = [_odd(name, stats, most[name]) for name, stats in sorted(features.items()) if name in most]
        if reason := next(filter(None, wrong), None):
            odd.append(Reject(None, scan.file.path, "file", reason))
        else:
            accepted.append(replace(scan, features=features))
    lines = [
        f"feature {name.name!r}: holds {most[name]}, beside empty lists of another type in every file; left out"
        for name in sorted(hopeless)
    ]
    return accepted, odd, lines


def _odd(name: Name, stats: Stats, most: str) -> str | None:
    """How a feature differs from what it is in most records, if it does."""
    if stats.listed not in (None, most):
        return f"feature {name.name!r} holds {stats.listed}, in most records {most}"
    if types := sorted(stats.empty - {most}):
        return f"feature {name.name!r} has empty lists of {types[0]}, in most records it holds {most}"
    return None


def _together(scans: Iterable[Scan]) -> Features:
    nothing: Features = {}
    return reduce(add_features, (scan.features for scan in scans), nothing)


def _one_compression(scans: Sequence[Scan]) -> str:
    counts = Counter(scan.compression for scan in scans)
    if len(counts) > 1:
        examples = {scan.compression: scan.file.path for scan in reversed(scans)}
        raise UserError(
            f"{counts['gzip']} files are compressed and {counts['none']} are not ({examples['gzip']} is, "
            f"{examples['none']} is not); adopt them separately, from a folder each"
        )
    return next(iter(counts))


def _dealt(paths: Sequence[str], request: Request, described: Described) -> tuple[Dealt, list[str]]:
    """The splits of the files, and a line for those of tensorflow-datasets that none of ours stands for."""
    if request.splits or not described.splits:
        dealt, lines = deal(paths, request), []
    else:
        named = {path: described.split_of(path) for path in paths}
        unknown = {path: named_split(split) if split else None for path, split in named.items()}
        by_path = {path: split for path, split in unknown.items() if split is not None}
        unused = sorted({split for path, split in named.items() if split and path not in by_path})
        names = ", ".join(f"{split} is {named_split(split)}" for split in described.splits if split not in unused)
        lines = [f"split {split!r} of tensorflow-datasets is none of {', '.join(SPLITS)}: left out" for split in unused]
        dealt = Dealt(by_path, f"splits: those of tensorflow-datasets ({names})")
    if "train" not in dealt.splits.values():
        raise UserError("no file is in the split train (" + dealt.how + "); --split train=GLOB says which ones are")
    return dealt, lines


def _split(scans: Mapping[str, Scan], fields: Sequence[Field]) -> SplitInfo:
    """What is in a split, whose shards are known by their paths below the folder."""
    shards = [
        Shard(
            records=scan.records,
            windows=scan.rows,
            rows=scan.rows,
            bytes=scan.file.size,
            crc32c=scan.crc32c,
            folder=partition_of(path),
            file=path,
        )
        for path, scan in scans.items()
    ]
    targets = {field.name: _target(field, scans.values()) for field in fields if field.role in ("target", "weight")}
    return SplitInfo.of(len(scans), shards, targets)


def _target(field: Field, scans: Iterable[Scan]) -> Target:
    """The values of a target in a split; those that a default stands for do not count."""
    name = Name(field.in_records, field.stored == "steps")
    stats = sum((scan.features.get(name, Stats()) for scan in scans), Stats())
    counts = stats.counts or {}
    keys = field.classes if field.spelled else range(len(field.classes))
    return TargetTally(stats.moments or Moments.zero(1), tuple(counts.get(key, 0) for key in keys)).target()


def _of_files(candidates: Candidates, results: Sequence[Scan | Reject], used: Iterable[Scan]) -> list[str]:
    """What became of files that are no shards of the dataset."""
    lines = []
    nothing = candidates.empty + sum(isinstance(result, Scan) and not result.rows for result in results)
    empty = sum(scan.records - scan.rows for scan in used)
    if nothing:
        lines.append(f"files without a record: {nothing:,}")
    if candidates.others:
        lines.append(f"files that hold no TFRecords: {candidates.others:,}")
    if empty:
        lines.append(f"empty records: {empty:,}; they do not count as rows")
    return lines


def _differing(used: Mapping[str, Scan], described: Described) -> list[str]:
    """Splits of tensorflow-datasets that hold another number of examples than it says."""
    counts: Counter[str] = Counter()
    for path, scan in used.items():
        if split := described.split_of(path):
            counts[split] += scan.records
    return [
        f"split {split!r}: {counts[split]:,} records, dataset_info.json says {described.splits[split]:,}"
        for split in counts
        if counts[split] != described.splits[split]
    ]


def _stats(features: Features, fields: Sequence[Field], rows: int) -> dict[str, Any]:
    """What was seen of the features, by the names of their fields."""
    stats = {}
    for field in fields:
        feature = features[Name(field.in_records, field.stored == "steps")]
        low, high = (None, None) if field.listed == "bytes" else (feature.low, feature.high)
        stats[field.name] = {
            "feature": field.in_records,
            "records": feature.records,
            "missing": rows - feature.records,
            "shortest": feature.shortest,
            "longest": feature.longest,
            "min": low,
            "max": high,
        }
    return {"features": stats}
