"""What the numbers of a dataset and a training run mean, in words: for those who do not know yet what to look for."""

from collections.abc import Mapping

from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest, Target
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import Review, SplitReview

LEAST_FALL = 0.01  # of the first train loss; less is no fall
SAME = 1e-3  # of a guess's loss: a model that is no further from it is as good, such as one that begins as PCA
FAR_APART = 2.0  # times the loss of eval that a loss of test is worth a word
MUCH = 0.5  # of the whole error, made by few assets
FAR_MEAN = 0.5  # standard deviations that a mean may be away from train's
SHARE = 0.1  # that a class may have more or less than in train


def findings(result: TrainResult, review: Review | None, job: str) -> list[str]:
    """Sentences on what is wrong, or may be, and what to try; none where nothing is.

    Args:
      result: of the run.
      review: of the same; None where there is none.
      job: how commands name the job.
    """
    splits = {} if review is None else review.splits
    sentences = [] if _wins(splits) else _fall(result, job)
    for split, split_review in splits.items():
        beaten = _beaten(split, split_review)
        lines = (
            beaten and f"{beaten}; {_advice(split, result)}",
            _concentrated(split, split_review),
            _drifted(split, split_review),
        )
        sentences += [line for line in lines if line is not None]
    return sentences + _differing(splits)


def best_guess(review: SplitReview) -> tuple[str, float] | None:
    """The guess with the lowest loss, and that loss; None where there is none."""
    losses = {name: loss for name, measured in review.guesses.items() if (loss := measured.get("loss")) is not None}
    return min(losses.items(), key=lambda item: item[1]) if losses else None


def _wins(splits: Mapping[SplitName, SplitReview]) -> bool:
    """Whether simple models were tried and none is better: a model that begins as one need not fall far."""
    tried = [split for split, review in splits.items() if best_guess(review) is not None]
    return bool(tried) and not any(_beaten(split, splits[split]) for split in tried)


def _fall(result: TrainResult, job: str) -> list[str]:
    first, last = result.first_loss, result.last_loss
    if first is None or last is None or first == last:  # of one evaluation there is nothing to compare
        return []
    if first - last > LEAST_FALL * abs(first):
        return []
    return [
        f"the train loss does not fall ({first:.5g} -> {last:.5g}): try another train.optimizer.learning_rate "
        f"(beamfeed train {job} --find-lr suggests one)"
    ]


def _beaten(split: str, review: SplitReview) -> str | None:
    guess, loss = best_guess(review), review.model.get("loss")
    if guess is None or loss is None or _is_least(loss, review) or loss < guess[1] + SAME * abs(guess[1]):
        return None
    return (
        f"on {split}, a simple model is as good or better: the model's loss is {loss:.5g}, that of "
        f"{guess[0]!r} is {guess[1]:.5g}"
    )


def _is_least(loss: float, review: SplitReview) -> bool:
    return review.least is not None and loss <= review.least


def _advice(split: str, result: TrainResult) -> str:
    """What to try where a simple model is better.

    Where the loss of training rows fell for as long again after the best epoch on eval, they were learned by heart.
    """
    best, first, last = result.best_epoch, result.first_loss, result.last_loss
    fell = first is not None and last is not None and last < first
    is_late = best is None or (2 * best > result.epochs and not result.stopped_early)
    if split == "train" or result.best_split == "train" or is_late or not fell:
        return "try more epochs, or a larger model"
    when = f"in epoch {best} of {result.epochs}" if best else f"before the first of {result.epochs} epochs"
    return f"it was best {when}: try a smaller model, more dropout, or further inputs"


def _concentrated(split: str, review: SplitReview) -> str | None:
    assets, share = review.most_of_error or ([], 0.0)
    if not assets or share < max(MUCH, 3 * len(assets) / review.assets):
        return None
    is_one = len(assets) == 1
    subject = f"one asset ({assets[0]})" if is_one else f"{len(assets)} of the {review.assets:,} assets"
    makes, pronoun = ("makes", "it") if is_one else ("make", "they")
    return f"on {split}, {subject} {makes} {share:.0%} of the error: look at what {pronoun} recorded"


def _drifted(split: str, review: SplitReview) -> str | None:
    far = {name: away for name, away in review.drift.items() if abs(away) > FAR_MEAN}
    if not far or split == "train":
        return None
    name, away = next(iter(far.items()))
    rest = "".join(f", {more} {abs(far[more]):.1f}" for more in list(far)[1:])
    return f"on {split}, the mean of {name} is {abs(away):.1f} deviations away from train's{rest}"


def _differing(splits: Mapping[SplitName, SplitReview]) -> list[str]:
    if "eval" not in splits or "test" not in splits:
        return []
    near, far = splits["eval"].model.get("loss"), splits["test"].model.get("loss")
    if near is None or far is None:
        return []
    near = max(near, splits["eval"].least or 0.0)
    if not 0 < FAR_APART * near < far:
        return []
    worst = splits["test"].worst
    detail = (
        f" (its worst asset is {worst[0].asset}, {worst[0].loss:.5g})" if worst and worst[0].loss is not None else ""
    )
    return [f"the loss on test is {far / near:.1f} times that on eval{detail}: are the splits alike?"]


def drifts(manifest: Manifest) -> list[str]:
    """Targets and weights whose values differ much between train and another split, a line each."""
    train, lines = manifest.splits.get("train"), []
    if train is None:
        return []
    for split, info in manifest.splits.items():  # train is not far from itself
        for name, target in info.targets.items():
            of_train = train.targets.get(name)
            line = None if of_train is None else _drift(manifest.field(name).classes, of_train, target, manifest.noun)
            if line is not None:
                lines.append(f"{name} differs between train and {split}: {line}")
    return lines


def _drift(classes: list[str], train: Target, other: Target, noun: str) -> str | None:
    if sum(train.counts) and sum(other.counts):
        before, now = ([count / sum(target.counts) for count in target.counts] for target in (train, other))
        most = max(range(len(before)), key=lambda place: abs(now[place] - before[place]))
        if abs(now[most] - before[most]) <= SHARE:
            return None
        return f"{classes[most]!r} are {before[most]:.0%} and {now[most]:.0%} of the {noun}s"
    if train.mean is None or other.mean is None or not train.std:
        return None
    away = abs(other.mean - train.mean) / train.std
    text = f"the means are {train.mean:.4g} and {other.mean:.4g}, {away:.1f} deviations apart"
    return text if away > FAR_MEAN else None
