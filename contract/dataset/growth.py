"""A dataset that grows: which of the files are new since it was written, and what it is called with them."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fingerprint import data_fingerprint, files_beside, job_fingerprint
from beamfeed.contract.dataset.layout import DataLayout
from beamfeed.contract.dataset.manifest import Grows, Manifest, find_replaceable
from beamfeed.contract.storage import FileStat

COLUMNS = ("path", "size", "mtime", "beside", "gone", "run")  # of the list of files
CHANGED = "is gone, or not as it was"  # what is said of a file


def fingerprint_of(job: Job, files: Sequence[FileStat]) -> str:
    """The identity of the dataset that a run writes now: of one that has grown, with the statistics of its first run.

    Raises:
      UserError: as for `data_fingerprint`, and if there is a manifest that cannot be understood.
    """
    published = find_grown(job)
    if published is None:
        return fingerprint_with(job, files, (), None)
    changes = find_changes(job, files, published.data_layout(job.output.path)) if job.output.keep is not None else None
    return fingerprint_with(job, files, () if changes is None else changes.gone, published.grows)


def fingerprint_with(job: Job, files: Sequence[FileStat], gone: Sequence[FileStat], grows: Grows | None) -> str:
    """As `fingerprint_of`, of a dataset that grows.

    Args:
      job: that is to run.
      files: that it lists.
      gone: others that it was made of, which took nothing with them.
      grows: by what it grows; None if it is not there yet.
    """
    every = sorted([*files, *gone], key=lambda stat: stat.path) if gone else files
    alone = data_fingerprint(job, every)
    return alone if grows is None or grows.made_of == alone else data_fingerprint(job, every, grows.made_of)


def find_grown(job: Job) -> Manifest | None:
    """The dataset at the output, if a run of this job may add to it.

    Raises:
      UserError: if there is a manifest that cannot be understood.
    """
    published = find_replaceable(job.output.path)[0] if job.output.grow else None
    if published is None or published.grows is None:
        return None
    # Names of assets, and with them splits, may hang on the patterns.
    is_own = (published.name, published.source) == (job.name, list(job.source.patterns))
    return published if is_own and published.grows.job == job_fingerprint(job) else None


def data_layout(job: Job, fingerprint: str) -> DataLayout:
    """The names of the data folder that a run writes: one that the published manifest does not name.

    Shards of the dataset that is there may be missing, and the same job or files may come again after others. Who reads
    those folders goes on, and if this run dies, they are as they were.
    """
    layout = DataLayout.of(job.output.path, fingerprint)
    published, data = find_replaceable(job.output.path)
    taken = {data} if published is None else {*published.folders, published.previous, *published.older}
    folder, number = layout.folder, 1
    while folder in taken:
        number += 1
        folder = f"{layout.folder}-{number}"
    return DataLayout(job.output.path, folder)


def find_base(published: Manifest, output: str) -> Manifest | None:
    """The dataset before the last run added to it; None where that is not known any more."""
    try:
        return Manifest.model_validate_json(storage.read_text(published.data_layout(output).base))
    except (FileNotFoundError, ValidationError):
        return None


@dataclass(frozen=True)
class Changes:
    """What is different in a listing.

    Attributes:
      new: files that were not there.
      changed: paths of those that were there and are not now, or not as they were.
      gone: those that are not there now and take nothing with them, see `output.keep`.
      beside: as `changed`, of those that are read beside the files.
      known: paths of the files that were there.
      runs: by path, the data folder of the run that prepared it.
    """

    new: list[FileStat]
    changed: list[str]
    gone: list[FileStat]
    beside: list[str]
    known: list[str] = field(repr=False)
    runs: dict[str, str] = field(repr=False)

    @property
    def why(self) -> str:
        """Why new files cannot simply be added; empty where they can."""
        return "".join(f"{path} {CHANGED}" for path in [*self.beside, *self.changed][:1])


def find_changes(job: Job, files: Sequence[FileStat], layout: DataLayout) -> Changes | None:
    """What is different from the files that a dataset was made of; None where it does not tell them.

    Args:
      job: that lists them.
      files: that it lists now.
      layout: of the data folder.
    """
    rows = _read_files(layout)
    if rows is None:
        return None
    before = {path: facts for path, *facts, _, _ in rows}
    now = {path: facts for path, *facts, _ in _rows(job, files)}
    known = [path for path, (_, _, is_beside) in before.items() if not is_beside]
    lacking = [path for path in known if path not in now] if job.output.keep is not None else []
    changed = [path for path, facts in before.items() if now.get(path) != facts]
    beside = [path for path in changed if before[path][-1]]
    beside += [path for path, (_, _, is_beside) in now.items() if is_beside and path not in before]
    new = [stat for stat in files if stat.path not in before]
    others = {*beside, *lacking}
    gone = [FileStat(path, *before[path][:2]) for path in lacking]
    runs = {path: run for path, *_, run in rows}
    return Changes(new, [path for path in changed if path not in others], gone, beside, known, runs)


def list_known(layout: DataLayout) -> tuple[list[FileStat], list[FileStat]] | None:
    """The input files that a dataset was made of, in the order of its listing, and those that were gone by then.

    None where it does not tell them.
    """
    rows = _read_files(layout)
    if rows is None:
        return None
    stats = [(FileStat(path, size, mtime), gone) for path, size, mtime, is_beside, gone, _ in rows if not is_beside]
    return [stat for stat, gone in stats if not gone], [stat for stat, gone in stats if gone]


def files_of_runs(layout: DataLayout, runs: Collection[str]) -> set[str]:
    """The paths of the files that some runs prepared, by their data folders."""
    return {path for path, *_, run in _read_files(layout) or () if run in runs}


def _read_files(layout: DataLayout) -> list[tuple[str, int, int, bool, bool, str]] | None:
    """What `write_files` wrote; None where that is not there, or not of this version."""
    import pyarrow as pa

    try:
        table = storage.read_table(layout.files)
        return list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))
    except (FileNotFoundError, KeyError, pa.ArrowException):
        return None


def write_files(
    job: Job, files: Sequence[FileStat], gone: Sequence[FileStat], layout: DataLayout, new: Collection[str],
    before: DataLayout | None,
) -> None:  # fmt: skip
    """Writes of what files a dataset is made.

    Args:
      job: that lists them.
      files: that it lists.
      gone: those that took nothing with them.
      layout: of the data folder.
      new: paths of the files that this run prepares.
      before: the names of the data folder that it adds to; None where it prepares all.
    """
    import pyarrow as pa

    runs = {path: run for path, *_, run in _read_files(before) or () if path not in new} if before is not None else {}
    columns = zip(*((*row, runs.get(row[0], layout.folder)) for row in _rows(job, files, gone)), strict=True)
    storage.write_table(layout.files, pa.table(dict(zip(COLUMNS, columns, strict=True))))


def _rows(job: Job, files: Sequence[FileStat], gone: Sequence[FileStat] = ()) -> list[tuple[str, int, int, bool, bool]]:
    """Of each file, and of those that are read beside them, what `COLUMNS` says."""
    kinds = ((files, False, False), (gone, False, True), (files_beside(job), True, False))
    return [(stat.path, stat.size, stat.mtime, beside, lost) for stats, beside, lost in kinds for stat in stats]
