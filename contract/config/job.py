"""The job file: one strict model per section. `beamfeed.contract.config.load` reads it from YAML.

Every model forbids unknown keys, is frozen, and says in each field's description
what `beamfeed schema` tells an editor.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from beamfeed.contract.config.duration import parse_duration

Fraction = Annotated[float, Field(ge=0, le=1)]
Duration = str | int | float
SplitName = Literal["train", "eval", "test"]
SUFFIXES = (".parquet", ".csv", ".csv.gz")  # of the files that a source reads
SPLITS: tuple[SplitName, ...] = ("train", "eval", "test")


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, protected_namespaces=())


class AssetFrom(Section):
    """Which rows belong to one asset (a machine, a sensor, a patient)."""

    from_: Literal["path"] | None = Field(None, alias="from", description="path: each file's path names its asset.")
    pattern: str | None = Field(
        None,
        description="Regular expression found in the path; its named groups are columns of the path, "
        "and the group 'asset' names the asset. Without it the file's stem does.",
    )
    column: str | None = Field(None, description="A column of the files that names the asset of each row.")

    @field_validator("pattern")
    @classmethod
    def _pattern_names_asset(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            groups = re.compile(value).groupindex
        except re.error as error:
            raise ValueError(f"{value!r} is not a regular expression: {error}") from None
        if not groups:
            raise ValueError(f"{value!r} has no named group such as (?P<asset>[^/]+)")
        return value

    @model_validator(mode="after")
    def _one_way(self) -> "AssetFrom":
        if (self.from_ is None) == (self.column is None):
            raise ValueError("give either 'from: path' or 'column: <name>'")
        if self.from_ and self.pattern and "asset" not in re.compile(self.pattern).groupindex:
            raise ValueError(f"pattern {self.pattern!r} has no group named 'asset', such as (?P<asset>[^/]+)")
        return self


class TimeColumn(Section):
    column: str = Field(description="The column that orders the rows of an asset.")
    unit: Literal["ns", "us", "ms", "s", "m", "h", "d"] | None = Field(
        None,
        description="The unit of a numeric column. Timestamps need none; without one, durations are plain numbers.",
    )


class TimeseriesSource(Section):
    kind: Literal["timeseries"] = Field(description="What the files hold.")
    files: str = Field(description="Local or gs:// file, glob (** crosses folders) or folder; .parquet .csv .csv.gz")
    asset: AssetFrom = Field(default_factory=lambda: AssetFrom(**{"from": "path"}))
    time: TimeColumn
    features: list[str] = Field(min_length=1, description="Names and globs of the numeric columns to train on.")
    prune: Annotated[int, Field(ge=1)] | None = Field(None, description="Only the first N assets: a smoke run.")


class Missing(Section):
    """What happens to missing values, NaN and infinity."""

    fill: Literal["forward", "linear", "constant", "drop"] = Field(
        "forward",
        description="forward repeats the last value, linear draws a line between neighbours, constant puts 'value', "
        "drop leaves the row out.",
    )
    limit: Annotated[int, Field(ge=1, le=100_000)] = Field(
        5,
        description="forward fills at most this many rows of a run of missing ones; linear fills only runs up to it.",
    )
    then: Literal["drop", "constant"] = Field("drop", description="What happens to rows still missing a value.")
    value: float = Field(0.0, description="The constant, in scaled units.", allow_inf_nan=False)


class Resample(Section):
    every: Duration = Field(description="The step of the regular time grid: 1s, 250ms, or a number.")
    how: Literal["mean", "first", "last", "min", "max"] = Field("mean", description="One row from those in a step.")

    @field_validator("every")
    @classmethod
    def _every(cls, value: Duration) -> Duration:
        parse_duration(value)
        return value


class Scale(Section):
    how: Literal["standard", "minmax", "none"] = "standard"
    per: Literal["fleet", "asset"] = Field(
        "fleet", description="fleet: statistics of all training rows. asset: of each asset's own rows."
    )


class Prepare(Section):
    missing: Missing = Missing()
    resample: Resample | None = None
    max_gap: Duration | None = Field(None, description="No window crosses a longer step in time.")
    scale: Scale = Scale()

    @field_validator("max_gap")
    @classmethod
    def _max_gap(cls, value: Duration | None) -> Duration | None:
        if value is not None:
            parse_duration(value)
        return value


class Windows(Section):
    length: Annotated[int, Field(ge=1, le=1_000_000)] = Field(description="Rows in a window.")
    stride: Annotated[int, Field(ge=1, le=1_000_000)] = Field(1, description="Rows from one window to the next.")


class Split(Section):
    by: Literal["asset", "time", "column"] = Field(
        "asset",
        description="asset: whole assets, by a seeded hash of the name. time: the first part of each asset's time "
        "trains. column: by the values of a column of the file, or of a named group of source.asset.pattern.",
    )
    column: str | None = Field(None, description="With by: column, its name.")
    train: Fraction | list[str] = Field(0.8, description="A fraction; with by: column, a list of values.")
    eval: Fraction | list[str] = Field(0.1, description="A fraction; with by: column, a list of values.")
    test: Fraction | list[str] = Field(0.1, description="A fraction; with by: column, a list of values.")
    seed: int = 7

    @model_validator(mode="after")
    def _fits(self) -> "Split":
        parts = {name: getattr(self, name) for name in SPLITS}
        if self.by == "column":
            if self.column is None:
                raise ValueError("by: column needs 'column: <name>'")
            # What was not written is empty, not a default fraction.
            for name, part in parts.items():
                if name not in self.model_fields_set:
                    object.__setattr__(self, name, [])
                elif not isinstance(part, list):
                    raise ValueError(f"by: column needs a list of values for {name}, not {part!r}")
            values = [value for name in SPLITS for value in getattr(self, name)]
            if not self.train:
                raise ValueError("by: column needs a list of values for train")
            twice = {value for value in values if values.count(value) > 1}
            if twice:
                raise ValueError(f"the value {sorted(twice)[0]!r} is in more than one split")
            return self
        if self.column is not None:
            raise ValueError(f"'column' goes with by: column, not by: {self.by}")
        for name, part in parts.items():
            if isinstance(part, list):
                raise ValueError(f"by: {self.by} needs a fraction for {name}, not a list")
        total = sum(parts.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"train + eval + test is {total:g}, it must be 1")
        if not parts["train"]:
            raise ValueError("train is 0, there would be nothing to train on")
        return self


class Output(Section):
    path: str = Field(min_length=1, description="The folder of the prepared data set, local or gs://")
    records: Literal["segments", "windows"] = Field(
        "segments",
        description="segments: a record is a run of rows that the trainer frames into windows (smaller, faster). "
        "windows: one record per window, for readers that expect it.",
    )
    compression: Literal["none", "gzip"] = "none"
    shards: Literal["auto"] | Annotated[int, Field(ge=1, le=100_000)] = Field(
        "auto", description="Files per split. auto: about 128 MB each and enough to share among workers."
    )


class Limits(Section):
    rejected: Fraction = Field(0.01, description="The fraction of assets that may be set aside before the job fails.")
    sort_memory_mb: Annotated[int, Field(ge=0)] = Field(
        512, description="An asset whose rows are not in order of time is sorted in memory up to this size."
    )


class RecurrentAutoencoder(Section):
    name: Literal["recurrent_autoencoder"]
    cell: Literal["lstm", "gru"] = "lstm"
    units: list[Annotated[int, Field(ge=1)]] = Field([64], min_length=1, description="Units of each layer.")
    latent: Annotated[int, Field(ge=1)] = Field(16, description="Size of the state that a window is compressed to.")


class OwnModel(Section):
    """A model of the user's own. Only the trainer imports its module."""

    class_: str = Field(
        alias="class", description="package.module:Class, built as Class(length=..., features=..., **args)."
    )
    args: dict[str, Any] = Field({}, description="Further keyword arguments of the class.")

    @model_validator(mode="before")
    @classmethod
    def _only_class_and_args(cls, value: Any) -> Any:
        if isinstance(value, dict):
            if "name" in value:
                raise ValueError("give either 'name', for a model of ours, or 'class', for one of your own")
            if unknown := [str(key) for key in value if key not in ("class", "args")]:
                raise ValueError(f"unknown key {', '.join(unknown)} beside 'class' (allowed: class, args)")
        return value

    @field_validator("class_")
    @classmethod
    def _names_module_and_class(cls, value: str) -> str:
        module, colon, name = value.partition(":")
        if not colon or not all(part.isidentifier() for part in [*module.split("."), name]):
            raise ValueError(f"{value!r} must be module:Class, such as my_package.my_module:MyModel")
        return value

    @field_validator("args")
    @classmethod
    def _shape_is_given(cls, value: dict[str, Any]) -> dict[str, Any]:
        if taken := [key for key in ("length", "features") if key in value]:
            raise ValueError(f"{' and '.join(taken)}: the data set says this, leave it out")
        return value


class Feed(Section):
    batch: Annotated[int, Field(ge=1)] = Field(256, description="Windows in a step, over all workers together.")
    shuffle: Annotated[int, Field(ge=0)] = Field(
        10_000, description="Windows mixed at a time, as far as their rows fit in 64 MB; 0 keeps the order."
    )
    cache: Literal["none", "memory", "file"] = "none"
    lanes: Annotated[int, Field(ge=1)] = Field(
        16,
        description="Places of the data that each batch is drawn from; more workers than lanes read some data twice.",
    )
    skip_corrupt: bool = Field(False, description="Pass over a damaged rest of a shard instead of stopping.")
    seed: int = 7


class Schedule(Section):
    name: Literal["constant", "linear", "cosine", "exponential"] = Field(
        "constant", description="How the rate falls after the warm-up."
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="Steps in which the rate rises from 0.")
    decay_steps: Annotated[int, Field(ge=1)] | None = Field(None, description="Steps in which it falls; then it stays.")
    final: Fraction = Field(0.01, description="What is left of the rate in the end.")

    @model_validator(mode="after")
    def _says_how_long(self) -> "Schedule":
        if (self.name != "constant") != (self.decay_steps is not None):
            needs = "goes with a name that is not constant" if self.decay_steps else f"is missing: {self.name} needs it"
            raise ValueError(f"decay_steps {needs}")
        if self.name == "exponential" and not self.final:
            raise ValueError("final is 0, which exponential never reaches")
        return self


class Optimizer(Section):
    name: Literal["adam", "adamw", "sgd", "rmsprop"] = "adam"
    learning_rate: Annotated[float, Field(gt=0)] = Field(0.001, description="The highest, if there is a schedule.")
    schedule: Schedule | None = None
    weight_decay: Annotated[float, Field(ge=0)] | None = Field(
        None, description="Share of each weight that a step takes off, times the learning rate (adamw: 0.004)."
    )
    clip_norm: Annotated[float, Field(gt=0)] | None = Field(
        None, description="The gradients of a step are scaled down to this norm, all together."
    )


class EarlyStopping(Section):
    patience: Annotated[int, Field(ge=1)] = Field(3, description="Epochs without a better eval loss before stopping.")
    min_delta: Annotated[float, Field(ge=0)] = 0.0


class Checkpoint(Section):
    every: Duration = Field("5m", description="Time from one checkpoint to the next; each epoch ends with one.")
    every_steps: Annotated[int, Field(ge=1)] | None = Field(None, description="Steps from one to the next, as well.")
    keep: Annotated[int, Field(ge=1)] = Field(3, description="How many of the last ones stay.")

    @field_validator("every")
    @classmethod
    def _every(cls, value: Duration) -> Duration:
        parse_duration(value)
        return value


class Devices(Section):
    """How the trainer uses its processors."""

    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    xla: bool = Field(False, description="Compile each step with XLA.")
    collectives: Literal["auto", "ring", "nccl"] = Field("auto", description="How workers exchange gradients.")
    deterministic: bool = Field(False, description="Only operations that give the same bits each time (slow on GPUs).")


class Train(Section):
    model: RecurrentAutoencoder | OwnModel
    feed: Feed = Feed()
    epochs: Annotated[int, Field(ge=1)] = 20
    optimizer: Optimizer = Optimizer()
    early_stopping: EarlyStopping | None = None
    checkpoint: Checkpoint = Checkpoint()
    devices: Devices = Devices()
    watchdog: Duration = Field("2m", description="How long a worker waits for the others before it gives up.")
    seed: int = Field(7, description="Seed of the first weights.")
    workdir: str = Field(min_length=1, description="The folder of checkpoints, logs and the exported model.")

    @field_validator("watchdog")
    @classmethod
    def _watchdog(cls, value: Duration) -> Duration:
        parse_duration(value)
        return value

    @field_validator("model", mode="before")
    @classmethod
    def _model_by_its_key(cls, value: Any) -> Any:
        if isinstance(value, Section):
            return value
        if not isinstance(value, dict) or not {"name", "class"} & set(value):
            raise ValueError("needs 'name: recurrent_autoencoder', or 'class: module:Class' for a model of your own")
        return (OwnModel if "class" in value else RecurrentAutoencoder).model_validate(value)


GcsPath = Annotated[str, Field(pattern=r"^gs://[a-z0-9][a-z0-9._-]+[a-z0-9](/.*)?$")]


class Dataflow(Section):
    """Where and on what a Dataflow job runs. What is left out, the service chooses."""

    project: str = Field(pattern=r"^[a-z][a-z0-9:.-]+[a-z0-9]$", description="The id (not the number) of the project.")
    region: str = Field(pattern=r"^[a-z]+-[a-z]+[0-9]+$", description="Where the workers run, such as europe-west1.")
    temp_location: GcsPath = Field(description="gs:// folder for the files of a running job.")
    staging_location: GcsPath | None = Field(None, description="gs:// folder for its graph; or temp_location.")
    image: str = Field(min_length=1, description="The container image of the workers, built by 'make template'.")
    machine_type: str | None = Field(None, description="Of the workers, such as n2-standard-4.")
    disk_gb: Annotated[int, Field(ge=10, le=65_536)] | None = Field(None, description="Disk of each worker.")
    min_ram_gb: Annotated[float, Field(gt=0)] | None = Field(
        None, description="Memory that a worker must have, as a resource hint."
    )
    workers: Annotated[int, Field(ge=1, le=4000)] | None = Field(None, description="Workers to begin with.")
    max_workers: Annotated[int, Field(ge=1, le=4000)] | None = Field(None, description="Autoscaling stops here.")
    service_account: str | None = Field(
        None, pattern=r"^[^@\s]+@[^@\s]+$", description="E-mail address of the account that the workers act as."
    )
    network: str | None = None
    subnetwork: str | None = Field(None, description="regions/REGION/subnetworks/NAME, or the full URL.")
    public_ips: bool | None = Field(None, description="false: workers have private addresses only.")
    labels: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")], str] = Field({}, description="Of the job.")
    options: dict[str, bool | int | float | str | list[str]] = Field(
        {}, description="Any other option of Beam, without dashes; true gives the bare flag, false leaves it out."
    )

    @model_validator(mode="after")
    def _workers_fit(self) -> "Dataflow":
        if self.workers and self.max_workers and self.workers > self.max_workers:
            raise ValueError(f"workers is {self.workers}, more than max_workers: {self.max_workers}")
        own = {"runner", "job_name"} & self.options.keys()  # they tell a running job from others
        if own:
            raise ValueError(f"options: {sorted(own)[0]} is set by the launcher")
        return self


class PreprocessStage(Section):
    backend: Literal["local", "dataflow"] = "local"
    workers: Literal["auto"] | Annotated[int, Field(ge=1, le=1024)] = Field(
        "auto", description="Threads of a local run; auto: one for each core."
    )
    dataflow: Dataflow | None = Field(None, description="Needed by backend: dataflow.")

    @model_validator(mode="after")
    def _backend_is_described(self) -> "PreprocessStage":
        if self.backend == "dataflow" and self.dataflow is None:
            raise ValueError("backend: dataflow needs a section 'dataflow': project, region, temp_location, image")
        return self


class TrainStage(Section):
    backend: Literal["local"] = "local"
    workers: Annotated[int, Field(ge=1, le=1024)] = Field(2, description="Processes that train one model together.")
    restarts: Annotated[int, Field(ge=0)] = Field(
        3, description="How often a training that lost a worker is started again, from its last checkpoint."
    )


class Launch(Section):
    preprocess: PreprocessStage = PreprocessStage()
    train: TrainStage = TrainStage()


class Job(Section):
    """A whole job: from raw files to a trained model."""

    name: str = Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]*$", description="Names the job in logs and on runners.")
    source: TimeseriesSource  # a union, discriminated by kind, from the second kind on
    prepare: Prepare = Prepare()
    windows: Windows
    split: Split = Split()
    output: Output
    limits: Limits = Limits()
    train: Train
    launch: Launch = Launch()

    @model_validator(mode="after")
    def _paths_differ(self) -> "Job":
        if self.output.path.rstrip("/") == self.train.workdir.rstrip("/"):
            raise ValueError(f"output.path and train.workdir are the same folder: {self.output.path}")
        return self
