"""Finds a run by what a user calls it: its id, the folder of what it makes, or its job file."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from beamfeed.contract import storage
from beamfeed.contract.config.job import Job
from beamfeed.contract.dataset.layout import RecordLayout
from beamfeed.contract.errors import BeamfeedError, UserError
from beamfeed.launcher.job import load_job
from beamfeed.launcher.runs.record import ID, RunRecord, list_layouts, read_record

MOST_KNOWN = 500  # runs that are looked for
MOST = 1 << 20  # bytes of the list of this machine's runs, from where it is begun anew
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Run:
    """A run, and where it is recorded."""

    layout: RecordLayout
    record: RunRecord


def known_path() -> str:
    """The file in which this machine notes where its runs are recorded, for their ids."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "beamfeed", "runs.jsonl")


def remember(layout: RecordLayout) -> None:
    """Notes where a run is recorded; where this machine has no place for that, folders name its runs."""
    path = known_path()
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path) and os.path.getsize(path) > MOST:
            os.replace(path, f"{path}.old")
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"id": layout.id, "place": storage.absolute(layout.place)}) + "\n")


def known_layouts() -> list[RecordLayout]:
    """Of the runs that were started on this machine, the oldest first; each once."""
    layouts = {}
    for path in (f"{known_path()}.old", known_path()):
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                with suppress(ValueError, KeyError, TypeError):
                    known = json.loads(line)
                    layouts[known["id"]] = RecordLayout(known["place"], known["id"])
    return [layouts[id_] for id_ in sorted(layouts)]


def is_job_file(named: str) -> bool:
    """Whether a command line names a job file, and not a folder or the id of a run."""
    return named.endswith((".yaml", ".yml"))


def places_of(job: Job) -> list[str]:
    """The folders in which the runs of a job are recorded."""
    return [job.output.path, *([job.train.workdir] if job.train else [])]


def runs_in(places: Iterable[str]) -> Iterator[Run]:
    """The runs that are recorded in these folders, the newest first."""
    layouts = [layout for place in places for layout in list_layouts(storage.absolute(place))]
    return _read(sorted(layouts, key=lambda layout: layout.id, reverse=True))


def find_runs(named: str) -> Iterator[Run]:
    """The runs of a job file or a folder, the newest first.

    Raises:
      UserError: if the job file is wrong.
    """
    return runs_in(places_of(load_job(named, sourced=False)) if is_job_file(named) else [named])


def known_runs() -> Iterator[Run]:
    """The runs that were started on this machine of late and are still recorded, the newest first."""
    for layout in known_layouts()[: -MOST_KNOWN - 1 : -1]:
        with suppress(BeamfeedError):  # one place that does not answer hides no other
            yield from _read([layout])


def job_of(run: Run) -> Job:
    """The job as it was kept, to find its work. A variable that is not set here is anything: no place hangs on it.

    Raises:
      UserError: if it is not there any more, or not understood.
    """
    try:
        text = storage.read_text(run.layout.job)
    except OSError:
        raise UserError(f"{run.layout.job}: cannot be read; name the job file instead of the run") from None
    unset = dict.fromkeys(set(_VARIABLE.findall(text)) - os.environ.keys(), "unset")
    os.environ.update(unset)
    try:
        return load_job(run.layout.job, sourced=False)
    finally:
        for name in unset:
            del os.environ[name]


def find_run(named: str) -> Run:
    """The run of this id or `FOLDER/ID`; of a folder or a job file, that which goes on, or else the newest.

    Raises:
      UserError: if there is none.
    """
    folder, _, last = named.rstrip("/").rpartition("/")
    if not ID.fullmatch(last):
        runs = list(find_runs(named))
        run = next(
            (candidate for candidate in runs if candidate.record.state() == "running"), runs[0] if runs else None
        )
    elif folder:
        run = next(_read([RecordLayout(storage.absolute(folder), last)]), None)
    else:
        run = next(_read(layout for layout in known_layouts() if layout.id == last), None)
    if run is None:
        raise UserError(f"{named}: no such run is known here; name its job file, or the folder that it writes to")
    return run


def _read(layouts: Iterable[RecordLayout]) -> Iterator[Run]:
    for layout in layouts:
        if (record := read_record(layout)) is not None:
            yield Run(layout, record)
