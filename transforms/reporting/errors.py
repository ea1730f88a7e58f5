"""The windows with the largest and the smallest errors, and where errors are."""

from typing import Any

import numpy as np

from beamfeed.contract.config.task import Reconstruct
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.transforms.reporting.answers import Answer
from beamfeed.transforms.reporting.figures import draw, histograms
from beamfeed.transforms.reporting.page import Chapter, Pictures, Table, Words
from beamfeed.transforms.reporting.sample import Sample
from beamfeed.transforms.reporting.samples import is_image, place_of, show, shown_columns, side_by_side
from beamfeed.transforms.reporting.scales import Wording
from beamfeed.transforms.reporting.tables import ERROR, Extreme, Predictions

SHOWN, IMAGES, COMPARED = 3, 12, 5  # windows that are shown, of each end: of series, of images, of rows
LOOKED = 400  # among which are those that share no rows
LISTED = 20


def best_and_worst(
    answer: Answer, predictions: Predictions, sample: Sample, manifest: Manifest, words: Wording
) -> Chapter | None:
    """How errors are spread on each split, and single windows of the last one, as the dataset has them.

    Args:
      answer: an output of the model.
      predictions: of it.
      sample: of the dataset.
      manifest: of it.
      words: what numbers of it mean.
    """
    spread: dict[str, np.ndarray] = {}
    parts = predictions.errors(answer.columns[0]) if isinstance(answer.goal, Reconstruct) else []
    for split in predictions.splits:
        worst, best, spread[split] = predictions.extremes(split, answer.needs, answer.error, LOOKED, parts)
    if not any(len(errors) for errors in spread.values()):
        return None
    title = f"Best and worst{f' of {answer.name}' if answer.name else ''}"
    spread_picture = draw(lambda axes: _spread(axes, spread, answer.error_name), "Errors by split")
    section = Chapter(title, [Pictures([spread_picture])])
    try:
        for which, extremes in (("largest", worst), ("smallest", best)):
            rows = apart(extremes, -(-manifest.windows.length // manifest.windows.stride))[:LISTED]
            windows = sample.windows(split, [place for _, place, _ in rows])
            listed = [
                (place_of(window, manifest), error, _parts(part_errors, parts))
                for window, (error, _, part_errors) in zip(windows, rows, strict=True)
            ]
            shown = shown_columns(windows, manifest)
            most = IMAGES if manifest.windows.length == 1 and any(map(is_image, manifest.fields)) else SHOWN
            drawn = [
                show(window, manifest, f"error {error:.4g}, {name}" + (f"\nmost in {why}" if why else ""), shown)
                for window, (name, error, why) in zip(windows[:most], listed, strict=False)
            ]
            section.parts.append(Words(f"The {manifest.noun}s of {split} with the {which} errors", "plain"))
            if pictures := [part for part in drawn if part is not None]:
                section.parts.append(Pictures(pictures))
            else:
                captions = [f"error {error:.4g}, {name}" for name, error, _ in listed[:COMPARED]]
                section.parts.append(side_by_side(windows[:COMPARED], captions, manifest, words, ""))
            head = (manifest.noun, answer.error_name, *(["most in"] if parts else []))
            rows_told = [row[: len(head)] for row in listed]
            section.parts.append(Table(head, rows_told, f"The {len(listed)} {which}", folded=True))
    except (UserError, JobFailed) as error:
        section.parts.append(Words(f"They cannot be shown: {error}"))
    return section


def apart(rows: list[Extreme], least: int) -> list[Extreme]:
    """Those that are at least so many windows away from each one before, so that they share no rows."""
    chosen: list[Extreme] = []
    for row in rows:
        shard, number = row[1]
        if all(shard != other or abs(number - its_number) >= least for _, (other, its_number), _ in chosen):
            chosen.append(row)
        if len(chosen) == LISTED:
            break
    return chosen


def _parts(errors: np.ndarray, columns: list[str]) -> str:
    """The columns with the largest part of an error."""
    order = np.argsort(-errors, kind="stable")[:3]
    shares = errors / max(float(errors.sum()), 1e-30)
    return ", ".join(f"{columns[at].removeprefix(ERROR)} {shares[at]:.0%}" for at in order if shares[at] >= 0.01)


def _spread(axes: Any, spread: dict[str, np.ndarray], name: str) -> None:
    histograms(axes, {split: np.log10(np.maximum(errors, 1e-12)) for split, errors in spread.items()})
    axes.set(xlabel=f"log10 of the {name.partition(',')[0]}", ylabel="share")
