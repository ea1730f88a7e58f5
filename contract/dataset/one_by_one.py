"""What is asked of the trainer that trains many models one after another, and what it answers: a line of JSON each.

`beamfeed.trainer.one_by_one` reads requests from stdin and writes answers to stdout; who starts it does the other.
"""

from pydantic import Field

from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.strict import Strict


class TrainRequest(Strict):
    """A training run."""

    job: str = Field(description="The text of its job file, whose train.workdir is empty.")
    dataset: str = Field(description="The fingerprint of its dataset.")
    model: bool = Field(description="Whether the SavedModel is written.")
    check: bool = Field(description="Whether it is read again in a fresh process and compared with the trained model.")


class Answer(Strict):
    """What came of it; the first one, to no request, says that the trainer is ready."""

    result: TrainResult | None = Field(default=None, description="Of a training run that came to its end.")
    reason: str = Field(default="", description="Why there is none.")
    is_trouble: bool = Field(default=False, description="Whether no group is at fault: a full disk, another dataset.")
