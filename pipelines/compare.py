"""Entry point of `beamfeed compare`: how far data have drifted, column by column.

    python -m beamfeed.pipelines.compare REFERENCE [CURRENT] [--files PATTERN --job JOB] [-- options of Beam]

Exit codes: 0 no drift, 1 the job failed, 2 a mistake of the user's, 3 drift.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.load import load_job
from beamfeed.contract.dataset.fields import field_name
from beamfeed.contract.dataset.fingerprint import check_prepared
from beamfeed.contract.dataset.manifest import find_manifest
from beamfeed.contract.dataset.raw_values import read_raw_values
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import DRIFT, UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import COMPARE
from beamfeed.contract.text import counted
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.export_folder import read_description, read_predictions, removed_after
from beamfeed.pipelines.preprocess import main_of, opened, run_program

_LONG = ("edges", "labels", "reference_shares", "current_shares", "new", "gone")  # columns that --json leaves out

LIST_PART = re.compile(r"(.+)\[\d+\]")  # latent[3]
_PARTS = 3  # of a list that are named
_CHANGES = 3  # of a column are told; the table has all
_WIDEST = 40
Row = Mapping[str, Any]


@dataclass(frozen=True)
class ComparedSide:
    """A side of the comparison.

    Attributes:
      place: where it is.
      side: that is read.
      add_steps: adds steps to a pipeline; gives a PCollection of one SideSummary, and one of one Fleet, where rows may
        be set aside.
      raw: by column, the rows as files had them; none where `add_steps` counts them.
      skipped: what is not compared.
    """

    place: str
    side: Any
    add_steps: Callable[[Any], tuple[Any, Any]]
    raw: Mapping[str, Any] = field(default_factory=dict)
    skipped: Sequence[str] = ()


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> int:
    """Compares, and returns the exit code.

    Raises:
      UserError, JobFailed
    """
    if bool(args.files) == (args.current is not None):
        raise UserError("give what to compare with: another dataset or predictions, or --files")
    if args.files and args.job is None:
        raise UserError("--files: needs --job, the job file of the dataset, which says how files are read")
    if args.out is not None:
        _check_out(args.out)
    job = load_job(args.job, args.set) if args.files else None
    with heavy_imports():
        import apache_beam as beam

        from beamfeed.transforms.scoring.compared import finish

    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="beamfeed-compare-"))
        out = args.out or os.path.join(scratch, "compared.parquet")
        reference = _named(args.reference, "reference")
        working = f"{args.out}-working-{uuid4().hex[:8]}" if args.out else os.path.join(scratch, "working")
        if job is None:
            current = _named(args.current, "current")
        else:
            current = _files(job, args, reference, working, stack, ending)
        alone = _alone(reference, current, lists_them=not args.files)
        storage.remove_file(out)  # of an earlier comparison, which must not be taken for this one
        with opened(args.beam_options, ending, log) as pipeline:
            once = pipeline | "Begin" >> beam.Create([None])
            summaries, fleets = zip(*(side.add_steps(pipeline) for side in (reference, current)), strict=True)
            _ = once | "Finish" >> beam.Map(
                finish,
                *map(beam.pvalue.AsSingleton, summaries),
                [reference.raw, current.raw],
                args.threshold,
                alone,
                out,
                *(beam.pvalue.AsSingleton(fleet) for fleet in fleets if fleet is not None),
            )
        try:
            table = storage.read_table(out)
        except FileNotFoundError:
            raise UserError(
                "--out: is needed where workers are on other machines; give a file that they can write"
            ) from None
    return _tell(args, table, reference, current)


def _check_out(out: str) -> None:
    if not storage.is_remote(out) and os.path.isdir(out):
        raise UserError(f"--out {out}: is a folder, it must be a file such as drift.parquet")
    if not out.endswith(".parquet"):
        raise UserError(f"--out {out}: must end with .parquet")


def _alone(reference: ComparedSide, current: ComparedSide, *, lists_them: bool) -> list[tuple[str, str]]:
    """The columns that one side has alone; none unless `lists_them`.

    Raises:
      UserError: if both have none in common.
    """
    before, now = ([name for columns in compared.side.columns for name in columns.names]
                   for compared in (reference, current))  # fmt: skip
    if not {*before} & {*now}:
        of = "; ".join(f"{compared.place} has {', '.join(some[:5]) or 'none'}"
                       for compared, some in ((reference, before), (current, now)))  # fmt: skip
        raise UserError(f"no column is in both: {of}")
    if not lists_them:
        return []
    alone = [(name, "only in the reference") for name in before if name not in now]
    return alone + [(name, "only in the current data") for name in now if name not in before]


def _named(place: str, argument: str) -> ComparedSide:
    """A dataset, or predictions.

    Raises:
      UserError: if it is neither.
    """
    place = place.rstrip("/") or "/"
    if read_description(place) is not None:
        return _predictions(place, argument)
    manifest = find_manifest(place)
    if manifest is None:
        raise UserError(f"{argument}: {place} is neither a dataset (no manifest.json) nor a folder of predictions")
    with heavy_imports():
        from beamfeed.transforms.export.base import shards_of
        from beamfeed.transforms.scoring.compared import summarize_parts
        from beamfeed.transforms.scoring.sides import DatasetSide
        from beamfeed.transforms.scoring.stored import read_stored

        stored = read_stored(manifest, place)
    side = DatasetSide(manifest, stored)
    parts = [shard for split in manifest.splits for shard in shards_of(manifest, place, split) if shard.items]
    add_steps = partial(summarize_parts, label=argument, parts=parts, side=side)
    return ComparedSide(place, side, add_steps, stored.raw, stored.skipped)


def _predictions(place: str, argument: str) -> ComparedSide:
    description = read_predictions(place, f"{place}:")
    if not description["files"]:
        raise UserError(f"{place}: holds no prediction")
    with heavy_imports():
        from beamfeed.transforms.reporting.tables import Predictions
        from beamfeed.transforms.scoring.compared import summarize_parts
        from beamfeed.transforms.scoring.sides import PredictionsSide

    predictions = Predictions(place, description)
    side = PredictionsSide(predictions.schema())
    return ComparedSide(place, side, partial(summarize_parts, label=argument, parts=predictions.files(), side=side))


def _files(
    job: Job, args: argparse.Namespace, reference: ComparedSide, working: str, stack: ExitStack, ending: Ending
) -> ComparedSide:
    """New files, that are read as those of the reference were."""
    place = args.reference.rstrip("/")
    manifest = find_manifest(place)
    if manifest is None:
        raise UserError(f"--files: are compared with a dataset, and {place} is none")
    if job.source.kind != manifest.kind:
        raise UserError(f"--job: reads {job.source.kind}, the dataset at {place} is of {manifest.kind}")
    with heavy_imports():
        from beamfeed.contract.progress import Progress
        from beamfeed.pipelines.build import PreprocessPipeline, write_listing
        from beamfeed.transforms.predictions.job import job_of_files
        from beamfeed.transforms.predictions.steps import WORKING, FileLayout
        from beamfeed.transforms.scoring.compared import summarize
        from beamfeed.transforms.scoring.sides import FilesSide
        from beamfeed.transforms.scoring.stored import with_absent
        from beamfeed.transforms.sources import make_source
    check_prepared(job, manifest)
    raw = read_raw_values(manifest.data_layout(place).raw_values)
    reading = with_absent(job_of_files(job, args.files, manifest, raw))
    source, files = make_source(reading, reading.source.list_files())
    source = source.reading_as(raw).keeping((), files)
    of = {field_name(name): getattr(section, "column", None) or name for name, section in reading.features.items()}
    clips = dict.fromkeys(manifest.features, job.prepare.scale.clip)
    clips |= {field_name(name): getattr(section, "clip", None) for name, section in reading.features.items()}
    side = FilesSide(source, manifest, reference.side.stored, of, clips, job.prepare.missing.value)
    layout = FileLayout(working, WORKING)
    stack.enter_context(removed_after(working, ending))

    def add_steps(pipeline: Any) -> tuple[Any, Any]:
        listed = source.listed(files, layout.scratch)
        write_listing(layout, listed)
        checked = PreprocessPipeline(source, layout, "", len(files), Progress(None)).check(pipeline)
        return summarize("Files", checked.shards, side), checked.fleet

    names = [name for columns in reference.side.columns[:1] for name in columns.names]
    skipped = [name for name in names if name not in side.columns[0].names]
    return ComparedSide(", ".join(args.files), side, add_steps, skipped=skipped)


def _tell(args: argparse.Namespace, table: Any, reference: ComparedSide, current: ComparedSide) -> int:
    """Prints the outcome and returns the exit code.

    Raises:
      UserError: if a side has no rows.
    """
    rows, aside = table.to_pylist(), json.loads(table.schema.metadata[b"beamfeed"])
    sizes = {side: max((row[f"{side}_rows"] or 0 for row in rows), default=0) for side in ("reference", "current")}
    for compared, count in zip((reference, current), sizes.values(), strict=True):
        if not count:
            raise UserError(f"{compared.place}: has no row to compare")
    drifted = [row["column"] for row in rows if row["drift"]]
    skipped = sorted({*reference.skipped, *current.skipped})
    code = DRIFT if drifted else 0
    if args.json:
        columns = [{name: value for name, value in row.items() if name not in _LONG} for row in rows]
        facts = {"rows": sizes, "set_aside": aside, "threshold": args.threshold, "drifted": drifted, "skipped": skipped}
        emit_event("compare", reference=reference.place, current=current.place, **facts, columns=columns)
        return code
    for compared, (name, count) in zip((reference, current), sizes.items(), strict=True):
        note(f"{name:9}  {compared.place}: {counted(count, 'row')}", sys.stdout)
    if counts := [counted(count, noun) for noun, count in aside.items() if count]:
        note(f"set aside  {' and '.join(counts)}; `beamfeed check` of these files tells why", sys.stdout)
    for line in to_lines(rows, args.show, args.threshold):
        note(line, sys.stdout)
    if skipped:
        note(f"not compared: {', '.join(skipped)}", sys.stdout)
    if args.out:
        note(f"{args.out}: all columns", sys.stdout)
    return code


def to_lines(rows: Sequence[Row], show: int, threshold: float) -> list[str]:
    """The columns that drift most, one a line, and in a last line how many there are."""
    joined = join_lists(rows)
    compared = [row for row in joined if row["psi"] is not None or row["drift"]]
    shown = [*joined[:show], *(row for row in joined[show:] if row["psi"] is None and row["changes"])]
    width = min(_WIDEST, max((len(row["column"]) for row in shown), default=6))
    lines = [f"{'':5}  {'psi':>6}  {'noise':>6}  {'column':{width}}  what changed"] if shown else []
    for row in shown:
        numbers = (f"{'-':>6}" if row[name] is None else f"{row[name]:6.3f}" for name in ("psi", "noise"))
        mark = "DRIFT" if row["drift"] else ""
        lines.append(
            "  ".join(
                [f"{mark:5}", *numbers, f"{row['column']:{width}}", "; ".join(row["changes"][:_CHANGES])]
            ).rstrip()
        )
    if len(joined) > len(shown):
        lines.append(f"{'':5}  and {counted(len(joined) - len(shown), 'column')} that drift less")
    over = sum(row["drift"] for row in joined)
    lines.append(f"{over} of {counted(len(compared), 'column')} drifted: a psi from {threshold:g} on, and above noise")
    return lines


def join_lists(rows: Sequence[Row]) -> list[Row]:
    """Rows in order, where the numbers of a list, such as a latent vector, are one row at the place of the largest."""
    families: dict[str, list[Row]] = {}
    for row in rows:
        match = LIST_PART.fullmatch(row["column"])
        families.setdefault(match[1] if match else row["column"], []).append(row)
    return [_join(name, members) for name, members in families.items()]


def _join(name: str, members: Sequence[Row]) -> Row:
    first = members[0]
    compared = [row for row in members if row["psi"] is not None]
    if len(members) == 1 or not compared:
        return {**first, "column": name if len(members) > 1 else first["column"]}
    over = [row for row in compared if row["drift"]]
    parts = ", ".join(f"{row['column'][len(name) :]} {row['psi']:.2f}" for row in (over or compared)[:_PARTS])
    mean = sum(row["psi"] for row in compared) / len(compared)
    text = f"{len(over)} of {len(members)} drifted ({parts}); mean psi {mean:.2f}"
    return {**first, "column": name, "changes": [text]}


main = main_of(COMPARE, run)

if __name__ == "__main__":
    run_program(main)
