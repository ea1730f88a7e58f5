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

    @property
    def schema(self) -> str:
        """The tensorflow-metadata schema of the records, as text."""
        return storage.join(self.root, "schema.pbtxt")

    @property
    def stats(self) -> str:
        """Statistics of the training rows."""
        return storage.join(self.root, "stats.json")

    @property
    def transform_fn(self) -> str:
        """The folder that `tft.TFTransformOutput` reads."""
        return storage.join(self.root, "transform_fn")

    @property
    def graph(self) -> tuple[str, str]:
        """All folders of the transform graph."""
        return self.transform_fn, storage.join(self.root, "transformed_metadata")

    @property
    def raw_values(self) -> str:
        """What the values of a table's files become before the transform graph gets them."""
        return storage.join(self.root, "raw_values.json")

    @property
    def raw_rows(self) -> str:
        """Some rows as the files have them, and the fields that were made of them."""
        return storage.join(self.root, "raw_rows.parquet")

    @property
    def rejects(self) -> str:
        """What was set aside, one JSON line each."""
        return storage.join(self.root, "rejects", "part-00000.jsonl")

    @property
    def files(self) -> str:
        """Of a dataset that grows: the input files that it was made of."""
        return storage.join(self.root, FILES)

    @property
    def assets(self) -> str:
        """Of a dataset that grows: what is known of each asset that new files may go on with."""
        return storage.join(self.root, ASSETS)

    @property
    def learned(self) -> str:
        """Of a dataset that grows: what was learned of the files of the first run."""
        return storage.join(self.root, LEARNED)

    @property
    def beside_shards(self) -> tuple[str, ...]:
        """All files of a complete dataset but those of its shards, of the transform graph, and the one before."""
        of_growth = (self.files, self.assets, self.learned)
        return (self.schema, self.stats, self.raw_values, self.raw_rows, self.rejects, *of_growth)

    @property
    def listing(self) -> str:
        """The input files, one JSON line each; removed before publishing."""
        return storage.join(self.root, "tmp", "files.jsonl")

    @property
    def base(self) -> str:
        """Of a dataset that has grown: its manifest before the last run added to it."""
        return storage.join(self.root, BASE)

    @property
    def again(self) -> str:
        """Why new files cannot be added, so that all have to be prepared again: found by a run that then ended."""
        return storage.join(self.root, "again.txt")

    @property
    def temporary(self) -> str:
        """Intermediate files of the running job; removed before publishing."""
        return storage.join(self.root, "tmp")

    @property
    def traced(self) -> str:
        """The transform graph before it is filled; removed before publishing."""
        return storage.join(self.temporary, "traced")

    @property
    def scratch(self) -> str:
        """Copies of input in another order; removed before publishing."""
        return storage.join(self.temporary, "scratch")

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

    out: str

    @property
    def results(self) -> str:
        """A row for each group that was trained."""
        return storage.join(self.out, "results.parquet")

    @property
    def rejects(self) -> str:
        """The groups that were not, one JSON line each."""
        return storage.join(self.out, REJECTS)

    @property
    def unpacked(self) -> str:
        """The shards of a compressed dataset as they are read; removed at the end."""
        return storage.join(self.out, "_unpacked")

    def group(self, name: str) -> str:
        """The folder of a group, whatever characters its name has; of one without any, `%`, which no other has."""
        safe = quote(name, safe=" ") or "%"
        safe = safe.replace(".", "%2E") if not safe.strip(". ") else safe
        if len(safe) > NAME_BYTES:
            safe = f"{safe[:NAME_BYTES]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        return storage.join(self.out, MODELS, safe)

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

    def _name(self, *names: str) -> str:
        return storage.join(self.workdir, *names)

    @property
    def run(self) -> str:
        """What this folder is a run of: fingerprints of the data and of the model."""
        return self._name("run.json")

    @property
    def job(self) -> str:
        """The job file, where workers in a cloud have no other."""
        return self._name("job.yaml")

    @property
    def lock(self) -> str:
        """Only while a run trains."""
        return self._name(LOCK)

    @property
    def complete(self) -> str:
        """Written last: the result of a finished training run."""
        return self._name("complete.json")

    @property
    def metrics(self) -> str:
        """One JSON line for each epoch."""
        return self._name("metrics.jsonl")

    @property
    def checkpoints(self) -> str:
        """The folder of the last checkpoints."""
        return self._name("checkpoints")

    @property
    def best(self) -> str:
        """The folder of the best weights."""
        return self._name("best")

    @property
    def model(self) -> str:
        """The Keras model."""
        return self._name("model.keras")

    @property
    def saved_model(self) -> str:
        """The folder of the SavedModel."""
        return self._name("saved_model")

    @property
    def predictions(self) -> str:
        """The folder of what the model says of its dataset."""
        return self._name("predictions")

    @property
    def each(self) -> str:
        """The folder of models of its dataset's groups."""
        return self._name("each")

    @property
    def scores(self) -> str:
        """The folder of the scores of its rows."""
        return self._name("scores")

    @property
    def report_page(self) -> str:
        """What `beamfeed report` tells of the dataset and the model."""
        return self._name("report.html")

    @property
    def report(self) -> str:
        """The picture of losses, windows and errors."""
        return self._name("report.png")

    @property
    def review(self) -> str:
        """How good the best weights are, beside what costs nothing."""
        return self._name("review.json")

    @property
    def assets(self) -> str:
        """The error of each asset, as a table."""
        return self._name("assets.csv")

    @property
    def metrics_csv(self) -> str:
        """The same as a table."""
        return self._name("metrics.csv")

    @property
    def mlflow(self) -> str:
        """Which run on the MLflow server this is."""
        return self._name("mlflow.json")

    @property
    def rates(self) -> str:
        """The picture of the loss at learning rates that were tried."""
        return self._name("learning_rate.png")

    @property
    def floor(self) -> str:
        """The working folder of the linear model that this one is compared with, see `train.floor`."""
        return self._name("floor")

    @property
    def tensorboard(self) -> str:
        """The folder of TensorBoard's events."""
        return self._name("tensorboard")

    @property
    def logs(self) -> str:
        """The folder of the output of all workers but the first."""
        return self._name("logs")
