"""The windows with the largest and the smallest errors, and where errors are."""

from typing import Any

import numpy as np

from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.errors import JobFailed, UserError
from beamfeed.transforms.reporting.answers import Answer
from beamfeed.transforms.reporting.figures import COLORS, LINES, draw, edges_of, shares
from beamfeed.transforms.reporting.page import Pictures, Section, Table, Words
from beamfeed.transforms.reporting.sample import Sample
from beamfeed.transforms.reporting.samples import place_of, show
from beamfeed.transforms.reporting.tables import Predictions

SHOWN = 4  # windows that are drawn, of each end
LISTED = 20


def best_and_worst(answer: Answer, predictions: Predictions, sample: Sample, manifest: Manifest) -> Section | None:
    """How errors are spread on each split, and single windows of the last one, as the dataset has them.

    Args:
      answer: an output of the model.
      predictions: of it.
      sample: of the dataset.
      manifest: of it.
    """
    spread: dict[str, np.ndarray] = {}
    for split in predictions.splits:
        worst, best, spread[split] = predictions.extremes(split, answer.needs, answer.error, LISTED)
    if not any(len(errors) for errors in spread.values()):
        return None
    title = f"Best and worst{f' of {answer.name}' if answer.name else ''}"
    section = Section(title, [Pictures([draw(lambda axes: _spread(axes, spread, answer.error_name), "Errors by split")])])
    try:
        for words, rows in (("largest", worst), ("smallest", best)):
            windows = sample.windows(split, [(place.shard, place.number) for _, place in rows])
            listed = [(place_of(window, manifest), error) for window, (error, _) in zip(windows, rows, strict=True)]
            drawn = [
                show(window, manifest, f"error {error:.4g}, {name}")
                for window, (name, error) in zip(windows[:SHOWN], listed, strict=False)
            ]
            section.parts.append(Words(f"The {manifest.noun}s of {split} with the {words} errors", "plain"))
            section.parts += [part for part in drawn if not hasattr(part, "image")]
            if pictures := [part for part in drawn if hasattr(part, "image")]:
                section.parts.append(Pictures(pictures))
            head = (manifest.noun, answer.error_name)
            section.parts.append(Table(head, listed, f"The {len(listed)} {words}", folded=True))
    except (UserError, JobFailed) as error:
        section.parts.append(Words(f"They cannot be shown: {error}"))
    return section


def _spread(axes: Any, spread: dict[str, np.ndarray], name: str) -> None:
    positive = [np.log10(np.maximum(errors, 1e-12)) for errors in spread.values()]
    edges = edges_of(positive)
    for (split, _), logs in zip(spread.items(), positive, strict=True):
        axes.stairs(shares(logs, edges), edges, color=COLORS[split], linestyle=LINES[split], label=split, linewidth=1.4)
    axes.set(xlabel=f"log10 of the {name.partition(',')[0]}", ylabel="share")
    axes.legend()


