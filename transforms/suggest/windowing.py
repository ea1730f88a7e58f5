"""Windows, splits and training that fit the data: each split gets something, and small fleets train to the end, too."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.contract.config.split import Split
from beamfeed.contract.dataset.batches import choose_batch, train_steps
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.splits import find_seed
from beamfeed.transforms.suggest.traits import Likeness

HELD_BACK = {"train": 0.8, "eval": 0.1, "test": 0.1}
ALL_TRAIN = {"train": 1.0, "eval": 0.0, "test": 0.0}  # of what is too little to hold some back
LENGTHS = (32, 24, 16, 12, 8, 6, 4, 3, 2)  # where no period says another; of one row a window is none
LONGEST = 512  # rows of a window
NUMBERS = 2048  # of a window, in all its columns
_NARROW = 8  # rows, up to which a window is no shorter for its columns' sake
_PERIODS = 24  # rows of a window, at least, if it is to hold whole periods
FLEET = 5  # assets, from which on whole ones may be held back
MANY_ASSETS = 300  # from which on any seed deals some to each split
_AHEAD = 80  # rows of an asset, from which on what comes later in each is forecast, not other assets
_EACH = 16  # windows' lengths that an asset must have to be divided itself
_WINDOWS = 20_000  # that train, where strides give so many
_LATER = 1.1  # times the error on other assets: if later rows differ by more, each split gets whole assets

_STEPS = 2500  # of a training run that small data are trained with to the end
_EPOCHS = (3, 200)  # of a training run
_EVALUATIONS = 20  # of a run of more epochs
_HOURS = 1.0  # of training, beyond which max_steps ends it
_UNITS = 256  # of the layers of dense_autoencoder
_OF_STEP, _PER_WEIGHT = 1e-3, 6 / 25e9  # seconds of a step and of a weight of each of its windows, on two cores
_BESIDE = 15  # seconds of start and evaluations


@dataclass(frozen=True)
class Shape:
    """What the job file says of windows, splits and batches; and why.

    Attributes:
      length, stride: of windows.
      split: the section.
      batch_size: of training.
      windows: that train, about.
      why_length: and stride, for a comment.
      why_split: likewise.
      trains: how much does, in words.
    """

    length: int
    stride: int
    split: dict[str, Any]
    batch_size: int
    windows: float
    why_length: str
    why_split: str
    trains: str


@dataclass(frozen=True)
class Schedule:
    """How long a model trains.

    Attributes:
      epochs: to train.
      why: how many steps, and how long that takes.
      evaluate_every: steps; None for each epoch.
      max_steps: that end the run; None where epochs do.
      patience: epochs without a better model before training stops; None where nothing is held back to see it.
    """

    epochs: int = 20
    why: str = ""
    evaluate_every: int | None = None
    max_steps: int | None = None
    patience: int | None = None


def choose_shape(
    assets: Sequence[int],
    runs: Sequence[int],
    names: Sequence[str],
    rows: int,
    longest: int = LONGEST,
    share: float = 1.0,
    *,
    features: int = 1,
    period: int = 0,
    likeness: Callable[[int], Likeness] | None = None,
    ahead: bool = False,
) -> Shape:
    """Chooses windows, a split and a batch.

    Args:
      assets: rows of each asset that was looked at.
      runs: rows that follow each other without a gap, of these.
      names: of all assets that are known.
      rows: of all files, about.
      longest: rows of a window, at most.
      share: about how many of the rows of these assets were looked at.
      features: columns of a window.
      period: rows after which values repeat; 0 where they do not.
      likeness: of a length, whether windows of other assets or later ones differ; None for a model of a label, which
        must know all that may come of an asset.
      ahead: whether a model forecasts.
    """
    median = sorted(assets)[len(assets) // 2]
    usual = round(median / share)
    by_asset = len(names) >= FLEET and not (ahead and usual >= _AHEAD)
    least = 4 if by_asset else _EACH
    lengths = (size for size in _lengths(period, features) if size <= longest)
    fits = (size for size in lengths if least * size <= usual and _covered(runs, size) >= 0.7)
    length = next(fits, LENGTHS[-1])
    split, why, part = _choose_split(names, usual, length, likeness, whole=by_asset)
    stride = max(1, min(length // 2, round(part * rows / _WINDOWS)))
    windows = part * sum(count_windows(run, length, stride) for run in runs) * max(1.0, rows / max(1, sum(assets)))
    text = f"an asset has about {usual:,} rows" + (" between gaps" if max(runs, default=0) < median else "")
    if period and length % period == 0:
        whole = "a window holds one" if length == period else f"a window holds {length // period}"
        text = f"values repeat after {period} rows: {whole}"
    begins = "each begins a row after the one before" if stride == 1 else f"each begins {stride} rows after the last"
    trains = f"about {round(windows):,} windows train"
    return Shape(length, stride, split, choose_batch(windows), windows, f"{text}; {begins}", why, trains)


def _lengths(period: int, features: int) -> Iterator[int]:
    """Rows of windows, the best first: whole periods, then others."""
    if period:
        whole = period * math.ceil(_PERIODS / period)
        if whole <= min(LONGEST, NUMBERS // features):
            yield whole
    yield from (length for length in LENGTHS if length * features <= NUMBERS or length <= _NARROW)


def _covered(runs: Sequence[int], length: int) -> float:
    """The fraction of rows that are in runs of at least a window."""
    return sum(run for run in runs if run >= length) / max(1, sum(runs))


def _choose_split(
    names: Sequence[str], usual: int, length: int, likeness: Callable[[int], Likeness] | None, *, whole: bool
) -> tuple[dict[str, Any], str, float]:
    """The section `split`, why, and the share that trains."""
    divisible, reason = usual >= _EACH * length, f"there {'is' if len(names) == 1 else 'are'} only {len(names)}"
    if len(names) >= FLEET and not whole:
        reason = "what comes later in each is forecast"
    held = "whole assets, so that no window is in two splits"
    if whole and divisible and likeness is not None:
        other, later = likeness(length)
        whole = later > _LATER * other
        errors = f"principal components err {later:.3g} times as much on later rows, {other:.3g} times on other assets"
        reason = f"a model should know each asset: {errors}"
        held = f"whole assets, as what comes late in one should train, too: {errors}"
    if whole:
        fractions = HELD_BACK if len(names) >= 10 else {"train": 0.6, "eval": 0.2, "test": 0.2}
        seed = Split().seed if len(names) > MANY_ASSETS else find_seed(names, Split(by="asset", **fractions))
        if seed is not None:
            why = f"{held}; with this seed each split gets some of the {len(names):,}"
            return {"by": "asset", **fractions, "seed": seed}, why, fractions["train"]
    if divisible:
        why = f"the first part of each asset trains, as {reason}"
        return {"by": "rows", "train": 0.7, "eval": 0.15, "test": 0.15}, why, 0.7
    why = f"too few rows to hold some out: {usual} in an asset"
    return {"by": "asset", **ALL_TRAIN}, why, 1.0


def choose_schedule(shape: Shape, features: int, latent: int) -> Schedule:
    """How long a dense autoencoder trains: small data with as many steps as it takes, large ones at most some time.

    Args:
      shape: of windows, of which as many train.
      features: columns of a window.
      latent: numbers of the latent state.
    """
    steps = max(1, train_steps(round(shape.windows), shape.batch_size))
    weights = 2 * shape.length * features * (_UNITS + latent)
    seconds = _OF_STEP + _PER_WEIGHT * weights * shape.batch_size
    least, most = _EPOCHS
    affordable = int(_HOURS * 3600 / seconds)
    epochs = max(1, min(most, max(least, math.ceil(_STEPS / steps)), affordable // steps))
    count = min(epochs * steps, affordable)
    max_steps = affordable if count < epochs * steps else None
    every = math.ceil(count / _EVALUATIONS) if epochs > _EVALUATIONS or max_steps is not None else None
    rounded = round(count, min(0, 2 - len(str(count))))
    why = f"{rounded:,} steps, about {_duration(_BESIDE + count * seconds)} on two cores"
    return Schedule(epochs, why, every, max_steps)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(10, 10 * round(seconds / 10))} s"
    return f"{round(seconds / 60)} minutes"
