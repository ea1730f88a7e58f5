"""Names a job and its input by a hash, so that a rerun can tell that nothing changed."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from beamfeed.contract.config.job import Job
from beamfeed.contract.config.task import own_metrics_of
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset import manifest
from beamfeed.contract.storage.files import FileStat

MIN_SHARDS = 16  # output.shards: auto writes at least this many where the data allow: enough for most clusters


def shard_multiple(job: Job) -> int:
    """`auto` writes a multiple of this many shards, so that they divide among the trainer's workers."""
    return max(MIN_SHARDS, job.launch.train.workers)


def data_fingerprint(job: Job, files: Iterable[FileStat]) -> str:
    """The identity of a dataset, 64 hex digits.

    It covers every key that can change the shards, and path, size and
    modification time of each input file; not where the output goes, nor how many
    workers write it.
    """
    what = {
        "format": manifest.FORMAT,
        "source": job.source.model_dump(mode="json", exclude={"files"}),
        "prepare": job.prepare.model_dump(mode="json"),
        "windows": job.windows.model_dump(mode="json"),
        "label": [label.model_dump(mode="json") for label in job.label],
        "split": job.split.model_dump(mode="json"),
        "output": job.output.model_dump(mode="json", exclude={"path"}),
        "sort_memory_mb": job.limits.sort_memory_mb,
        "shard_multiple": shard_multiple(job) if job.output.shards == "auto" else None,
    }
    digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode())
    for stat in files:
        digest.update(f"\n{stat.path}\t{stat.size}\t{stat.mtime}".encode())
    return digest.hexdigest()


# Keys of `train` that may change between the starts of one training run, which then goes on: they change neither
# what is learned nor the order of the data. Metrics are free too, but for the one that is watched.
FREE: dict[str, Any] = {
    "epochs": True,
    "early_stopping": True,
    "workdir": True,
    "checkpoint": True,
    "worker_timeout": True,
    "devices": {"xla", "collectives", "deterministic"},
    "feed": {"cache", "skip_corrupt"},
    "optimizer": {"learning_rate", "schedule", "weight_decay", "clip_norm"},
}


def run_fingerprint(train: Train, data: str) -> str:
    """The identity of a training run: the data and what is learned of them, 64 hex digits.

    Args:
      train: the section of the job.
      data: fingerprint of the dataset.
    """
    what = train.model_dump(mode="json", exclude=FREE)
    for goal in [what["task"], *what["task"].get("outputs", {}).values()]:
        goal.pop("metrics", None)
    # Of one of Keras, its name in `watch` says it all; one of the user's own may be of any module.
    if (watched := own_metrics_of(train.task).get(train.watch.metric)) is not None:
        what["watched"] = watched
    text = json.dumps({"data": data, "train": what}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
