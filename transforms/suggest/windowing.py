"""Windows, splits and batches that small fleets can have, too: each split gets something, and a full batch is had."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from beamfeed.contract.config.split import Split
from beamfeed.contract.dataset.batches import choose_batch
from beamfeed.contract.dataset.windows import count_windows
from beamfeed.transforms.splits import find_seed

LENGTHS = (32, 24, 16, 12, 8, 6, 4, 3, 2)  # of one row a window is none
FLEET = 5  # assets, from which on whole ones are held back
MANY_ASSETS = 300  # from which on any seed deals some to each split
MANY_ROWS = 1000  # of an asset, from which on windows overlap by half
_EACH = 16  # windows' lengths that an asset must have to be divided itself


@dataclass(frozen=True)
class Shape:
    """What the job file says of windows, splits and batches; and why.

    Attributes:
      length, stride: of windows.
      split: the section.
      batch_size: of training.
      why: of length and stride, of the split, of the batch.
    """

    length: int
    stride: int
    split: dict[str, Any]
    batch_size: int
    why: tuple[str, str, str]


def choose_shape(
    assets: Sequence[int],
    runs: Sequence[int],
    names: Sequence[str],
    rows: int,
    longest: int = LENGTHS[0],
    share: float = 1.0,
) -> Shape:
    """Chooses windows, a split and a batch.

    Args:
      assets: rows of each asset that was looked at.
      runs: rows that follow each other without a gap, of these.
      names: of all assets that are known.
      rows: of all files, about.
      longest: rows of a window, at most.
      share: about how many of the rows of these assets were looked at.
    """
    median = sorted(assets)[len(assets) // 2]
    usual = round(median / share)
    least = 4 if len(names) >= FLEET else _EACH
    fits = (one for one in LENGTHS if one <= longest and least * one <= usual and _covered(runs, one) >= 0.7)
    length = next(fits, LENGTHS[-1])
    stride = max(1, length // 2) if usual >= MANY_ROWS else 1
    split, why, share = _choose_split(names, usual, length)
    windows = sum(count_windows(run, length, stride) for run in runs) * max(1.0, rows / max(1, sum(assets)))
    overlap = "each begins a row after the one before" if stride == 1 else "each shares half of its rows with the next"
    text = f"an asset has about {usual:,} rows" + (" between gaps" if max(runs, default=0) < median else "")
    return Shape(
        length, stride, split, choose_batch(share * windows),
        (f"{text}; {overlap}", why, f"about {round(share * windows):,} windows train"),
    )  # fmt: skip


def _covered(runs: Sequence[int], length: int) -> float:
    """The fraction of rows that are in runs of at least a window."""
    return sum(run for run in runs if run >= length) / max(1, sum(runs))


def _choose_split(names: Sequence[str], usual: int, length: int) -> tuple[dict[str, Any], str, float]:
    """The section `split`, why, and the share that trains."""
    if len(names) >= FLEET:
        train, rest = (0.8, 0.1) if len(names) >= 10 else (0.6, 0.2)
        fractions = {"train": train, "eval": rest, "test": rest}
        seed = Split().seed if len(names) > MANY_ASSETS else find_seed(names, Split(by="asset", **fractions))
        if seed is not None:
            why = (
                f"whole assets, so that no window is in two splits; with this seed each gets some of the {len(names):,}"
            )
            return {"by": "asset", **fractions, "seed": seed}, why, train
    if usual >= _EACH * length:
        why = f"the first part of each asset trains, as there {'is' if len(names) == 1 else 'are'} only {len(names)}"
        return {"by": "rows", "train": 0.7, "eval": 0.15, "test": 0.15}, why, 0.7
    why = f"too few rows to hold some out: {usual} in an asset"
    return {"by": "asset", "train": 1.0, "eval": 0.0, "test": 0.0}, why, 1.0
