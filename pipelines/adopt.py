"""Entry point of `beamfeed adopt`: describes a folder of TFRecords that others wrote, so that it can be trained on.

    python -m beamfeed.pipelines.adopt FOLDER [--target NAME ...] [--job job.yaml] [Beam options]

Exit codes: 0 done, 1 no shard can be used, 2 a mistake of the user's.
"""

import argparse
import json
import math
import os
import re
import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from beamfeed.contract import storage
from beamfeed.contract.config.split import SPLITS, SplitName
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.layout import lock_path
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import JobFailed, UserError, near_miss, visible
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import ADOPT
from beamfeed.contract.storage import absolute, lock
from beamfeed.contract.text import table
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.preprocess import beam_options, main_of, opened, run_program
from beamfeed.transforms.adopt.request import Request
from beamfeed.transforms.adopt.request import Value as Default

if TYPE_CHECKING:  # it loads NumPy
    from beamfeed.transforms.tfds.read import Described

ADOPTING = lock.Use("--out", "adopting into")
MOST_REJECTS, MOST_FIELDS = 10, 40  # that are told
NAMES = re.compile(r"[^a-zA-Z0-9_.-]+")  # what the name of a dataset cannot have

Value = TypeVar("Value")


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Reads the folder and publishes what it holds.

    Raises:
      UserError, JobFailed
    """
    if args.job is not None and not args.force and storage.exists(args.job):
        raise UserError(f"--job {args.job}: is there already; --force replaces it")
    with heavy_imports():
        from beamfeed.pipelines.runner import is_dataflow
        from beamfeed.transforms.suggest.adopted import NO_TARGET
        from beamfeed.transforms.tfds.read import Described, describe

    if is_dataflow(beam_options(args.beam_options)):
        raise UserError("--runner: DataflowRunner: adopt runs on this machine, or on Flink or Spark")
    described = describe(os.path.expanduser(args.folder)) or Described()
    request = request_of(args, described.name)
    if args.job is not None and not (request.targets or described.has_target):
        raise UserError(NO_TARGET)
    manifest, is_new = adopt(request, described, args.beam_options, ending, log)
    if not is_new:
        note(f"{request.out} is complete: the same files, and the same was asked for. Nothing to do.")
    if args.job is not None:
        write_job(args.job, manifest, request.out)
    if args.json:
        details = {"rejects": rejected(manifest, request.out), "job": args.job}
        emit_event("adopt", dataset=request.out, manifest=manifest.model_dump(mode="json"), **details)
    elif not args.quiet:
        print("\n".join(map(visible, describe_adoption(manifest, request.out))))
        print(f"next: beamfeed {'train' if args.job else 'inspect'} {shlex.quote(args.job or request.out)}")


def adopt(
    request: Request, described: "Described", options: Sequence[str], ending: Ending, log: FailureLog
) -> tuple[Manifest, bool]:
    """The manifest of a folder, and whether it was written now: by reading all shards, each a unit of work."""
    import apache_beam as beam

    from beamfeed.contract.dataset.published import read_complete
    from beamfeed.transforms.adopt.conclude import conclude, fingerprint_of
    from beamfeed.transforms.adopt.fields import check_names
    from beamfeed.transforms.adopt.files import list_shards
    from beamfeed.transforms.adopt.publish import find_adopted, publish
    from beamfeed.transforms.adopt.scan import first_names, scan_or_reject

    find_adopted(request.out)
    candidates = list_shards(request.folder)
    check_names(request, first_names([stat.path for stat in candidates.shards]), only_first=True)  # before all are read
    fingerprint = fingerprint_of(request, candidates.shards, described)
    complete = read_complete(request.out, fingerprint)
    if complete is not None:
        return complete, False
    with lock.hold(lock_path(request.out), ending, ADOPTING), opened(options, ending, log) as pipeline:
        shards = pipeline | "Shards" >> beam.Create(candidates.shards, reshuffle=True)
        scans = shards | "Scan" >> beam.Map(scan_or_reject, request.watched)

        def publish_all(_: None, scanned: list[Any]) -> None:
            publish(conclude(request, candidates, scanned, described, fingerprint), request.out)

        _ = pipeline | "Once" >> beam.Create([None]) | "Publish" >> beam.Map(publish_all, beam.pvalue.AsList(scans))
    manifest = read_manifest(request.out)
    if manifest.fingerprint != fingerprint:
        raise JobFailed(f"the job ended, but {request.out} holds no manifest of it; can the workers write there?")
    return manifest, True


def rejected(manifest: Manifest, out: str) -> list[dict[str, Any]]:
    """The shards that were set aside: file, place and reason."""
    if not manifest.counts.rejected_files:
        return []
    lines = storage.read_text(manifest.data_layout(out).rejects).splitlines()
    return [{key: reject[key] for key in ("file", "place", "reason")} for reject in map(json.loads, lines)]


def describe_adoption(manifest: Manifest, out: str) -> list[str]:
    """Fields, splits, notes and what was set aside, a line each."""
    rows = [("field", "dtype", "shape", "role", "in the records")]
    for field in manifest.fields:
        rows.append((field.name, field.dtype, field.shape_text, field.role, _describe_field(field)))
    hidden = [f"... {len(rows) - 1 - MOST_FIELDS} more fields"] if len(rows) - 1 > MOST_FIELDS else []
    lines = [f"{out}: {manifest.name}, {manifest.counts.rows_read:,} rows in {manifest.counts.files:,} files", ""]
    lines += [*table(rows[: MOST_FIELDS + 1], left=5), *hidden, ""]
    splits = [(name, info.windows, len(info.shards), info.bytes) for name, info in manifest.splits.items()]
    lines += [*table([("split", "rows", "files", "bytes"), *splits], left=4), ""]
    lines += [f"- {note}" for note in manifest.notes]
    aside = rejected(manifest, out)
    lines += [f"set aside: {reject['file']}: {reject['place']}: {reject['reason']}" for reject in aside[:MOST_REJECTS]]
    if len(aside) > MOST_REJECTS:
        lines.append(f"and {len(aside) - MOST_REJECTS:,} more: {manifest.data_layout(out).rejects}")
    return lines


def _describe_field(field: Field) -> str:
    parts = (
        field.in_records if field.feature else "",
        field.content,
        f"{len(field.classes):,} classes" if field.classes else "",
        f"numbers below {field.sizes[0]:,}" if field.sizes else "",
        "a feature list" if field.stored == "steps" else "",
    )
    return ", ".join(filter(None, parts))


def write_job(path: str, manifest: Manifest, out: str) -> None:
    """Writes a job file that trains on the dataset.

    Raises:
      UserError: if there is nothing to train for, or the file cannot be written.
    """
    from beamfeed.contract.dataset.inputs import is_encoded
    from beamfeed.transforms.adopt.scan import image_sizes
    from beamfeed.transforms.suggest.adopted import job_text

    folder = absolute(out)
    images = [field for field in manifest.fields if field.role == "input" and is_encoded(field)]
    shards = manifest.shard_paths(out, "train")
    sizes = {field.name: image_sizes(shards, field.in_records) for field in images}
    text = job_text(manifest, out, f"{folder.rstrip('/')}-model", path, sizes)
    try:
        storage.write_text(path, text)
    except OSError as error:
        raise UserError(f"--job {path}: cannot be written: {error.strerror or error}") from None


def request_of(args: argparse.Namespace, known_as: str) -> Request:
    """What a command line asks for.

    Args:
      args: parsed.
      known_as: the name that the folder's own files give the dataset.

    Raises:
      UserError: for the first option that cannot be understood.
    """
    folder = out = os.path.expanduser(args.folder)
    if args.out is not None and (out := os.path.expanduser(args.out)) != folder:
        folder = absolute(folder)  # the manifest names it
    roles = {"targets": args.target, "keys": args.key, "inputs": args.input, "weights": args.weight}
    used: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            option = f"--{role.removesuffix('s')}"
            if used.setdefault(name, option) != option:
                raise UserError(f"{option} {name}: is given with {used[name]}, too; a feature has one role")
    classes = pairs("--classes", args.classes, _classes)
    for name in classes:
        if args.target and name not in args.target:
            raise UserError(f"--classes {name}: is no --target{near_miss(name, args.target)}; classes are for targets")
    roles["targets"] = [*args.target, *classes]
    return Request(
        folder,
        out,
        _name(args.name, known_as, folder),
        **{role: tuple(dict.fromkeys(names)) for role, names in roles.items()},
        classes=classes,
        defaults=pairs("--default", args.default, _number_or_text),
        shapes=pairs("--shape", args.shape, _shape),
        splits=_splits(args.split),
    )


def pairs(option: str, texts: Sequence[str], read: Callable[[str, str], Value]) -> dict[str, Value]:
    """`NAME=VALUE`, each name once.

    Raises:
      UserError: if one is written otherwise, or a name comes twice.
    """
    values: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UserError(f"{option} {text}: needs NAME=VALUE")
        if name in values:
            raise UserError(f"{option} {text}: {name} is given twice")
        values[name] = read(f"{option} {text}", value)
    return values


def _classes(option: str, value: str) -> tuple[str, ...]:
    if value == "auto":
        return ()
    names = tuple(value.split(","))
    if len(names) < 2 or not all(names) or len(set(names)) < len(names):
        raise UserError(f"{option}: needs auto, or names that differ: --classes label=no,yes")
    return names


def _number_or_text(option: str, value: str) -> Default:
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if not math.isfinite(number):
            raise UserError(f"{option}: is not a finite number")
        return number
    return value


def _shape(option: str, value: str) -> tuple[int | None, ...]:
    parts = value.split(",")
    if not all(part == "any" or (part.isdecimal() and int(part) > 0) for part in parts) or "any" in parts[1:]:
        raise UserError(f"{option}: needs whole numbers above 0, of which the first may be any: 28,28 or any,4")
    return tuple(None if part == "any" else int(part) for part in parts)


def _splits(texts: Sequence[str]) -> dict[SplitName, str | float]:
    splits = pairs("--split", texts, _files_of_split)
    if len({type(value) for value in splits.values()}) > 1:
        raise UserError("--split: give either fractions of the files or globs of their paths, not both")
    return cast(dict[SplitName, str | float], splits)


def _files_of_split(option: str, value: str) -> float | str:
    name = option.removeprefix("--split ").partition("=")[0]
    if name not in SPLITS:
        raise UserError(f"{option}: there is no such split{near_miss(name, SPLITS)} (there are {', '.join(SPLITS)})")
    try:
        fraction = float(value)
    except ValueError:
        return value
    if not 0 <= fraction <= 1:
        raise UserError(f"{option}: a fraction is from 0 to 1; a glob of files is text")
    return fraction


def _name(named: str | None, known_as: str, folder: str) -> str:
    if named is not None:
        if NAMES.search(named) or not named[:1].isalnum():
            raise UserError(f"--name {named}: must be letters, digits, _ . and -, with a letter or a digit first")
        return named
    derived = known_as or os.path.basename(absolute(folder).rstrip("/"))
    return NAMES.sub("_", derived).lstrip("_.-") or "adopted"


main = main_of(ADOPT, run)

if __name__ == "__main__":
    run_program(main)
