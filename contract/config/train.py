"""The section `train`: model, feed, optimizer, and where a training run keeps its files."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from beamfeed.contract.config.duration import checked_duration
from beamfeed.contract.config.inputs import ImageInput
from beamfeed.contract.config.model import Linear, Model
from beamfeed.contract.config.section import (
    Duration,
    FieldName,
    FilePath,
    FolderPath,
    Fraction,
    Positive,
    Section,
    class_name,
)
from beamfeed.contract.config.task import Forecast, Reconstruct, Task, goals_of


class Feed(Section):
    """How the trainer reads the dataset."""

    example: ClassVar[str] = "{batch_size: 256}"

    batch_size: Positive = Field(default=256, description="Windows in a step, over all workers together.")
    shuffle: Annotated[int, Field(ge=0)] = Field(
        default=10_000, description="Windows mixed at a time, as far as their rows fit in 64 MB; 0 keeps the order."
    )
    cache: Literal["none", "memory", "file"] = Field(
        default="none",
        description="memory: reads the split into memory first. file: copies its shards to this machine first.",
    )
    lanes: Positive | None = Field(
        default=None,
        description="Places of the data that each batch is drawn from. Left out, 16, or with more workers at the start "
        "of a run, as many as they are; more workers than lanes read some data twice.",
    )
    skip_corrupt: bool = Field(default=False, description="Skip the damaged rest of a block instead of stopping.")
    seed: int = Field(default=7, description="Seed of the order of the windows.")
    where: dict[str, list[str]] = Field(
        default={},
        description="Read only some partitions, by column and values: {country: [DE, FR]}; see output.partition_by.",
    )

    @field_validator("where", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """One value stands for a list of it; numbers and the like are as paths have them."""
        if not isinstance(value, dict):
            return value
        lists = {key: entry if isinstance(entry, list) else [entry] for key, entry in value.items()}
        return {key: [class_name(item) for item in values] for key, values in lists.items()}


class Schedule(Section):
    """How the learning rate changes with the steps."""

    example: ClassVar[str] = "{name: cosine, warmup_steps: 100}"

    name: Literal["constant", "linear", "cosine", "exponential"] = Field(
        default="constant", description="How the rate falls after the warm-up."
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(default=0, description="Steps in which the rate rises from 0.")
    decay_steps: Positive | None = Field(
        default=None,
        description="Steps in which it falls; then it stays. By default it falls until the end of training.",
    )
    final_fraction: Fraction = Field(default=0.01, description="Fraction of the rate that is left at the end.")

    @model_validator(mode="after")
    def _says_how_long(self) -> "Schedule":
        if self.name == "constant" and self.decay_steps is not None:
            raise ValueError("decay_steps goes with a name that is not constant")
        if self.name == "exponential" and not self.final_fraction:
            raise ValueError("final_fraction is 0, which exponential never reaches")
        return self


class Optimizer(Section):
    """How weights are updated."""

    example: ClassVar[str] = "{learning_rate: 0.001}"

    name: Literal["adam", "adamw", "sgd", "rmsprop"] = Field(default="adam", description="The optimizer of Keras.")
    learning_rate: Annotated[float, Field(gt=0)] = Field(
        default=0.001, description="The learning rate; with a schedule, its peak."
    )
    schedule: Schedule | None = None
    weight_decay: Annotated[float, Field(ge=0)] | None = Field(
        default=None,
        description="Weight decay, times the learning rate (adamw: 0.004); not for biases and other one-dimensional "
        "weights, such as scales of normalization.",
    )
    clip_norm: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="Gradients are clipped to this global norm."
    )
    ema: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="Momentum of a moving average of the weights, such as 0.999; the average is evaluated and "
        "exported instead of the weights.",
    )


class Init(Section):
    """Initial weights, from a model trained before."""

    example: ClassVar[str] = "{from: out/model}"

    from_: FilePath = Field(
        alias="from", min_length=1, description="The train.workdir of a finished run, or a .keras file; local or gs://"
    )
    layers: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None,
        description="Names of the layers that take them, with * and ?; a layer inside another is encoder/dense. Left "
        "out: all.",
    )


class On(Section):
    """Of a dataset that grows, which training windows are learned from."""

    example: ClassVar[str] = "{runs: 7, replay: 0.2}"

    runs: Positive = Field(description="The last N runs that added windows to the dataset.")
    replay: Fraction = Field(
        default=0.0, description="Beside them, about this share of the older windows, in whole shards."
    )


class Watch(Section):
    """What decides which weights are best, on the eval split, or on the train split where that is empty."""

    example: ClassVar[str] = "{metric: loss}"

    metric: str = Field(default="loss", description="loss, or a metric as metrics.jsonl names it, without eval_.")
    mode: Literal["auto", "min", "max"] = Field(
        default="auto", description="Whether low or high values are better; auto: as the metric has it."
    )


class EarlyStopping(Section):
    """When a training run ends before its last epoch."""

    example: ClassVar[str] = "{patience: 3}"

    patience: Positive = Field(
        default=3, description="Evaluations (of each epoch, as a rule) without a better value before stopping."
    )
    min_delta: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="A value counts as better if it is better by more than this."
    )


class Checkpoint(Section):
    """When a training run saves its state."""

    example: ClassVar[str] = "{every: 5m}"

    every: Duration = Field(
        default="5m", description="Time between checkpoints; there is also one after each evaluation."
    )
    every_steps: Positive | None = Field(default=None, description="Steps between checkpoints, in addition.")
    keep: Positive = Field(default=3, description="How many of the latest are kept.")

    _every = field_validator("every")(checked_duration)


class Devices(Section):
    """How the trainer uses its devices."""

    example: ClassVar[str] = "{precision: mixed_bfloat16}"

    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = Field(
        default="float32", description="Precision that layers compute in; weights stay float32."
    )
    xla: bool = Field(default=False, description="Compile each step with XLA.")
    accumulate: Positive = Field(
        default=1,
        description="Parts in which a device computes its share of a batch, to save memory. Their gradients are "
        "summed; a step still covers feed.batch_size windows.",
    )
    collectives: Literal["auto", "ring", "nccl"] = Field(default="auto", description="How workers exchange gradients.")
    deterministic: bool = Field(default=False, description="Use only deterministic operations (slow on GPUs).")


class Review(Section):
    """What a finished model is measured against."""

    example: ClassVar[str] = "{baselines: none}"

    baselines: Literal["all", "none"] = Field(
        default="all",
        description="all: simple models of the same training windows, such as PCA, logistic regression and gradient "
        "boosting; fitting them takes some seconds. none: the model stands alone.",
    )


class Train(Section):
    """A training run."""

    example: ClassVar[str] = "{model: {name: recurrent_autoencoder}, workdir: out/model}"

    model: Model = Field(description="What is trained: one of the models here by its name, or your own by its class.")
    task: Task = Field(default=Reconstruct(name="reconstruct"), description="What is learned; left out, reconstruct.")
    inputs: dict[FieldName, ImageInput] = Field(
        default={},
        description="How image fields are decoded and augmented, by the field's name: {image: {size: [64, 64]}}.",
    )
    feed: Feed = Feed()
    epochs: Positive = Field(default=20, description="How often the train split is read, at most.")
    max_steps: Positive | None = Field(
        default=None, description="Stop after this many steps, if that comes before the end of the last epoch."
    )
    evaluate_every: Positive | None = Field(
        default=None, description="Steps from one evaluation to the next; left out, each epoch ends with one."
    )
    init: Init | None = None
    on: On | None = Field(
        default=None, description="Of a dataset that grows, train on the windows of its last runs; left out, on all."
    )
    optimizer: Optimizer = Optimizer()
    watch: Watch = Watch()
    early_stopping: EarlyStopping | None = None
    checkpoint: Checkpoint = Checkpoint()
    writers: list[Literal["tensorboard", "csv", "mlflow"]] = Field(
        default=["tensorboard"],
        description="Where metrics are written beside metrics.jsonl; csv: metrics.csv; mlflow: the tracking server at "
        "MLFLOW_TRACKING_URI.",
    )
    review: Review = Review()
    callbacks: list[str] = Field(
        default=[],
        description="Your own code that the run calls: module:Class with on_steps, on_evaluation or on_end, or "
        "module:function, called after each evaluation.",
    )
    devices: Devices = Devices()
    worker_timeout: Duration = Field(
        default="2m", description="How long a worker waits for a sign of life from another before it gives up."
    )
    join_timeout: Duration = Field(
        default="10m", description="How long a worker waits for the others to join, such as machines still starting."
    )
    floor: bool = Field(
        default=False,
        description="First train the model linear on the same data, in the folder floor of workdir, as a baseline.",
    )
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)] = Field(default=7, description="Seed of the initial weights.")
    workdir: FolderPath = Field(min_length=1, description="The folder of checkpoints, logs and the exported model.")

    _timeouts = field_validator("worker_timeout", "join_timeout")(checked_duration)

    @model_validator(mode="after")
    def _has_a_floor(self) -> "Train":
        if self.floor and any(isinstance(goal, (Reconstruct, Forecast)) for goal in goals_of(self.task).values()):
            raise ValueError("floor is for tasks that classify or regress")
        if self.floor and isinstance(self.model, Linear):
            raise ValueError("floor is the model linear, which this one is")
        return self
