"""Every file and folder name of a dataset and of a working folder: the only place that knows them.

<output>/manifest.json              written last, atomically
<output>/lock.json                  only while a run preprocesses
<output>/runs/                      record, job and log of each run; of those that train, in their working folder
<output>/data-<fingerprint>/
    train/part-00000-of-00016.tfrecord ...   train/blocks.parquet   eval/ ...   test/ ...
    (with output.partition_by, train/country=DE/part-00000-of-00016.tfrecord ...)
    (of a dataset that has grown, train/kept-00003-of-00016.tfrecord: records of the dataset before, copied)
    schema.pbtxt  stats.json  transform_fn/  rejects/part-00000.jsonl   (of a table, raw_values.json; raw_rows.parquet)
"""

import hashlib
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from beamfeed.contract import storage

MANIFEST = "manifest.json"
LOCK = "lock.json"
RUNS = "runs"
DATA_PREFIX = "data-"
SHARD_PREFIX, KEPT_PREFIX = "part", "kept"
SHARD_SUFFIX = ".tfrecord"
BLOCKS = "blocks.parquet"
FILES, ASSETS, LEARNED, BASE = "files.parquet", "assets.parquet", "learned.json", "base.json"  # of a dataset that grows
# Of exports and predictions; readers of data files pass over names with _.
SUCCESS = "_SUCCESS"  # is there when all files are; Spark and others write it, too
DESCRIPTION = "_export.json"  # what was written
REJECTS = "_rejects.jsonl"  # what was set aside of the files that predictions are for
MODELS, NAME_BYTES = "models", 180  # of models by group; the most of a group's name in a file's


def shard_name(index: int, count: int, suffix: str = SHARD_SUFFIX, prefix: str = SHARD_PREFIX) -> str:
    """A shard's name in its split's folder, as Beam names shards: `part-00002-of-00016.tfrecord`."""
    return f"{prefix}-{index:05d}-of-{count:05d}{suffix}"


def manifest_path(output: str) -> str:
    """The manifest of the dataset at `output`."""
    return storage.join(output, MANIFEST)


def lock_path(output: str) -> str:
    """The lock of the dataset at `output`."""
    return storage.join(output, LOCK)


class Inside:
    """An attribute of a layout: the path of this file or folder in the layout's folder.

    Args:
      names: of the folders it is in, and its own.
    """

    def __init__(self, *names: str):
        self._names = names

    def __get__(self, layout: Any, owner: type) -> str:
        """The path below the `root` of the layout."""
        return storage.join(layout.root, *self._names)


@dataclass(frozen=True)
class RecordLayout:
    """The names of what is kept of one run beside what it makes: a dataset, or a training run."""

    place: str  # the folder of that
    id: str

    def _name(self, suffix: str) -> str:
        return storage.join(self.place, RUNS, self.id + suffix)

    @property
    def record(self) -> str:
        """How it went."""
        return self._name(".json")

    @property
    def job(self) -> str:
        """The job file, with all that was set."""
        return self._name(".yaml")

    @property
    def log(self) -> str:
        """What was printed."""
        return self._name(".log")

    @property
    def cancel(self) -> str:
        """Asks its launcher, wherever that is, to end it."""
        return self._name(".cancel")


@dataclass(frozen=True)
class DataLayout:
    """The names inside one data folder of the dataset at `output`."""

    output: str
    folder: str  # data-<fingerprint>

    @classmethod
    def of(cls, output: str, fingerprint: str) -> "DataLayout":
        """The layout of the data with this fingerprint."""
        return cls(output, DATA_PREFIX + fingerprint[:16])

    @property
    def root(self) -> str:
        """The data folder."""
        return storage.join(self.output, self.folder)

    schema = Inside("schema.pbtxt")  # the tensorflow-metadata schema of the records, as text
    stats = Inside("stats.json")  # statistics of the training rows
    transform_fn = Inside("transform_fn")  # the folder that `tft.TFTransformOutput` reads
    # What the values of a table's files become before the transform graph gets them
    raw_values = Inside("raw_values.json")
    raw_rows = Inside("raw_rows.parquet")  # some rows as the files have them, and the fields that were made of them
    files = Inside(FILES)  # of a dataset that grows: the input files that it was made of
    assets = Inside(ASSETS)  # of a dataset that grows: what is known of each asset that new files may go on with
    learned = Inside(LEARNED)  # of a dataset that grows: what was learned of the files of the first run
    listing = Inside("tmp", "files.jsonl")  # the input files, one JSON line each; removed before publishing
    base = Inside(BASE)  # of a dataset that has grown: its manifest before the last run added to it
    # Why new files cannot be added, so that all have to be prepared again: found by a run that then ended
    again = Inside("again.txt")
    temporary = Inside("tmp")  # intermediate files of the running job; removed before publishing
    traced = Inside("tmp", "traced")  # the transform graph before it is filled; removed before publishing
    scratch = Inside("tmp", "scratch")  # copies of input in another order; removed before publishing

    @property
    def rejects(self) -> str:
        """What was set aside, one JSON line each."""
        return storage.join(self.root, "rejects", "part-00000.jsonl")

    @property
    def graph(self) -> tuple[str, str]:
        """All folders of the transform graph."""
        return self.transform_fn, storage.join(self.root, "transformed_metadata")

    @property
    def beside_shards(self) -> tuple[str, ...]:
        """All files of a complete dataset but those of its shards, of the transform graph, and the one before."""
        of_growth = (self.files, self.assets, self.learned)
        return (self.schema, self.stats, self.raw_values, self.raw_rows, self.rejects, *of_growth)

    def split(self, split: str) -> str:
        """The folder of a split."""
        return storage.join(self.root, split)

    def blocks(self, split: str) -> str:
        """The index of a split's blocks."""
        return storage.join(self.root, split, BLOCKS)

    def shard(self, split: str, index: int, count: int, folder: str = "", *, is_copy: bool = False) -> str:
        """The path of a shard.

        Args:
          split: it is in.
          index: of it.
          count: of all.
          folder: of its partition below the split's, such as `country=DE`.
          is_copy: whether its records are those of a dataset before.
        """
        name = shard_name(index, count, prefix=KEPT_PREFIX if is_copy else SHARD_PREFIX)
        return storage.join(self.root, split, *([folder] if folder else []), name)

    def attempt(self, split: str, index: int) -> str:
        """A path that no other attempt to write this shard uses."""
        return storage.join(self.temporary, f"{split}-{index:05d}-{uuid.uuid4().hex}")


@dataclass(frozen=True)
class EachLayout:
    """The names inside the folder of models that were trained one for each group."""

    root: str  # the folder of all

    results = Inside("results.parquet")  # a row for each group that was trained
    rejects = Inside(REJECTS)  # the groups that were not, one JSON line each
    unpacked = Inside("_unpacked")  # the shards of a compressed dataset as they are read; removed at the end

    def group(self, name: str) -> str:
        """The folder of a group, whatever characters its name has; of one without any, `%`, which no other has."""
        safe = quote(name, safe=" ") or "%"
        safe = safe.replace(".", "%2E") if not safe.strip(". ") else safe
        if len(safe) > NAME_BYTES:
            safe = f"{safe[:NAME_BYTES]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        return storage.join(self.root, MODELS, safe)

    def result(self, name: str) -> str:
        """Written last: what came of a group."""
        return storage.join(self.group(name), "result.json")

    def saved_model(self, name: str) -> str:
        """The folder of a group's SavedModel."""
        return RunLayout(self.group(name)).saved_model


@dataclass(frozen=True)
class RunLayout:
    """The names inside `train.workdir`."""

    workdir: str

    @property
    def root(self) -> str:
        """The working folder."""
        return self.workdir

    run = Inside("run.json")  # what this folder is a run of: fingerprints of the data and of the model
    job = Inside("job.yaml")  # the job file, where workers in a cloud have no other
    lock = Inside(LOCK)  # only while a run trains
    complete = Inside("complete.json")  # written last: the result of a finished training run
    metrics = Inside("metrics.jsonl")  # one JSON line for each epoch
    checkpoints = Inside("checkpoints")  # the folder of the last checkpoints
    best = Inside("best")  # the folder of the best weights
    model = Inside("model.keras")  # the Keras model
    saved_model = Inside("saved_model")  # the folder of the SavedModel
    predictions = Inside("predictions")  # the folder of what the model says of its dataset
    each = Inside("each")  # the folder of models of its dataset's groups
    scores = Inside("scores")  # the folder of the scores of its rows
    report_page = Inside("report.html")  # what `beamfeed report` tells of the dataset and the model
    report = Inside("report.png")  # the picture of losses, windows and errors
    review = Inside("review.json")  # how good the best weights are, beside what costs nothing
    assets = Inside("assets.csv")  # the error of each asset, as a table
    metrics_csv = Inside("metrics.csv")  # the same as a table
    mlflow = Inside("mlflow.json")  # which run on the MLflow server this is
    rates = Inside("learning_rate.png")  # the picture of the loss at learning rates that were tried
    floor = Inside("floor")  # the working folder of the linear model that this one is compared with, see `train.floor`
    tensorboard = Inside("tensorboard")  # the folder of TensorBoard's events
    logs = Inside("logs")  # the folder of the output of all workers but the first
