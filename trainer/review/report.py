"""report.png: the losses, single windows, what the tasks draw, and how errors are spread."""

from collections.abc import Callable, Mapping, Sequence
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
    """One window, and what the model makes of it.

    Attributes:
      name: why it was chosen, such as `worst`.
      place: its asset and time, as far as they are known.
      loss: of it.
      samples: of it alone, by output.
      images: its inputs that are images, by name.
    """

    name: str
    place: str
    loss: float
    samples: Mapping[str, Sample]
    images: Mapping[str, np.ndarray] = {}


def draw_report(
    title: str,
    objective: Objective,
    result: TrainResult,
    epochs: Sequence[Mapping[str, Any]],
    floor: TrainResult | None,
    scores: Scores,
    errors: Sequence[AssetError],
    chosen: Sequence[Chosen],
    inputs: TrainingInputs = TrainingInputs({}),
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
      chosen: windows by themselves.
      inputs: inputs that are images, as training gets them.
    """
    reached = {} if floor is None else {LOSS: floor.best_loss, **floor.metrics}
    best, watched = best_step(epochs, result), result.watched
    curves = {LOSS: objective.loss_name, **({} if watched == LOSS else {watched: watched.replace("_", " ")})}
    panels: list[Callable[[Any], None]] = [
        lambda part, name=name, label=label: draw_curve(  # type: ignore[misc]
            part.subplots(), epochs, name, label, best, reached.get(name)
        )
        for name, label in curves.items()
    ]
    singles = [name for name, task in objective.tasks.items() if task.shows_windows]
    for name in scores.outputs:
        panels.append(lambda part, name=name: _draw_task(part, objective, name, scores.outputs[name]))  # type: ignore[misc]
    panels.append(lambda part: draw_losses(part.subplots(), scores, objective.loss_name))
    if len(errors) > 1:
        panels.append(lambda part: draw_assets(part.subplots(), errors))
    if inputs.images:
        panels.append(lambda part: draw_inputs(part, inputs))
    images = list(chosen[0].images) if chosen else []
    below = len(singles) + len(images)
    rows = in_rows(len(panels))
    figure = figures.figure(PANEL[0] * max([*rows, *([len(chosen)] if below else [])]), PANEL[1] * (len(rows) + below))
    figure.suptitle(title, fontsize="large")
    parts = list(figure.subfigures(len(rows) + below, 1, squeeze=False)[:, 0])
    drawings = iter(panels)
    for part, count in zip(parts, rows, strict=False):
        for place in part.subfigures(1, count, squeeze=False)[0]:
            next(drawings)(place)
    for part, name in zip(parts[len(rows) + len(singles) :], images, strict=True):
        _draw_images(part, objective, name, chosen)
    for part, name in zip(parts[len(rows) :], singles, strict=False):
        shown = [window.samples[name] for window in chosen]
        truth, output = (
            np.concatenate(values) for values in zip(*((window.truth, window.output) for window in shown), strict=True)
        )
        captions = [f"{name}: {_caption(window)}" if objective.several else _caption(window) for window in chosen]
        places = list(part.subfigures(1, len(chosen), squeeze=False)[0])
        x = None if shown[0].x is None else np.concatenate([window.x for window in shown])
        objective.tasks[name].draw_windows(places, Sample(truth, output, shown[0].columns, x), captions)
    return figures.png(figure)


def in_rows(count: int) -> list[int]:
    """How many of so many panels stand in each row: as alike as can be."""
    rows = -(-count // COLUMNS)
    return [count // rows + (row < count % rows) for row in range(rows)]


def _draw_task(part: Any, objective: Objective, name: str, sample: Sample) -> None:
    objective.tasks[name].draw(part, sample)
    if objective.several:
        part.suptitle(name, fontsize="medium")


def _draw_images(part: Any, objective: Objective, name: str, chosen: Sequence[Chosen]) -> None:
    """An input of the chosen windows, with what is true of each and what the model says."""
    for window, place in zip(chosen, part.subplots(1, len(chosen), squeeze=False)[0], strict=True):
        draw_image(place, window.images[name])
        lines = [
            f"{output}: {line}" if objective.several else line
            for output, sample in window.samples.items()
            if (line := objective.tasks[output].say(sample))
        ]
        place.set_title("\n".join([_caption(window), *lines]), fontsize="small")


def _caption(window: Chosen) -> str:
    place = f"{window.place}\n" if window.place else ""
    return f"{window.name}: {place}error {window.loss:.4g}"


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
    best: int | None = None,
    reached: float | None = None,
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
