"""How good a finished training run is: what the trainer measures at its end, and the launcher puts into words."""

from pydantic import Field

from beamfeed.contract import storage
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.strict import Strict

Measured = dict[str, float | None]  # the loss and what else the task measures, by name; None where it is no number


class AssetError(Strict):
    """The loss of one asset's windows."""

    asset: str
    windows: int
    loss: float | None = Field(description="Mean over its windows; None where it is no number.")
    worst: float | None = Field(description="That of its worst window.")


class SplitReview(Strict):
    """What was measured on the windows of a split, the same ones for all."""

    windows: int = Field(description="How many were looked at.")
    of: int = Field(description="How many the split has.")
    model: Measured = Field(description="Of the best weights.")
    least: float | None = Field(
        default=None, description="A loss that is lower on so many windows is no better than this; None: any is better."
    )
    by_age: dict[str, Measured] = Field(
        default={}, description="With train.on: the same of windows of the last runs, and of those before."
    )
    guesses: dict[str, Measured] = Field(description="Of what costs nothing, by its name.")
    skipped: list[str] = Field(default=[], description="What was not tried, and why, a line each.")
    assets: int = Field(default=0, description="Assets whose windows were looked at; 0 where records name none.")
    worst: list[AssetError] = Field(default=[], description="Those with the highest mean loss; at most ten.")
    drift: dict[str, float] = Field(
        default={},
        description="By column of the inputs, how far its mean is away from train's, in train's standard deviations; "
        "the ten farthest.",
    )
    most_of_error: tuple[list[str], float] | None = Field(
        default=None,
        description="The tenth of the assets, or the one, that makes most of the whole loss, and its part of it; None "
        "where its windows are not much worse than others.",
    )


class Review(Strict):
    """`<workdir>/review.json`."""

    fingerprint: str = Field(description="Of the run, as in complete.json.")
    splits: dict[SplitName, SplitReview]


def read_review(workdir: str, fingerprint: str) -> Review | None:
    """The review of the run with this fingerprint; None where there is none, or none that can be understood."""
    try:
        review = Review.model_validate_json(storage.read_text(RunLayout(workdir).review))
    except (OSError, ValueError):
        return None
    return review if review.fingerprint == fingerprint else None


def write_review(workdir: str, review: Review) -> None:
    """Writes it into the working folder."""
    storage.write_text(RunLayout(workdir).review, review.model_dump_json(indent=1) + "\n")
