"""Entry point of `beamfeed score`: which assets behave oddly, since when, and by what.

    python -m beamfeed.pipelines.score --job job.yaml [--predictions DIR] [--out DIR] [options]

It reads predictions of an autoencoder of series: those of the dataset, from whose training windows it learns what is
usual, and the ones to score. One process; memory follows the windows of the largest asset.
Exit codes: 0 done, 1 failed, 2 a mistake of the user's.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.options import SCORE
from beamfeed.contract.text import counted
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.export_folder import Content, read_predictions, write_once
from beamfeed.pipelines.preprocess import main_of, run_program
from beamfeed.pipelines.scoring import TRAINS, Scoring, interval_table, max_gap_of, measures_in, ticks, times_of
from beamfeed.transforms.export.base import complete
from beamfeed.transforms.export.parquet import write_batches
from beamfeed.transforms.reporting.tables import Predictions
from beamfeed.transforms.scoring.alarms import peaks_over_threshold
from beamfeed.transforms.scoring.events import read_events
from beamfeed.transforms.scoring.judging import Judge
from beamfeed.transforms.scoring.spool import Spool, read_batches
from beamfeed.transforms.scoring.usual import Usual

SAMPLED = 65_536  # windows, and rows, of training that stand for all


def predictions_in(folder: str, option: str) -> Predictions:
    """Those in a folder.

    Raises:
      UserError: if they are not there, or not whole.
    """
    return Predictions(folder, read_predictions(folder, f"{option}: {folder}"))


def sampled(batches: Iterable[np.ndarray], total: int) -> np.ndarray:
    """About `SAMPLED` rows of so many `[n, k]`, evenly."""
    step = max(1, total // SAMPLED)
    at, parts = 0, []
    for values in batches:
        parts.append(values[-at % step :: step].copy())  # a view would keep all of them
        at += len(values)
    return np.concatenate(parts)


def run(args: argparse.Namespace, ending: Ending, _: object) -> None:
    """Scores.

    Raises:
      UserError, JobFailed
    """
    job = load_as(TrainingJob, args.job, args.set)
    layout = RunLayout(job.train.workdir)
    usual = predictions_in(layout.predictions, "predictions of the dataset")
    target = predictions_in(args.predictions.rstrip("/"), "--predictions") if args.predictions else usual
    schema = usual.schema()
    lacking = [name for name in ("asset", "start", "time", "until", "score") if name not in schema.names]
    if lacking:
        raise UserError(f"{usual.folder}: have no column {lacking[0]!r}; score is for autoencoders of series")
    if usual.description["model_crc32c"] != target.description["model_crc32c"]:
        raise UserError(f"--predictions: {target.folder} are of another model than {usual.folder}; predict again")
    if not usual.files("train"):
        raise UserError(f"{usual.folder}: hold no windows of training; predict the whole dataset, without --split")
    out = (args.out or (layout.scores if target is usual else f"{target.folder}-scores")).rstrip("/")
    options = {name: getattr(args, name) for name in ("rows", "smooth", "risk", "threshold", "least", "gap")}
    of = {name: target.description.get(name) for name in ("fingerprint", "model_crc32c", "splits")}
    measures = measures_in(schema)
    content = {"to": "scores", "name": job.name, "of": target.folder, **of, **options, "measures": measures}
    scoring = Scoring(measures, job.windows.length, args, max_gap_of(job, schema.field("time").type))
    events = read_events(args.events, schema.field("time").type, "--events") if args.events else None

    def write() -> None:
        score(scoring, usual, target, out, content, schema)

    def judged(description: Content) -> Content:
        if events is None:
            return {}
        return {"judged": judge(out, description["files"], Judge(events, job.windows.length))}

    description = write_once(out, content, write, "scoring", ending, "scores", force=args.force, added=judged)
    if args.json:
        emit_event("score", path=out, **description)
        return
    say(description, out)


def score(
    scoring: Scoring, usual: Predictions, target: Predictions, out: str, content: dict[str, Any], schema: pa.Schema
) -> None:
    """Learns what is usual, and writes the scores of rows and the flagged intervals."""
    columns = ["asset", "start", "time", "until", *scoring.columns]
    train, total = usual.files("train"), usual.description["items"]["train"]
    some = sampled((scoring.values(batch) for batch in read_batches(train, scoring.columns)), total)
    scoring.fleet = Usual.of(scoring.measured(some))
    most = max(sum(predictions.description["items"].values()) for predictions in (usual, target))
    numbers = most * (4 + some.shape[1])
    with tempfile.TemporaryDirectory(prefix="beamfeed-score-") as folder, tempfile.TemporaryDirectory() as other:
        known = Spool(folder, numbers)
        for split in usual.splits:
            for batch in read_batches(usual.files(split), columns):
                known.add(batch.append_column(TRAINS, pa.repeat(split == "train", batch.num_rows)))
        known.close()
        windows = known if target is usual else Spool(other, numbers)
        for batch in read_batches(target.files() if target is not usual else [], columns):
            windows.add(batch)
        windows.close()
        if scoring.args.threshold is None:
            usual_scores = (
                part.scores[:, :1]
                for bucket in range(known.buckets)
                for _, of_asset in known.read(bucket)
                for part in scoring.rows_of_training(of_asset)
            )
            some = sampled(usual_scores, total * max(1, scoring.length // 4))
            scoring.threshold = peaks_over_threshold(some[:, 0].astype(np.float64), scoring.args.risk)
        else:
            scoring.threshold = scoring.args.threshold
        kind, files, count = schema.field("time").type, [], 0
        for bucket in range(windows.buckets):
            known_of = dict(known.read(bucket))
            name = f"rows/part-{bucket:05d}-of-{windows.buckets:05d}.parquet"
            assets = known_of.items() if windows is known else windows.read(bucket)
            batches = row_batches(scoring, assets, known_of, kind)
            first = next(batches, None)
            if first is not None:
                count += write_batches(storage.join(out, name), first.schema, chain([first], batches))
                files.append(name)
    table = interval_table(scoring, target, usual, kind)
    write_batches(storage.join(out, "intervals.parquet"), table.schema, table.to_batches())
    with storage.open_output(storage.join(out, "intervals.csv")) as file:
        pyarrow.csv.write_csv(table, file)
    complete(
        out, content, threshold_used=scoring.threshold,
        items={"rows": count, "intervals": len(table), "assets": len(pc.unique(table["asset"]))},
        files=[*files, "intervals.csv", "intervals.parquet"],
    )  # fmt: skip


def judge(out: str, files: Sequence[str], by: Judge) -> dict[str, Any]:
    """What known events say of the scores of rows that are written."""
    columns = ["asset", "row", "time", "score", "flagged"]
    for path in (storage.join(out, name) for name in files if name.startswith("rows/")):
        for asset, rows in runs_of_assets(read_batches([path], columns)):
            flagged = rows["flagged"].to_numpy()
            by.add(asset, ticks(rows["time"]), rows["score"].to_numpy(), flagged)
    return {**by.verdict(), "unseen": sorted(by.unseen)}


def runs_of_assets(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """The rows of each asset that follow each other, one run after the other."""
    waiting: list[pa.RecordBatch] = []
    after: tuple[str, int] = ("", 0)  # those that wait: the asset and the number of the next row
    for batch in batches:
        names = batch.column("asset").dictionary_encode().indices.to_numpy()
        edges = np.flatnonzero((np.diff(names) != 0) | (np.diff(batch.column("row").to_numpy()) != 1)) + 1
        for first, end in pairwise([0, *edges.tolist(), batch.num_rows]):
            asset, row = batch["asset"][first].as_py(), batch["row"][first].as_py()
            if waiting and (asset, row) != after:
                yield after[0], pa.Table.from_batches(waiting)
                waiting = []
            waiting.append(batch.slice(first, end - first))
            after = asset, row + end - first
    if waiting:
        yield after[0], pa.Table.from_batches(waiting)


def row_batches(
    scoring: Scoring, assets: Iterable[tuple[str, pa.Table]], known_of: dict[str, pa.Table], kind: pa.DataType
) -> Iterator[pa.RecordBatch]:
    """The rows of some assets."""
    for asset, windows in assets:
        known = known_of.get(asset)
        values = scoring.values(windows)
        if known is None:
            own = held = values[:0]
        else:
            own, held = scoring.parts(known, values if known is windows else scoring.values(known))
        for rows in scoring.rows_of(windows, values, own, held):
            flagged = scoring.flag(asset, rows)
            count = len(flagged)
            columns = {
                "asset": pa.repeat(asset, count),
                "row": pa.array(rows.first + np.arange(count)),
                "time": times_of(rows.time, kind),
                "score": pa.array(rows.scores[:, 0]),
                "flagged": pa.array(flagged),
            }
            of_measures = zip(scoring.measures, rows.scores[:, 1:].T, strict=True)
            columns |= {f"rarity_{name}": pa.array(values) for name, values in of_measures}
            yield pa.RecordBatch.from_pydict(columns)


def say(description: dict[str, Any], out: str) -> None:
    """Prints what was found."""
    items = description["items"]
    flagged = f"{counted(items['intervals'], 'interval')} of {counted(items['assets'], 'asset')}"
    note(f"{counted(items['rows'], 'row')}; {flagged} over {description['threshold_used']:.3g}", sys.stdout)
    note(storage.join(out, "intervals.csv"), sys.stdout)
    if "judged" in description:
        say_verdict(description["judged"])


def say_verdict(judged: dict[str, Any]) -> None:
    """Prints how well flagged intervals agree with known events."""
    if judged["unseen"]:
        unseen = counted(len(judged["unseen"]), "asset")
        note(f"known events of {unseen} are not in the predictions, such as of {judged['unseen'][0]!r}", sys.stdout)
    if judged.get("without_rows"):
        note(f"{counted(judged['without_rows'], 'known event')} without a scored row: not judged", sys.stdout)
    if not judged["events"]:
        note("no row is in a known event", sys.stdout)
        return
    delay = f", {judged['delay_rows']:g} rows late (median)" if judged["found"] else ""
    alarms = counted(judged["alarms"], "interval")
    note(f"{judged['found']} of {counted(judged['events'], 'event')} found{delay}; {alarms} elsewhere", sys.stdout)
    for name, title in (("composite_f1", "composite F1 (recall of events, precision of rows)"), ("f1", "F1 of rows")):
        note(f"{title}: {judged[name]:.3f}; at the best threshold {judged[f'best_{name}']:.3f}", sys.stdout)
    areas = f"VUS-PR {judged['vus_pr']:.3f}, AUC-PR {judged['auc_pr']:.3f}, AUC-ROC {judged['auc_roc']:.3f}"
    note(f"{areas}; {judged['unusual']:.1%} of rows are in events", sys.stdout)
    shuffled = f"(of shuffled scores {judged['random_adjusted_f1']:.3f})"
    note(f"F1 with whole events taken as found: {judged['best_adjusted_f1']:.3f} {shuffled}", sys.stdout)


main = main_of(SCORE, run)

if __name__ == "__main__":
    run_program(main)
