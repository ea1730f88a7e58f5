"""What a job will do, and whether it can: found out from its files, before anything is written."""

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.batches import describe_batch, fit_training
from beamfeed.contract.dataset.fingerprint import run_fingerprint
from beamfeed.contract.dataset.growth import fingerprint_of
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Manifest, find_replaceable
from beamfeed.contract.dataset.published import check_owner, read_complete
from beamfeed.contract.dataset.recent import training_manifest
from beamfeed.contract.dataset.result import read_run
from beamfeed.contract.errors import BeamfeedError, UserError
from beamfeed.contract.imports import spare_pandas
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import size_text
from beamfeed.pipelines.preprocess import check_output
from beamfeed.pipelines.sample import SAMPLE_BYTES, Look, RowEstimate, choose, estimate_rows, scaled
from beamfeed.transforms.find_growth import find_growth
from beamfeed.transforms.growth import Learned
from beamfeed.transforms.outcome import empty_splits
from beamfeed.transforms.rehearsal import Problems, Rehearsal, rehearse
from beamfeed.transforms.sources import make_source
from beamfeed.transforms.splits import check_filled, split_of_asset


@dataclass(frozen=True)
class Checked:
    """What was found out of a job.

    Attributes:
      job: as it would run.
      files: of the input.
      look: which of them were read.
      remarks: what was found out of the files that the job does not say.
      rehearsal: of the files that were read.
      manifest: of all files, scaled up where only some were read; None where a problem is in the way.
      rows: what becomes of them.
      complete: whether the dataset is there already.
      problems: what cannot work, by the lines that tell of it.
      warnings: what works, but may not be meant.
    """

    job: Job
    files: Sequence[FileStat]
    look: Look
    remarks: Sequence[str]
    rehearsal: Rehearsal
    manifest: Manifest | None
    rows: RowEstimate
    complete: bool
    problems: Mapping[str, BeamfeedError]
    warnings: Sequence[str]

    @property
    def exact(self) -> bool:
        """Whether all files were read, so that figures are no estimates."""
        return self.look.whole


def check_job(job: Job, *, full: bool = False, most: int | None = None) -> Checked:
    """Looks at the files of a job and says what it will do.

    Args:
      job: to look at.
      full: whether all files are read, however large they are.
      most: bytes of files that are read otherwise, SAMPLE_BYTES unless given.

    Raises:
      UserError: if the job does not fit its files at all.
    """
    spare_pandas()
    problems, warnings = Problems(), list[str]()
    listed = job.source.list_files()
    fingerprint = fingerprint_of(job, listed)
    layout = DataLayout.of(job.output.path, fingerprint)
    complete = False
    with problems.collected():
        complete = read_complete(job.output.path, fingerprint) is not None
    growth, new = find_growth(job, listed)
    source, files = make_source(growth.reading(job), listed)
    remarks = []
    if growth.published is not None and not complete:
        remarks = [growth.describe(len(new))]
        with problems.collected():
            growth.check(source, Learned.read(growth.before(job.output.path).learned).statistics)
    look = choose(source, files, None if full else most or SAMPLE_BYTES)
    with tempfile.TemporaryDirectory(prefix="beamfeed-check-") as scratch:
        rehearsal = rehearse(look.source, look.files, scratch, fingerprint, layout.folder, complete=look.whole)
    exact, manifest = look.whole, rehearsal.manifest
    if manifest is not None and not exact:
        manifest = scaled(manifest, rehearsal.assets, look.stands)
    rows = estimate_rows(rehearsal.assets, look.stands)
    if not exact and job.split.by == "asset" and not look.mixed and job.source.max_assets is None:
        names = sorted({source.asset_of_path(file.path, job) or "" for file in files})
        with problems.collected():
            check_filled(Counter(split_of_asset(name, job.split) for name in names), names, job.split)

    def report(errors: Mapping[str, BeamfeedError]) -> None:
        # Of a sample too little may be known: what it lacks, other files may have.
        if exact:
            problems.errors.update(errors)
        else:
            warnings.extend(f"of what was read: {line}" for line in errors)

    report(rehearsal.problems)
    with problems.collected():
        check_output(job.output.path)
    size = 0 if manifest is None else sum(split.bytes for split in manifest.splits.values())
    with problems.collected():
        if not complete:
            check_owner(job, find_replaceable(job.output.path)[0])
    with problems.collected():
        check_place(job.output.path, "output.path", size)
    if job.train is not None:
        with problems.collected():
            check_place(job.train.workdir, "train.workdir")
    if exact and manifest is not None:
        warnings += empty_splits(job, manifest.splits)
    if manifest is not None and job.train is not None and not (exact and rehearsal.problems):
        of_training = Problems()
        warnings += _training(job, manifest, of_training)
        report(of_training.errors)
    remarks += source.remarks
    return Checked(job, files, look, remarks, rehearsal, manifest, rows, complete, problems.errors, warnings)


def _training(job: Job, manifest: Manifest, problems: Problems) -> list[str]:
    """Warnings about the training run; what cannot work goes to the problems."""
    warnings = []
    assert job.train is not None
    with problems.collected():
        manifest = training_manifest(job.train, manifest)
        fitted = fit_training(job, manifest)
        assert fitted.train is not None
        batch, workers = fitted.train.feed.batch_size, job.launch.train.workers
        if batch < workers:
            raise UserError(
                f"launch.train.workers: {workers} workers cannot share a batch of {batch}; set it to {batch} or less"
            )
        if fitted is not job:
            warnings.append(f"smoke test: {describe_batch(fitted, job)}")
        run = read_run(fitted.train.workdir)
        if run and run.get("fingerprint") != run_fingerprint(fitted.train, manifest.fingerprint):
            problem = f"train.workdir: {job.train.workdir} holds another training run"
            warnings.append(f"{problem}: choose another folder, or start again with --restart")
    if manifest.splits["train"].windows and not manifest.splits["eval"].windows:
        warnings.append(f"eval has no {manifest.noun}, so the train split decides which weights are best")
    return warnings


def check_place(folder: str, key: str, size: int = 0) -> None:
    """Whether a folder can be written, as far as can be told without writing: a bucket is not tried.

    Args:
      folder: need not be there.
      key: of the job, that names it.
      size: bytes that are to be written.

    Raises:
      UserError
    """
    if storage.is_remote(folder):
        return
    place = os.path.abspath(folder)
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    if not os.path.isdir(place):
        raise UserError(f"{key}: {folder} cannot be a folder, as {place} is a file")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{key}: {folder} cannot be written: no permission for {place}")
    free = shutil.disk_usage(place).free
    if size > free:
        raise UserError(f"{key}: {folder} needs about {size_text(size)}, its disk has {size_text(free)} left")
