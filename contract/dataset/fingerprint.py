"""Names a job and its input by a hash, so that a rerun can tell that nothing changed."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

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
REVISION = 3
# `output.shards: auto` writes a multiple of this many shards where the data allow: most clusters divide it. On how many
# workers somebody will train is not known when a dataset is written.
SHARD_MULTIPLE = 16
# What changes no byte of a dataset. All other keys count, also new ones: a needless run is better than old data.
NO_DATA: dict[str, Any] = {
    "name": True,
    "source": {"files"},  # the files themselves count
    "output": {"path"},
    "limits": True,  # but for the one below
    "train": True,
    "launch": True,
}


def data_fingerprint(job: Job, files: Iterable[FileStat]) -> str:
    """The identity of a dataset, 64 hex digits.

    It covers every key that can change the shards, the code of the user's own
    steps, and path, size and modification time of each input file; not where the
    output goes, nor who writes it or trains on it, nor when the job gives up.

    Raises:
      UserError: if there is no such code, or no file that the source names.
    """
    what = {
        "format": manifest.FORMAT,
        "revision": REVISION,
        **{name: _dump(getattr(job, name), NO_DATA.get(name, ())) for name in Job.model_fields},
        "sort_memory_mb": job.limits.sort_memory_mb,  # an asset that needs more is rejected
        "shard_multiple": SHARD_MULTIPLE if job.output.shards == "auto" else None,
    }
    if job.prepare.scale.per == "asset" and job.prepare.scale.floor:
        what["floor_of"] = "usual"  # own divisor; once it was of the fleet's
    own = own_functions(job.features)
    if job.prepare.steps or own:
        with fetched(job.launch.preprocess.packages) as packages:
            folders = [package.folder for package in packages]
            if job.prepare.steps:
                what["steps"] = code_digest(job.prepare.steps, STEPS, folders)
            what |= {key: code_digest([path], key, folders) for key, path in own.items()}
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode())
    for stat in [*files, *_beside(job)]:
        digest.update(f"\n{stat.path}\t{stat.size}\t{stat.mtime}".encode())
    return digest.hexdigest()


def _beside(job: Job) -> Iterator[FileStat]:
    """The files that a source reads beside those that it lists."""
    for key, path in job.source.beside.items():
        try:
            yield storage.stat(path)
        except FileNotFoundError:
            raise UserError(f"{key}: {path}: there is no such file") from None


def _dump(value: Any, exclude: Any) -> Any:
    """A section, or a list or mapping of them, as JSON without the keys that do not count."""
    if exclude is True:
        return None
    if isinstance(value, list):
        return [_dump(one, exclude) for one in value]
    if isinstance(value, dict):
        return {name: _dump(one, exclude) for name, one in value.items()}
    return value.model_dump(mode="json", exclude=set(exclude)) if isinstance(value, Section) else value


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
    "callbacks": True,
    "worker_timeout": True,
    "join_timeout": True,
    "devices": {"xla", "collectives", "deterministic", "accumulate"},
    "feed": {"cache", "skip_corrupt"},
    "optimizer": {"learning_rate", "schedule", "weight_decay", "clip_norm"},
}


def is_free(key: str) -> bool:
    """Whether a key of the job, `train.optimizer.learning_rate`, may change between the starts of a training run."""
    _, name, *rest = key.split(".")
    free = FREE.get(name, False)
    return (
        free is True or (bool(free) and bool(rest) and rest[0] in free) or (name == "task" and rest[-1:] == ["metrics"])
    )


def run_fingerprint(train: Train, data: str) -> str:
    """The identity of a training run: the data and what is learned of them, 64 hex digits.

    Args:
      train: the section of the job.
      data: fingerprint of the dataset.
    """
    what = train.model_dump(mode="json", exclude=FREE)
    if what["optimizer"].get("ema") is None:  # as runs of before had none
        what["optimizer"].pop("ema", None)
    if what["feed"]["lanes"] is None:  # what runs of before had
        what["feed"]["lanes"] = 16
    elif what["feed"]["lanes"] >= 32:  # a round was as large as with 16
        what["feed"]["lanes"] = f"{what['feed']['lanes']} of larger rounds"
    if what["init"] is None:
        del what["init"]
    if not what["inputs"]:  # as runs of before had none
        del what["inputs"]
    for goal in [what["task"], *what["task"].get("outputs", {}).values()]:
        goal.pop("metrics", None)
    # Of one of Keras, its name in `watch` says it all; one of the user's own may be of any module.
    if (watched := own_metrics_of(train.task).get(train.watch.metric)) is not None:
        what["watched"] = watched
    text = json.dumps({"data": data, "train": what}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
