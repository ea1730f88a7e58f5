"""Entry point of `beamfeed predict`: what a trained model says of its dataset, or of new files, as Parquet.

    python -m beamfeed.pipelines.predict --job job.yaml [--files PATTERN] [--out DIR] [options] [-- options of Beam]

Exit codes: 0 done, 1 the job failed, 2 a mistake of the user's.
"""

import argparse
import csv
import sys
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job, TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.config.split import SPLITS
from beamfeed.contract.dataset.fingerprint import check_prepared, data_fingerprint
from beamfeed.contract.dataset.layout import REJECTS, RunLayout
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.dataset.raw_values import read_raw_values
from beamfeed.contract.dataset.result import read_result, read_run
from beamfeed.contract.ending import Ending
from beamfeed.contract.errors import UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.failure_log import FailureLog
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import PREDICT
from beamfeed.contract.text import counted
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.export_folder import removed_after, write_once
from beamfeed.pipelines.preprocess import main_of, opened, run_program


def check_trained(job: TrainingJob, manifest: Manifest) -> None:
    """Raises UserError where the working folder holds no model, or one of another dataset."""
    workdir = job.train.workdir
    if read_result(workdir) is None:
        raise UserError(f"train.workdir: {workdir} holds no trained model; train first")
    if read_run(workdir).get("data") not in manifest.fingerprints:
        raise UserError(
            f"train.workdir: the model in {workdir} was trained on another dataset than is at {job.output.path}; "
            "train again with --restart"
        )


def listed_names(text: str) -> list[str]:
    """Names with a comma between; one that holds commas in quotes."""
    try:
        return next(csv.reader([text]), []) or [text]
    except csv.Error:  # of a line break
        return [text]


def run(args: argparse.Namespace, ending: Ending, log: FailureLog) -> None:
    """Predicts.

    Raises:
      UserError, JobFailed
    """
    job = load_as(TrainingJob, args.job, args.set)
    manifest = read_manifest(job.output.path)
    check_trained(job, manifest)
    if args.files and args.out is None:
        raise UserError("--files: needs --out, the folder for their predictions")
    for option, value in (("--split", args.split), ("--keep", args.keep)):
        if value and bool(args.files) == (option == "--split"):
            raise UserError(f"{option}: is for {'the dataset' if args.files else '--files'} alone")
    out = (args.out or RunLayout(job.train.workdir).predictions).rstrip("/") or "/"
    predict = predict_files if args.files else predict_dataset
    description = predict(job, manifest, args, out, ending, log)
    if args.json:
        emit_event("predict", path=out, **description)
        return
    describe(description, out)


def describe(description: dict[str, Any], out: str) -> None:
    """Prints what was written."""
    for split, count in description["items"].items():
        note(f"{'' if split == 'all' else f'{split}: '}{counted(count, 'prediction')}", sys.stdout)
    aside = description.get("counts", {})
    parts = [counted(count, kind) for kind in ("file", "row") if (count := aside.get(f"rejected_{kind}s"))]
    if parts:
        note(f"set aside: {' and '.join(parts)}, see {storage.join(out, REJECTS)}", sys.stdout)
    note(f"{out}: {counted(len(description['files']), 'file')} of Parquet", sys.stdout)


def predict_dataset(
    job: TrainingJob, manifest: Manifest, args: argparse.Namespace, out: str, ending: Ending, log: FailureLog
) -> dict[str, Any]:
    """Predicts the windows of the dataset."""
    chosen = [split for split in SPLITS if split in (args.split or SPLITS) and split in manifest.splits]
    splits = tuple(split for split in chosen if manifest.splits[split].windows)
    if not splits:
        raise UserError(f"--split: dataset {manifest.name} holds nothing in {', '.join(args.split)}")
    with heavy_imports():
        from beamfeed.transforms.export.base import Export
        from beamfeed.transforms.export.steps import describe as describe_export
        from beamfeed.transforms.export.steps import export_dataset
        from beamfeed.transforms.predictions.model import Exported, look_for_devices
        from beamfeed.transforms.predictions.steps import Predictions

        look_for_devices()
    names = tuple(field.name for field in manifest.fields if field.role != "weight" and field.stored != "steps")
    if unread := [field.name for field in manifest.fields if field.role == "input" and field.name not in names]:
        dataset = f"dataset {manifest.name}"
        raise UserError(f"{dataset}: {unread[0]!r} is a feature list of SequenceExamples, not read by predict")
    export = Export(job.output.path, manifest, splits, "windows", names, "predictions", out)
    form = Predictions(Exported.at(RunLayout(job.train.workdir).saved_model))

    def write() -> None:
        with opened(args.beam_options, ending, log) as pipeline:
            export_dataset(pipeline, export, form)

    content = describe_export(export, form)
    return write_once(out, content, write, "predicting", ending, "predictions", force=args.force, resumed=None)


def predict_files(
    job: TrainingJob, manifest: Manifest, args: argparse.Namespace, out: str, ending: Ending, log: FailureLog
) -> dict[str, Any]:
    """Predicts the rows or windows of new files."""
    with heavy_imports():
        import apache_beam as beam

        from beamfeed.contract.progress import Progress
        from beamfeed.pipelines.build import PreprocessPipeline, write_listing
        from beamfeed.transforms.predictions.job import job_of_files
        from beamfeed.transforms.predictions.model import Exported, look_for_devices
        from beamfeed.transforms.predictions.steps import Fields, FilePredictions, PredictShard, publish
        from beamfeed.transforms.sources import make_source
        from beamfeed.transforms.sources.checking import REJECTS as REJECTED

        look_for_devices()
    check_prepared(job, manifest)
    raw = read_raw_values(manifest.data_layout(job.output.path).raw_values)
    reading: Job = job_of_files(job, args.files, manifest, raw)
    files = reading.source.list_files()
    source, files = make_source(reading, files)
    names = [name for listed in args.keep for name in listed_names(listed)]
    source = source.reading_as(raw).keeping(names, files)
    model = Exported.at(RunLayout(job.train.workdir).saved_model)
    content: dict[str, Any] = {
        "to": "predictions", "name": job.name, "fingerprint": data_fingerprint(reading, files),
        "dataset": manifest.fingerprint, "model": model.folder, "model_crc32c": model.crc32c, "keep": names,
    }  # fmt: skip
    fields = Fields.of(manifest.fields, reading.frame, targets=False)
    predictions = FilePredictions(source, fields, model, out, content)

    def write() -> None:
        layout, progress = predictions.layout, Progress(None)
        with removed_after(layout.root, ending), opened(args.beam_options, ending, log) as pipeline:
            listed = source.listed(files, layout.scratch)
            write_listing(layout, listed)
            job_steps = PreprocessPipeline(source, layout, content["fingerprint"], len(files), progress)
            checked = job_steps.check(pipeline)
            written = checked.shards | "PredictShard" >> beam.ParDo(PredictShard(predictions, progress))
            named = written | "Predicted" >> beam.FlatMap(lambda result: [(name, "test") for name in result.counts])
            _ = checked.once | "PublishPredictions" >> beam.Map(
                publish,
                predictions,
                beam.pvalue.AsSingleton(checked.fleet),
                beam.pvalue.AsList(checked.rejects),
                beam.pvalue.AsList(checked.notes),
                beam.pvalue.AsList(job_steps.join_splits(checked.accepted, named)[REJECTED]),
                beam.pvalue.AsList(written | "TotalOfFile" >> beam.Map(lambda file: (file.name, file.counts.total()))),
            )

    return write_once(out, content, write, "predicting", ending, "predictions", force=args.force, resumed=None)


main = main_of(PREDICT, run)

if __name__ == "__main__":
    run_program(main)
