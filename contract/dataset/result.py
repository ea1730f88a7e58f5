"""The result of a finished training run: what the trainer writes last, and the launcher reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from beamfeed.contract import storage
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.strict import Strict


class TrainResult(Strict):
    """`<workdir>/complete.json`. Losses and metrics are those of the job's task, see docs/job_file.md."""

    fingerprint: str = Field(description="Of the run: the data and what shapes the weights.")
    epochs: int = Field(description="Whole epochs that were run.")
    steps: int = Field(default=0, description="Steps that were run.")
    stale: int = Field(description="Evaluations since the watched loss was at its best.")
    stopped_early: bool = Field(description="Whether early stopping ended it.")
    first_loss: float | None = Field(description="Train loss of the steps before the first evaluation.")
    last_loss: float | None = Field(description="Train loss of the steps before the last evaluation.")
    watched: str = Field(default="loss", description="What decided which weights are the best.")
    best: float | None = Field(
        default=None,
        description="The best value of that, on the eval split; on the train split where there is no eval split.",
    )
    best_loss: float = Field(description="The loss of the best weights on the same.")
    best_epoch: int | None = Field(
        default=None, description="The epoch of the evaluation that found them, from 1; 0: before training."
    )
    best_split: Literal["train", "eval"] = Field(default="eval", description="The split that this is of.")
    metrics: dict[str, float | None] = Field(
        default={}, description="What else the task measures, of the same; None where that is no number."
    )
    test_loss: float | None = Field(description="Of the best weights; None where there is no test split.")
    test_metrics: dict[str, float | None] = Field(
        default={}, description="What else the task measures on the test split; empty where there is none."
    )
    seconds: float = Field(description="Of all steps and evaluations.")
    workers: int = Field(description="How many trained together at the end.")


@dataclass(frozen=True)
class Watched:
    """The number that decides which weights are the best.

    Attributes:
      metric: its name: loss, or a metric.
      high_is_good: whether high values are, not low ones.
    """

    metric: str
    high_is_good: bool

    @property
    def mode(self) -> str:
        """As `train.watch.mode` has it."""
        return "max" if self.high_is_good else "min"

    def turned(self, value: float) -> float:
        """A value as a score of which lower ones are better; and back."""
        return -value if self.high_is_good else value

    def score(self, measured: Mapping[str, float | None]) -> float | None:
        """The number among all that was measured, as a score."""
        value = measured[self.metric]
        return None if value is None else self.turned(value)


def read_result(workdir: str) -> TrainResult | None:
    """The result in `workdir`; None where there is none, or none that can be understood."""
    try:
        return TrainResult.model_validate_json(storage.read_text(RunLayout(workdir).complete))
    except (OSError, ValueError):
        return None


def read_run(workdir: str) -> dict[str, Any]:
    """What `workdir` says of the training run in it, such as its `fingerprint`; nothing where there is none."""
    return storage.read_mapping(RunLayout(workdir).run)


def write_result(workdir: str, result: TrainResult) -> None:
    """Says that the training run is finished."""
    storage.write_text(RunLayout(workdir).complete, result.model_dump_json(indent=1) + "\n")
