"""Which files a run prepares on a dataset that grows, and whether they can be added to what is there."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.fingerprint import job_fingerprint
from beamfeed.contract.dataset.growth import CHANGED, Changes, find_base, find_changes, find_grown
from beamfeed.contract.dataset.layout import DataLayout, manifest_path
from beamfeed.contract.dataset.limits import nameless_files
from beamfeed.contract.dataset.manifest import Manifest, find_replaceable
from beamfeed.contract.dataset.published import is_complete
from beamfeed.contract.dataset.recent import is_apart
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import FileStat
from beamfeed.contract.text import counted
from beamfeed.transforms.growth import NEW, Growth, without_shards
from beamfeed.transforms.known_assets import known_before
from beamfeed.transforms.sources import kind_of
from beamfeed.transforms.sources.descriptors import CannotGoOn


def find_growth(job: Job, files: Sequence[FileStat], *, refit: bool = False) -> tuple[Growth, Sequence[FileStat]]:
    """How a run goes on, and the files that it prepares.

    Args:
      job: that is to run.
      files: that it lists.
      refit: whether all is made anew.

    Raises:
      UserError: if there is a manifest that cannot be understood.
    """
    if not job.output.grow:
        return NEW, files
    grows = job_fingerprint(job)
    published = None if refit else find_grown(job)
    output = job.output.path
    if published is None:
        if not refit:
            _check_gone(job, files)
        return Growth(grows), files
    changes = find_changes(job, files, published.data_layout(output))
    growth = Growth(grows, without_shards(published), gone=() if changes is None else tuple(changes.gone))
    try:
        if changes is None:
            raise CannotGoOn("its list of files is missing, or of another version")
        if not is_complete(output, published):
            raise CannotGoOn("shards are missing or damaged")
        if not (changes.new or changes.why):
            return growth, files
        if changes.why and (earlier := _going_back(job, files, growth, published, changes)):
            return earlier
        return _adding(job, files, replace(growth, added_to=manifest_path(output)), published, changes)
    except CannotGoOn as error:
        return prepare_all(growth, str(error)), files


def _check_gone(job: Job, files: Sequence[FileStat]) -> None:
    """Raises UserError if this job's dataset, which is to be made anew, holds records of files that are gone."""
    earlier = find_replaceable(job.output.path)[0]
    if earlier is None or earlier.grows is None:
        return
    if (earlier.name, earlier.source) == (job.name, list(job.source.patterns)):
        changes = find_changes(job, files, earlier.data_layout(job.output.path))
        gone = () if changes is None else tuple(changes.gone)
        prepare_all(Growth("", gone=gone), "keys of the job changed, or another version of Beamfeed made the dataset")


def _going_back(
    job: Job, files: Sequence[FileStat], growth: Growth, published: Manifest, since: Changes
) -> tuple[Growth, Sequence[FileStat]] | None:
    """The run that adds to the dataset before its last run, and its files; `since` is what changed since then.

    None where files of that dataset changed, too, or it is not whole any more, or the last run had files that are gone
    now and take nothing with them.
    """
    output = job.output.path
    base = find_base(published, output)
    changes = None if base is None else find_changes(job, files, base.data_layout(output))
    if base is None or changes is None or changes.why or not is_complete(output, base):
        return None
    if not {stat.path for stat in since.gone} <= set(changes.known):
        return None
    path = published.data_layout(output).base
    growth = replace(growth, published=without_shards(base), added_to=path, gone=tuple(changes.gone))
    try:
        growth, new = _adding(job, files, growth, base, changes)
    except CannotGoOn:
        return None
    return replace(growth, goes_back=True, why=since.why), new


def why_not_added(growth: Growth, layout: DataLayout) -> str:
    """Why a run that has failed could not add to the dataset; empty where it has not found that."""
    try:
        return storage.read_text(layout.again).strip() if growth.adds else ""
    except FileNotFoundError:
        return ""


def prepare_all(growth: Growth, why: str) -> Growth:
    """The same run, which prepares all files again.

    Raises:
      UserError: if files of the dataset are gone whose records should stay.
    """
    if growth.gone:
        raise UserError(
            f"output.keep: all files have to be prepared again, as {why}; but what files held that are gone would be "
            f"lost ({counted(len(growth.gone), 'file')}, such as {growth.gone[0].path}); put them back, or prepare "
            "those that are there with --refit"
        )
    published = growth.published
    if published is not None and published.grows is not None:
        published = published.model_copy(update={"grows": published.grows.model_copy(update={"compacted": ""})})
    return Growth(growth.job, published, why=why)


def _adding(
    job: Job, files: Sequence[FileStat], growth: Growth, dataset: Manifest, changes: Changes
) -> tuple[Growth, Sequence[FileStat]]:
    """The run that adds to a dataset, or prepares assets or runs of it again, and the files that it prepares.

    Raises:
      CannotGoOn: if it can be seen that all have to be prepared again.
    """
    kind, layout = kind_of(job), growth.before(job.output.path)
    if kind.knows_assets(job):
        known_before(layout)  # raises where it is not there

    def name_of(path: str) -> str | None:
        return kind.asset_of_path(path, job)

    names = {name_of(path) for path in changes.known}
    is_mixed = names == {None}  # else a path that names no asset is set aside
    can_replace = kind.asset_field is not None and not is_mixed
    again = {name_of(path): f"{path} {CHANGED}" for path in changes.changed}  # why assets are prepared again
    why = kind.why_not_behind(job, files, changes.new)
    if changes.beside or (again and (None in again if can_replace else why is not None or kind.knows_assets(job))):
        raise CannotGoOn(changes.why)
    if again and not can_replace:
        return _again(files, growth, dataset, changes)
    if why is not None:
        if why:
            raise CannotGoOn(why)
        return growth, changes.new
    more = {name: stat.path for stat in changes.new if (name := name_of(stat.path)) in names - again.keys()}
    if not is_mixed:
        more.pop(None, None)
    if more:
        for name, why in _why_not_on(job, growth, layout, more, is_mixed=is_mixed).items():
            if not can_replace:
                raise CannotGoOn(why)
            again[name] = why
            del more[name]
    growth = replace(growth, goes_on=bool(more), is_mixed=is_mixed)
    if not again:
        return growth, changes.new
    if again.keys() >= names - {None} or again.keys() & {name_of(stat.path) for stat in changes.gone}:
        raise CannotGoOn(next(iter(again.values())))
    theirs = [stat for stat in files if name_of(stat.path) in again]
    others = [stat for stat in changes.new if name_of(stat.path) not in again]
    growth = replace(
        growth,
        replaced=frozenset(map(str, again)),
        replaced_files=sum(name_of(path) in again for path in changes.known),
        why=next(iter(again.values())),
    )
    return growth, [*theirs, *others]


def _again(
    files: Sequence[FileStat], growth: Growth, dataset: Manifest, changes: Changes
) -> tuple[Growth, Sequence[FileStat]]:
    """The run that prepares all files again of the runs whose files changed, as records do not tell their files.

    Raises:
      CannotGoOn: if no other run would be left, or records of theirs are among those of others.
    """
    redone = frozenset(changes.runs[path] for path in changes.changed)
    runs = [run for run in dataset.increments if run.data in redone]
    if len(runs) == len(dataset.increments):
        raise CannotGoOn(changes.why)
    if len(runs) < len(redone) or not all(is_apart(dataset, run) for run in runs):
        raise CannotGoOn(f"{changes.why}, and beamfeed compact has merged what its run added with others")
    theirs = [stat for stat in files if changes.runs.get(stat.path, next(iter(redone))) in redone]
    return replace(growth, redone=redone, why=changes.why), theirs


def _why_not_on(
    job: Job, growth: Growth, layout: DataLayout, more: Mapping[str | None, str], *, is_mixed: bool
) -> dict[str | None, str]:
    """By name, why new rows cannot be added to assets, as far as that can be seen; `more` is a new file of each.

    Raises:
      CannotGoOn: if what is known of assets cannot be read.
    """
    if not kind_of(job).may_go_on(job):
        return {name: f"{path} {_goes_on_with(name)}" for name, path in more.items()}
    known = known_before(layout)
    assert growth.published is not None
    if is_mixed:
        uncertain = nameless_files(growth.published, job.output.path)
        why = f"{more[None]} may go on with any asset, and so may files that were set aside"
        return {None: why} if uncertain else {}
    touched = known.filter(pc.is_in(known["asset"], pa.array(sorted(map(str, more)))))
    can = set(touched["asset"].filter(pc.greater(pc.list_value_length(touched["tail"]), 0)).to_pylist())
    return {
        name: f"{path} {_goes_on_with(name)}, whose rows have to be read all together"
        for name, path in more.items()
        if name not in can
    }


def _goes_on_with(name: str | None) -> str:
    return "may go on with any asset" if name is None else f"goes on with asset {name}"
