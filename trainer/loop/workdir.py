"""The rule of the working folder: it holds one training run, and says which.

`run.json` names the training run by its fingerprint. Another job in the same folder
is a mistake, told before anything is read or written.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from pydantic import ValidationError

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.fingerprint import is_free, run_fingerprint
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.recent import shards_digest
from beamfeed.contract.dataset.result import TrainResult, read_result
from beamfeed.contract.errors import UserError
from beamfeed.contract.storage import lock
from beamfeed.trainer.loop.state import is_over

LOOK_SECONDS = 2.0  # from one look at a lock in a bucket to the next


def find_finished(job: TrainingJob, manifest: Manifest) -> TrainResult | None:
    """The result of this training run, if the folder holds one that has run as long as the job asks.

    Raises:
      UserError: if the folder holds another training run.
    """
    names = RunLayout(job.train.workdir)
    fingerprint = run_fingerprint(job.train, manifest.fingerprint)
    run = _read_json(names.run)
    if run is None:
        return None
    if run.get("fingerprint") != fingerprint:
        if run.get("data") in manifest.fingerprints and run["data"] != manifest.fingerprint:
            raise UserError(
                f"{names.workdir}: holds a training run on the dataset as it was before; go on from its weights "
                f"with --set train.init.from={names.workdir} and another train.workdir, or start again with --restart"
            )
        counting = [line for line in changes_of(job) if not is_free(line.partition(":")[0])]
        difference = "other data" if run.get("data") != manifest.fingerprint else "; ".join(counting[:5])
        raise UserError(
            f"{names.workdir}: holds another training run ({difference or 'of another version'}); "
            "choose another train.workdir, or start again with --restart"
        )
    result = read_result(names.workdir)
    if (
        result is not None
        and result.fingerprint == fingerprint
        and is_over(result.epochs, result.steps, result.stale, job.train)
    ):
        return result
    if run.get("shards") not in (None, shards_digest(manifest)):
        raise UserError(
            f"{names.workdir}: holds a training run on shards (train.on) that beamfeed compact has merged since; "
            "choose another train.workdir, or start again with --restart"
        )
    return None


@contextmanager
def held(workdir: str, alive: Callable[[str], None]) -> Iterator[None]:
    """Holds the folder for one training run, which is the chief's to do; `alive` is told what this does while it waits.

    In a bucket the lock of a run that was killed stays for a minute; it is waited for, as whoever starts a killed run
    again does not.

    Raises:
      UserError: if another run trains there.
    """
    path = RunLayout(workdir).lock
    end = time.monotonic() + (lock.LASTS_SECONDS + lock.RENEWED_SECONDS if storage.is_remote(path) else 0)
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(lock.hold(path, use=lock.TRAINING))
                break
            except lock.Busy:
                if time.monotonic() >= end:
                    raise
                alive("waiting for the lock of the working folder")
                time.sleep(LOOK_SECONDS)
        yield


def was_done(workdir: str, once: str) -> bool:
    """Whether a start with this name has removed, or gone back to, what it was to; started again, it just goes on.

    So whoever starts workers again after a failure may give the same options: they count once.
    """
    run = _read_json(RunLayout(workdir).run) if once else None
    return run is not None and run.get("once") == once


def note_done(workdir: str, once: str) -> None:
    """Says that the start with this name has done what it was to."""
    path = RunLayout(workdir).run
    storage.write_text(path, json.dumps({**(_read_json(path) or {}), "once": once}, indent=1) + "\n")


def claim(
    job: TrainingJob, manifest: Manifest, restart: bool, once: str = "", watched: Mapping[str, str] | None = None
) -> list[str]:
    """Writes into the folder which training it holds; with `restart`, removes the files of an earlier one.

    From here on it is not finished, though it was one of fewer epochs. For the chief alone, while the other workers
    wait. `once` names a start with `restart`; `watched` is what decides which weights are best, its `metric` and
    `mode`, for who compares runs.

    Returns:
      What the job says otherwise than at the last start of this training run, a line each.
    """
    names = RunLayout(job.train.workdir)
    done = restart or was_done(names.workdir, once)
    storage.remove_file(names.complete)  # first: else what is cut off here would count as finished
    if restart:
        remove_run(names)
    changes = changes_of(job)
    run: dict[str, Any] = {
        "fingerprint": run_fingerprint(job.train, manifest.fingerprint),
        "job": job.name,
        "data": manifest.fingerprint,
        "train": _as_json(job.train),
        **({"shards": shards_digest(manifest)} if job.train.on else {}),
        **({"once": once} if done else {}),
        **({"watched": dict(watched)} if watched else {}),
    }
    storage.write_text(names.run, json.dumps(run, indent=1) + "\n")
    return changes


def changes_of(job: TrainingJob) -> list[str]:
    """What the job says otherwise than at the last start of the training run that its folder holds, a line each."""
    before = (_read_json(RunLayout(job.train.workdir).run) or {}).get("train")
    if not isinstance(before, dict):
        return []
    with suppress(ValidationError):  # where a key of it is no more, it stays as it is
        before = _as_json(Train.model_validate(before))  # keys that are newer than the run have their defaults
    return describe_changes(before, _as_json(job.train))


def _as_json(train: Train) -> dict[str, Any]:
    """The section with all its keys, as a job file calls them."""
    return train.model_dump(mode="json", by_alias=True)


def describe_changes(before: Any, after: Any, key: str = "train") -> list[str]:
    """Each key that two sections of jobs differ in, but for where the run is: `train.epochs: was 2, is now 3`."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [name for name in dict.fromkeys([*after, *before]) if f"{key}.{name}" != "train.workdir"]
        return [line for name in keys for line in describe_changes(before.get(name), after.get(name), f"{key}.{name}")]
    return [] if before == after else [f"{key}: was {_shown(before)}, is now {_shown(after)}"]


def _shown(value: Any) -> str:
    """A value as a job file has it."""
    return "not set" if value is None else value if isinstance(value, str) else json.dumps(value).replace('"', "")


def remove_run(names: RunLayout) -> None:
    """Removes what a training run wrote beside its result, its name last; logs stay."""
    import tensorflow as tf  # loaded anyway where a run begins; storage.remove_tree passes over what it cannot remove

    for folder in (names.checkpoints, names.best, names.saved_model, names.tensorboard):
        if tf.io.gfile.exists(folder):
            tf.io.gfile.rmtree(folder)
    files = [names.review, names.assets, names.report, names.metrics, names.metrics_csv, names.mlflow, names.model]
    for path in (*files, names.run):
        storage.remove_file(path)


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        value = json.loads(storage.read_text(path))
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise UserError(f"{path}: is inside a file, train.workdir must be a folder") from None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserError(f"{path}: cannot be parsed; start again with --restart")
    return value
