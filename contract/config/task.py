"""The section `train.task`: what is learned. One class a task, and the one place that looks a task up."""

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from beamfeed.contract.config.section import FieldName, OneOf, Section, class_name


class Goal(Section):
    """One thing to learn: what a model's output is compared with, and how."""

    name: str = Field(description="What is learned.")
    loss: str | None = Field(
        default=None,
        description="A loss of Keras by name (such as huber), or module:function of (y_true, y_pred) -> [batch].",
    )
    metrics: list[str] | None = Field(
        default=None,
        description="Metrics of Keras by name (such as auc), or module:Class; left out, those that fit the task.",
    )
    sample_weight: str | None = Field(
        default=None, description="A field of the dataset with role: weight that says how much each window counts."
    )
    weight: Annotated[float, Field(gt=0)] = Field(
        default=1.0, description="Weight of its loss in the sum, where there are several outputs."
    )


class Reconstruct(Goal):
    """The model reconstructs its input. Loss: mean squared error."""

    name: Literal["reconstruct"] = Field(description="What is learned.")


class Classify(Goal):
    """The model gives a number (a logit) for each class. Loss: cross-entropy. Metric: accuracy."""

    name: Literal["classify"] = Field(description="What is learned.")
    target: str = Field(default="label", description="The field of the dataset that holds the classes.")
    class_weights: Literal["balanced"] | dict[str, Annotated[float, Field(ge=0)]] | None = Field(
        default=None,
        description="How much the windows of a class count: a number for each class, or balanced, which gives each "
        "class the same share of all training windows of the dataset.",
    )

    threshold: Literal["best_f1"] | Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="With two classes, the probability from which on the second is predicted: a number, or the one "
        "with the highest F1 on the eval split (the train split where there is none). Left out, the likelier class. "
        "Accuracy, precision and recall are those at the number; with best_f1, of the likelier class.",
    )

    @field_validator("class_weights", mode="before")
    @classmethod
    def _names_of_classes(cls, value: Any) -> Any:
        """YAML takes some names of classes for numbers or for true and false."""
        return {class_name(key): weight for key, weight in value.items()} if isinstance(value, dict) else value


class Regress(Goal):
    """The model gives a number. Loss: mean squared error. Metrics: mean absolute and root mean squared error."""

    name: Literal["regress"] = Field(description="What is learned.")
    target: str = Field(default="label", description="The field of the dataset that holds the numbers.")


class Forecast(Goal):
    """The model gives the rows behind a window. Loss: mean squared error, each column divided by its deviation.

    Metrics: mean absolute and root mean squared error in the units of the files, and the first one of divided columns.
    """

    name: Literal["forecast"] = Field(description="What is learned.")
    target: str = Field(default="label", description="The field of the dataset that a label with 'ahead' makes.")


# What it does is in beamfeed/trainer/tasks/.
GOALS: tuple[type[Goal], ...] = (Reconstruct, Classify, Regress, Forecast)


class Several(Section):
    """Several outputs at once; the loss is the sum of theirs."""

    outputs: dict[FieldName, Annotated[Goal, OneOf("name", GOALS)]] = Field(
        description="The task of each output, by its name."
    )

    @field_validator("outputs")
    @classmethod
    def _at_least_one(cls, value: dict[str, Goal]) -> dict[str, Goal]:
        if not value:
            raise ValueError("names no output")
        return value


Task = Annotated[Goal | Several, OneOf("name", (*GOALS, Several))]


def goals_of(task: Goal | Several) -> dict[str, Goal]:
    """What is learned, by the name of the output; a single one has its task's name.

    In the order of the names, not of the file: models make their heads in this order.
    """
    return dict(sorted(task.outputs.items())) if isinstance(task, Several) else {task.name: task}


def own_metrics_of(task: Goal | Several) -> dict[str, str]:
    """The metrics of the user's own, `module:Class`, by their names in metrics.jsonl."""
    goals = goals_of(task)
    return {
        (f"{name}_" if len(goals) > 1 else "") + metric_name(metric): metric
        for name, goal in goals.items()
        for metric in goal.metrics or []
        if ":" in metric
    }


def metric_name(metric: str) -> str:
    """What metrics.jsonl calls a metric that the job names: `own:MyError` -> `my_error`."""
    return snake_case(metric.rpartition(":")[2])


def snake_case(name: str) -> str:
    """`TopKCategoricalAccuracy`, `AUC`, `MeanIoU` -> `top_k_categorical_accuracy`, `auc`, `mean_iou`."""
    parts = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name.replace("IoU", "Iou"))
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", parts).lower()
