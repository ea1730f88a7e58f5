"""Names a job and its input by a hash, so that a rerun can tell that nothing changed."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import PydanticUndefined, to_jsonable_python

from beamfeed.contract import storage
from beamfeed.contract.config.features import own_functions
from beamfeed.contract.config.job import Job
from beamfeed.contract.config.prepare import STEPS
from beamfeed.contract.config.section import Section
from beamfeed.contract.config.task import own_metrics_of
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset import manifest
from beamfeed.contract.errors import UserError
from beamfeed.contract.own_code import code_digest
from beamfeed.contract.packages import fetched
from beamfeed.contract.storage.files import FileStat

# Raise it when preprocessing gives other bytes for the same job and files: a dataset of before is then preprocessed
# again. It does not stand for the format, which says whether a dataset can be read at all.
REVISION = 7
# Raise it when the steps of a training run get other windows for the same data and job: a run of before cannot go on.
ORDER = 2
# `output.shards: auto` writes a multiple of this many shards where the data allow: most clusters divide it. On how many
# workers somebody will train is not known when a dataset is written.
SHARD_MULTIPLE = 16
# What changes no byte of a dataset. All other keys count, also new ones: a needless run is better than old data.
NO_DATA: dict[str, Any] = {
    "name": True,
    "source": {"files": True},  # the files themselves count
    "output": {"path": True, "grow": True, "keep": True},
    "limits": {"max_rejected_fraction": True, "max_rejected_assets": True, "max_drift": True},
    "train": True,
    "sweep": True,
    "launch": True,
    "after": True,
}


def set_keys(section: Section, free: Mapping[str, Any] | bool = False) -> dict[str, Any]:
    """The keys of a section that say something else than their defaults, as JSON has them.

    So a new key with a default changes no dataset and no training run that was there. The other side of it: whoever
    changes a default raises `REVISION` (tests/contract/dataset/test_fingerprint_keys.py keeps the defaults). A section
    that is left out says nothing, also where a job fits it to its source, as `split`.

    Args:
      section: of a job.
      free: keys that do not count: True, or a mapping of those below.
    """
    below = free if isinstance(free, Mapping) else {}
    keys = {}
    for name, field in type(section).model_fields.items():
        skipped = below.get(name, False)
        value = getattr(section, name)
        left_out = isinstance(value, Section) and name not in section.model_fields_set
        if skipped is True or left_out:
            continue
        value = _plain(value, skipped)
        default = PydanticUndefined if field.is_required() else field.get_default(call_default_factory=True)
        if default is PydanticUndefined or value != _plain(default, skipped):
            keys[name] = value
    return keys


def _plain(value: Any, free: Mapping[str, Any] | bool) -> Any:
    """A value of a key as JSON has it, with the sections in it by `set_keys`."""
    if isinstance(value, Section):
        return set_keys(value, free)
    if isinstance(value, (list, tuple)):
        return [_plain(item, free) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item, free) for name, item in value.items()}
    return to_jsonable_python(value)


def prepared_keys(job: Job) -> dict[str, Any]:
    """What is said of how values are prepared, by key, such as `prepare.scale.per`; without what is left out."""
    return dict(leaves({"prepare": set_keys(job.prepare), "features": _plain(job.features, False)}))


def leaves(keys: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each key of sections in sections with its value, such as `prepare.scale.per`."""
    for name, value in keys.items():
        if isinstance(value, dict):  # an empty one says nothing
            yield from leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def check_prepared(job: Job, dataset: manifest.Manifest) -> None:
    """Raises UserError where a job prepares values in another way than the job of a dataset did, as far as it tells."""
    of_job = {f"windows.{key}": getattr(job.frame, key) for key in ("length", "stride")}
    of_dataset = {f"windows.{key}": getattr(dataset.windows, key) for key in ("length", "stride")}
    if dataset.prepared is not None:
        of_job, of_dataset = of_job | prepared_keys(job), of_dataset | dataset.prepared
    for key in sorted({*of_job, *of_dataset}):
        if of_job.get(key) != of_dataset.get(key):
            values = (str(of[key]) if key in of else "left out" for of in (of_job, of_dataset))
            ahead = ", the rows to predict included" if key == "windows.length" and dataset.rows_ahead else ""
            raise UserError(
                f"{key}: is {' in the job and '.join(values)} in the dataset{ahead}; use the job that it was made with"
            )


def data_fingerprint(job: Job, files: Iterable[FileStat], first: str = "") -> str:
    """The identity of a dataset, 64 hex digits.

    It covers every key that can change the shards, the code of the user's own
    steps, and path, size and modification time of each input file; not where the
    output goes, nor who writes it or trains on it, nor when the job gives up.

    Args:
      job: that is to write it.
      files: of its input.
      first: the fingerprint of the dataset whose statistics it has; empty where they are its own.

    Raises:
      UserError: if there is no such code, or no file that the source names.
    """
    digest = _digest_of_job(job)
    if first:
        digest.update(f"\nfirst {first}".encode())
    for stat in [*files, *files_beside(job)]:
        # A path need not be UTF-8.
        digest.update(f"\n{stat.path}\t{stat.size}\t{stat.mtime}".encode(errors="surrogateescape"))
    return digest.hexdigest()


def job_fingerprint(job: Job) -> str:
    """The identity of a job, whatever its files hold, 64 hex digits.

    Raises:
      UserError: if there is no code of the user's own that it names.
    """
    return _digest_of_job(job).hexdigest()


def _digest_of_job(job: Job) -> "hashlib._Hash":
    identity = {
        "format": manifest.FORMAT,
        "revision": REVISION,
        **set_keys(job, NO_DATA),
        "shard_multiple": SHARD_MULTIPLE if job.output.shards == "auto" else None,
    }
    functions = own_functions(job.features)
    if job.prepare.steps or functions:
        with fetched(job.launch.preprocess.packages) as packages:
            folders = [package.folder for package in packages]
            if job.prepare.steps:
                identity["steps"] = code_digest(job.prepare.steps, STEPS, folders)
            identity |= {key: code_digest([path], key, folders) for key, path in functions.items()}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode())


def files_beside(job: Job) -> Iterator[FileStat]:
    """The files that a source reads beside those that it lists."""
    for key, path in job.source.beside.items():
        try:
            yield storage.stat(path)
        except FileNotFoundError:
            raise UserError(f"{key}: {path}: there is no such file") from None


# Keys of `train` that may change between the starts of one training run, which then goes on: they change neither
# what is learned nor the order of the data. Metrics are free too, but for the one that is watched.
FREE: dict[str, Any] = {
    "epochs": True,
    "max_steps": True,
    "evaluate_every": True,
    "early_stopping": True,
    "workdir": True,
    "floor": True,
    "checkpoint": True,
    "writers": True,
    "review": True,
    "callbacks": True,
    "worker_timeout": True,
    "join_timeout": True,
    "devices": dict.fromkeys(("xla", "collectives", "deterministic", "accumulate"), True),
    "feed": dict.fromkeys(
        ("cache", "skip_corrupt", "lanes"), True
    ),  # the checkpoint holds the lanes, and no others fit
    "optimizer": dict.fromkeys(("learning_rate", "schedule", "weight_decay", "clip_norm"), True),
    "task": {"metrics": True, "outputs": {"metrics": True}},
}


def is_free(key: str) -> bool:
    """Whether a key of the job, `train.optimizer.learning_rate`, may change between the starts of a training run."""
    _, name, *rest = key.split(".")
    if name == "task":  # of any output
        return rest[-1:] == ["metrics"]
    free = FREE.get(name, False)
    return free is True or bool(free and rest and rest[0] in free)


def run_fingerprint(train: Train, data: str) -> str:
    """The identity of a training run: the data, their order and what is learned of them, 64 hex digits.

    Args:
      train: the section of the job.
      data: fingerprint of the dataset.
    """
    identity = set_keys(train, FREE)
    # Of one of Keras, its name in `watch` says it all; one of the user's own may be of any module.
    if (watched := own_metrics_of(train.task).get(train.watch.metric)) is not None:
        identity["watched"] = watched
    text = json.dumps({"data": data, "order": ORDER, "train": identity}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


# Keys of `train` that change nothing of a model that is trained in one go.
NO_MODEL: dict[str, Any] = dict.fromkeys(
    ("workdir", "floor", "checkpoint", "writers", "review", "worker_timeout", "join_timeout"), True
)


def model_fingerprint(train: Train, data: str) -> str:
    """The identity of a model that is trained in one go, 64 hex digits: of its run, and how long that is.

    Args:
      train: the section of the job.
      data: fingerprint of the dataset.
    """
    identity = {"run": run_fingerprint(train, data), "train": set_keys(train, NO_MODEL)}
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
