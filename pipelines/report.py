"""Entry point of `beamfeed report`: a dataset and what a model made of it, as one HTML file.

    python -m beamfeed.pipelines.report DATASET [--job job.yaml] [--out FILE.html]

One process; it reads a bounded part of the shards, and of predictions and scores a few columns.
Exit codes: 0 done, 1 failed, 2 a mistake of the user's.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.dataset.facts import read_facts, read_stats
from beamfeed.contract.dataset.findings import drifts, findings
from beamfeed.contract.dataset.layout import DESCRIPTION, RunLayout
from beamfeed.contract.dataset.manifest import Manifest, read_manifest
from beamfeed.contract.dataset.raw_rows import RawRows, read_raw_rows
from beamfeed.contract.dataset.result import read_result, read_run
from beamfeed.contract.dataset.review import read_review
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.contract.events import emit_event
from beamfeed.contract.imports import heavy_imports
from beamfeed.contract.options import REPORT
from beamfeed.contract.text import size_text
from beamfeed.contract.verbosity import note
from beamfeed.pipelines.export_folder import read_description
from beamfeed.pipelines.preprocess import main_of, run_program

with heavy_imports():
    from beamfeed.transforms.reporting.answers import answers_of, answers_section
    from beamfeed.transforms.reporting.errors import best_and_worst
    from beamfeed.transforms.reporting.features import distributions
    from beamfeed.transforms.reporting.intake import came_out, overview, went_in
    from beamfeed.transforms.reporting.latent import latent_space
    from beamfeed.transforms.reporting.page import Chapter, Command, Words, page
    from beamfeed.transforms.reporting.sample import Sample
    from beamfeed.transforms.reporting.samples import samples
    from beamfeed.transforms.reporting.scales import Wording, names_of_categories, scales_of
    from beamfeed.transforms.reporting.tables import Predictions
    from beamfeed.transforms.reporting.timelines import timelines
    from beamfeed.transforms.reporting.training import Run, training
    from beamfeed.transforms.reporting.training import overview as overview_of_run

FIRST_REJECTS, REJECTS_BYTES = 40, 1 << 20


def run(args: argparse.Namespace, *_: object) -> None:
    """Reports.

    Raises:
      UserError, JobFailed
    """
    job = load_as(TrainingJob, args.job, args.set) if args.job else None
    dataset = args.dataset.rstrip("/") or "/"
    manifest = read_manifest(dataset)
    trained, why = run_of(job, manifest, args) if job is not None else (None, "")
    out = args.out or (RunLayout(trained.workdir).report_page if trained else f"{dataset}-report.html")
    if not out.endswith((".html", ".htm")):
        raise UserError(f"--out {out}: must be the name of a file that ends in .html")
    stats, raw = read_stats(dataset, manifest), read_raw_rows(manifest.data_layout(dataset).raw_rows)
    words = Wording(scales_of(manifest, stats, raw, job), names_of_categories(dataset, manifest))
    sample = Sample(dataset, manifest)
    sections = of_dataset(sample, stats, raw, words)
    if why:
        sections.append(Chapter("The model", [Words(why)]))
    if job is not None and trained is not None:
        sections[0].parts.append(overview_of_run(trained))
        sections += of_model(sample, job, trained, words, args)
    about = f"Dataset {dataset}, {manifest.fingerprint[:12]}" + (f"; model {trained.workdir}" if trained else "")
    written = page(f"{manifest.name}: {'data and model' if trained else 'data'}", about, sections)
    try:
        storage.write_bytes(out, written)
    except IsADirectoryError:
        raise UserError(f"--out {out}: is a folder, it must be the name of a file") from None
    if args.json:
        emit_event("report", path=out, bytes=len(written))
        return
    note(f"{out}: {size_text(len(written))}", sys.stdout)


def run_of(job: TrainingJob, manifest: Manifest, args: argparse.Namespace) -> tuple[Run | None, str]:
    """The training run of a job; None where there is none of this dataset, and why."""
    layout = RunLayout(job.train.workdir)
    result = read_result(layout.workdir)
    again = named(args)
    if result is None:
        return None, f"{layout.workdir} holds no trained model: beamfeed train {again}"
    data = read_run(layout.workdir).get("data")
    if data not in manifest.fingerprints:
        return None, f"The model in {layout.workdir} was trained on another dataset: beamfeed train {again} --restart"
    review = read_review(layout.workdir, result.fingerprint)
    floor = read_result(layout.floor) if job.train.floor else None
    lines = []
    with suppress(OSError, ValueError):
        lines = [json.loads(line) for line in storage.read_text(layout.metrics).splitlines() if line]
    sentences = findings(result, review, again)
    if data != manifest.fingerprint:
        sentences.append("it was trained on the dataset as it was before its last runs, and its errors are of that one")
    return Run(layout.workdir, result, lines, review, floor, sentences), ""


def named(args: argparse.Namespace) -> str:
    """The job, with its overrides, on a command line."""
    return shlex.join([args.job, *(part for override in args.set for part in ("--set", override))])


def of_dataset(sample: Sample, stats: Mapping[str, Any], raw: RawRows | None, words: Wording) -> list[Chapter]:
    """The chapters on the dataset."""
    manifest = sample.manifest
    facts = read_facts(sample.dataset, manifest)
    sections = [
        Chapter("At a glance", [overview(manifest, facts)]),
        went_in(manifest, facts, stats, first_rejects(facts.rejects if facts.reasons else None)),
        came_out(manifest, drifts(manifest)),
    ]
    sections += attempt("Features in train, eval and test", lambda: distributions(sample, words))
    sections += attempt("Samples", lambda: samples(sample, manifest, raw, words))
    return sections


def first_rejects(path: str | None) -> list[Mapping[str, Any]]:
    """Some of what was set aside."""
    if path is None:
        return []
    with storage.open_input(path) as file:
        lines = file.read(REJECTS_BYTES).decode(errors="replace").splitlines()[:FIRST_REJECTS]
    rejects: list[Mapping[str, Any]] = []
    with suppress(ValueError):
        for line in lines:
            rejects.append(json.loads(line))
    return rejects


def attempt(title: str, make: Callable[[], Chapter | None]) -> list[Chapter]:
    """A section, or why there is none: a damaged shard does not take the rest of the report."""
    try:
        section = make()
    except (UserError, JobFailed) as error:
        return [Chapter(title, [Words(f"They cannot be read: {error}")])]
    return [] if section is None else [section]


def of_model(sample: Sample, job: TrainingJob, trained: Run, words: Wording, args: argparse.Namespace) -> list[Chapter]:
    """The chapters on the model."""
    layout, manifest, again = RunLayout(trained.workdir), sample.manifest, named(args)
    sections = [training(trained)]
    description = read_description(layout.predictions)
    if description is None or not description.get("complete") or description.get("fingerprint") != manifest.fingerprint:
        words_on = (
            "There are no predictions of the dataset yet. They show the best and worst, the latent space, and answers "
            "beside what is true:"
        )
        missing = Command(words_on, command=f"beamfeed predict {again}")
        return [*sections, Chapter("Predictions", [missing])]
    if storage.stat(storage.join(layout.predictions, DESCRIPTION)).mtime < storage.stat(layout.complete).mtime:
        older = Command("The predictions are older than the model:", command=f"beamfeed predict {again} --force")
        return [*sections, Chapter("Predictions", [older])]
    predictions = Predictions(layout.predictions, description)
    if not predictions.splits:
        return sections
    answers = answers_of(job.train.task, manifest, predictions.schema())
    sections += [
        chapter for answer in answers for chapter in attempt("Answers", partial(answers_section, answer, predictions))
    ]
    for answer in answers:
        sections += attempt("Best and worst", partial(best_and_worst, answer, predictions, sample, manifest, words))
    sections += attempt("The latent space", lambda: latent_space(predictions, answers[0] if answers else None))
    scored = read_description(layout.scores)
    if scored is not None and scored.get("complete") and scored.get("model_crc32c") == description.get("model_crc32c"):
        sections += attempt("The oddest assets", lambda: timelines(layout.scores, scored))
    elif {"score", "time", "asset"} <= set(predictions.schema().names):
        scored_by = "Nothing is scored yet; this shows which assets behave oddly, and since when:"
        sections.append(Chapter("The oddest assets", [Command(scored_by, command=f"beamfeed score {again}")]))
    return sections


main = main_of(REPORT, run)

if __name__ == "__main__":
    run_program(main)
