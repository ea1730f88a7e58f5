"""report.png: the losses, single windows, what the tasks draw, and how errors are spread."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import AssetError
from beamfeed.trainer import figures
from beamfeed.trainer.review.inputs_seen import TrainingInputs, draw_image, draw_inputs
from beamfeed.trainer.review.scores import Scores
from beamfeed.trainer.tasks.base import Sample
from beamfeed.trainer.tasks.objective import LOSS, Objective

PANEL = (4.6, 3.6)  # inches
COLUMNS = 3  # panels beside each other
BARS, FEWEST_BARS = 10, 5  # assets; fewer do not get thicker ones
WIDE = 100.0  # times the smallest loss: from there on, losses are drawn to a logarithmic scale
LETTERS = 18  # of an asset's name


class Chosen(NamedTuple):
    """Some windows by themselves, and what the model makes of them.

    Attributes:
      captions: why each was chosen, its asset and time as far as they are known, and its loss.
      samples: of all of them, by output.
      images: their inputs that are images, `[windows, height, width, channels]`, by name.
    """

    captions: Sequence[str]
    samples: Mapping[str, Sample]
    images: Mapping[str, np.ndarray]


def draw_report(
    title: str,
    objective: Objective,
    result: TrainResult,
    epochs: Sequence[Mapping[str, Any]],
    floor: TrainResult | None,
    scores: Scores,
    errors: Sequence[AssetError],
    chosen: Chosen,
    inputs: TrainingInputs,
) -> bytes:
    """The report as a PNG: curves, what the outputs show, and errors; under them windows, a row for each output.

    Inputs that are images have a row each.

    Args:
      title: above all.
      objective: what was learned.
      result: of the run.
      epochs: the lines of metrics.jsonl.
      floor: what a linear model reached.
      scores: of the model and of guesses.
      errors: by asset, the worst first.
      chosen: windows by themselves, where an output or an input can be shown so.
      inputs: inputs that are images, as training gets them.
    """
    reached = {} if floor is None else {LOSS: floor.best_loss, **floor.metrics}
    best, watched = best_step(epochs, result), result.watched
    curves = {LOSS: objective.loss_name, **({} if watched == LOSS else {watched: watched.replace("_", " ")})}
    singles = [name for name, task in objective.tasks.items() if task.shows_windows]
    rows = in_rows(len(curves) + len(scores.outputs) + 1 + (len(errors) > 1) + bool(inputs.images))
    below = len(singles) + len(chosen.images)
    figure = figures.figure(PANEL[0] * max(*rows, len(chosen.captions)), PANEL[1] * (len(rows) + below))
    figure.suptitle(title, fontsize="large")
    parts = iter(figure.subfigures(len(rows) + below, 1, squeeze=False)[:, 0])
    places = iter([place for count in rows for place in next(parts).subfigures(1, count, squeeze=False)[0]])
    for name, label in curves.items():
        draw_curve(next(places).subplots(), epochs, name, label, best, reached.get(name))
    for name, sample in scores.outputs.items():
        place = next(places)
        objective.tasks[name].draw(place, sample)
        if objective.several:
            place.suptitle(name, fontsize="medium")
    draw_losses(next(places).subplots(), scores, objective.loss_name)
    if len(errors) > 1:
        draw_assets(next(places).subplots(), errors)
    if inputs.images:
        draw_inputs(next(places), inputs)
    for name in singles:
        captions = [f"{name}: {caption}" if objective.several else caption for caption in chosen.captions]
        figures_of_windows = list(next(parts).subfigures(1, len(captions), squeeze=False)[0])
        objective.tasks[name].draw_windows(figures_of_windows, chosen.samples[name], captions)
    for images in chosen.images.values():
        _draw_images(next(parts), objective, images, chosen)
    return figures.png(figure)


def in_rows(count: int) -> list[int]:
    """How many of so many panels stand in each row: as alike as can be."""
    rows = -(-count // COLUMNS)
    return [count // rows + (row < count % rows) for row in range(rows)]


def _draw_images(part: Any, objective: Objective, images: np.ndarray, chosen: Chosen) -> None:
    """An input of the chosen windows, with what is true of each and what the model says."""
    all_axes = part.subplots(1, len(images), squeeze=False)[0]
    for number, (axes, image, caption) in enumerate(zip(all_axes, images, chosen.captions, strict=True)):
        draw_image(axes, image)
        lines = [
            f"{output}: {line}" if objective.several else line
            for output, sample in chosen.samples.items()
            if (line := objective.tasks[output].say(sample.only(number)))
        ]
        axes.set_title("\n".join([caption, *lines]), fontsize="small")


def best_step(epochs: Sequence[Mapping[str, Any]], result: TrainResult) -> int | None:
    """The step of the evaluation with the best weights; None where no line has its value."""
    key = f"eval_{result.watched}"
    if not any(line.get(key) is not None for line in epochs):
        key = result.watched
    steps = [line["step"] for line in epochs if line.get(key) == result.best and result.best is not None]
    return steps[0] if steps else None


def draw_curve(
    axes: Any,
    epochs: Sequence[Mapping[str, Any]],
    name: str,
    label: str,
    best: int | None,
    reached: float | None,
) -> None:
    """One number over the epochs, of both splits; those that did not measure it are left out.

    Over the steps, where epochs were evaluated more often than once.

    Args:
      axes: matplotlib's.
      epochs: the lines of metrics.jsonl.
      name: of the number.
      label: what it is.
      best: the step with the best weights.
      reached: by the linear floor.
    """
    over = "epoch" if len({line["epoch"] for line in epochs}) == len(epochs) else "step"
    for key, split, style in ((name, "train", "o-"), (f"eval_{name}", "eval", "s--")):
        points = [(line[over], line[key]) for line in epochs if line.get(key) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), style, markersize=4, label=split)
    for line in epochs:
        if line["step"] == best:
            axes.axvline(line[over], color="black", linestyle=":", label=f"best: {over} {line[over]}")
    if reached is not None:
        axes.axhline(reached, color="gray", linestyle="-.", label="linear floor")
    axes.set(xlabel=over, ylabel=label)
    axes.xaxis.get_major_locator().set_params(integer=True)
    if len(epochs) == 1:
        axes.set_xticks([epochs[0][over]])
    axes.legend(fontsize="small")


def draw_losses(axes: Any, scores: Scores, label: str) -> None:
    """How many windows have which loss, with the means of the model and of the best guess."""
    losses = scores.losses[np.isfinite(scores.losses)]
    if not len(losses):
        axes.set(xlabel=f"{label} of a window: none is a number", ylabel="windows")
        return
    lowest, highest = float(losses.min()), float(losses.max())
    wide = lowest > 0 and highest > WIDE * lowest
    edges = np.geomspace(lowest, highest, 41) if wide else np.linspace(lowest, highest, 41)
    if not (np.diff(edges) > 0).all():  # all are nearly the same
        around = max(abs(highest) / 100, 1e-9)
        edges = np.array([lowest - around, highest + around])
    axes.hist(losses, edges, color="0.75", edgecolor="0.4")
    axes.axvline(losses.mean(), color="black", label=f"mean {losses.mean():.3g}")
    axes.axvline(np.median(losses), color="black", linestyle=":", label=f"median {np.median(losses):.3g}")
    measured = {name: value for name, sums in scores.guesses.items() if (value := sums[LOSS]) is not None}
    if measured:
        name = min(measured, key=lambda name: measured[name])
        text = name if len(name) <= 2 * LETTERS else "what costs nothing"
        axes.axvline(measured[name], color="C3", linestyle="--", label=f"{text}: mean {measured[name]:.3g}")
    if wide:
        axes.set_xscale("log")
    axes.set(xlabel=f"{label} of a window", ylabel="windows")
    axes.legend(fontsize="small")


def draw_assets(axes: Any, errors: Sequence[AssetError]) -> None:
    """The mean loss of the worst assets."""
    shown = [error for error in errors if error.loss is not None][:BARS]
    names = [error.asset if len(error.asset) <= LETTERS else f"...{error.asset[3 - LETTERS :]}" for error in shown]
    places = range(len(shown))
    axes.barh(places, [error.loss for error in shown], color="0.75", edgecolor="0.4", height=0.7)
    axes.set_yticks(places, names, fontsize="small")
    axes.set_ylim(max(len(shown), FEWEST_BARS) - 0.5, -0.5)  # the worst on top
    note = f": the worst {BARS} of {len(errors):,}" if len(errors) > BARS else ""
    axes.set_title(f"error by asset{note}", fontsize="medium")
    axes.set_xlabel("mean over the asset's windows")
