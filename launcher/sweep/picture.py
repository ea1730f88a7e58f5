"""The picture of a sweep: the metric by trial, and by the values of each key."""

import io
import logging
from collections.abc import Sequence
from typing import Any

from beamfeed.launcher.sweep.results import Leaderboard, Place, short_names, shown
from beamfeed.launcher.sweep.space import Dimension

PANEL = (4.2, 3.2)  # inches
COLUMNS = 3
DPI = 140
DONE, PRUNED, BEST = "tab:blue", "tab:orange", "tab:red"


def draw(board: Leaderboard, dimensions: Sequence[Dimension]) -> bytes:
    """PNG bytes of a panel of all trials, and one for each key."""
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)  # it tells of a look at all fonts
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    count = 1 + len(dimensions)
    columns = min(COLUMNS, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    for unused in panels[count:]:
        unused.set_axis_off()
    _draw_trials(panels[0], board)
    names = short_names([dimension.key for dimension in dimensions])
    for panel, dimension in zip(panels[1:], dimensions, strict=False):
        _draw_key(panel, board, dimension, names[dimension.key])
    for panel in panels[:count]:
        panel.set_ylabel(board.metric.replace("_", " "))
        panel.grid(alpha=0.3)
        _scale(panel, [place.value for place in board.places if place.value is not None])
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()


def _scale(panel: Any, values: Sequence[float]) -> None:
    """Values that differ by powers of ten are told apart only on a scale of these."""
    if min(values) > 0 and max(values) > 10 * min(values):
        panel.set_yscale("log")


def _draw_trials(panel: Any, board: Leaderboard) -> None:
    best: list[float] = []
    trials = sorted((trial for trial in board.places if trial.state == "done"), key=lambda trial: trial.number)
    pick = max if board.high_is_good else min
    for trial in trials:
        best.append(pick([*best[-1:], trial.value or 0.0]))
    _dots(panel, board, lambda trial: trial.number)
    panel.step([trial.number for trial in trials], best, where="post", color=DONE, alpha=0.5, label="best so far")
    failed = [trial.number for trial in board.places if trial.state == "failed"]
    if failed:
        panel.plot(
            failed, [0.02] * len(failed), "x", color="gray", transform=panel.get_xaxis_transform(), label="failed"
        )
    panel.set_xlabel("trial")
    panel.xaxis.get_major_locator().set_params(integer=True)


def _draw_key(panel: Any, board: Leaderboard, dimension: Dimension, name: str) -> None:
    panel.set_xlabel(name)
    if dimension.range is None:
        choices = list(dimension.choices)
        _dots(panel, board, lambda trial: choices.index(trial.params[dimension.key]))
        panel.set_xticks(range(len(choices)), [shown(choice) for choice in choices])
        panel.set_xlim(-0.5, len(choices) - 0.5)
        return
    _dots(panel, board, lambda trial: trial.params[dimension.key])
    if dimension.range.log:
        panel.set_xscale("log")


def _dots(panel: Any, board: Leaderboard, place: Any) -> None:
    """The trials with a value: done, pruned, and the best."""

    def dots(trials: Sequence[Place], **style: Any) -> None:
        if trials:
            panel.plot([place(trial) for trial in trials], [trial.value for trial in trials], linestyle="", **style)

    valued = [trial for trial in board.places if trial.value is not None]
    dots([trial for trial in valued if trial.state == "pruned"], marker="v", color=PRUNED, alpha=0.7, label="pruned")
    dots([trial for trial in valued if trial.state == "done"], marker="o", color=DONE, alpha=0.7, label="done")
    dots([] if board.best is None else [board.best], marker="*", markersize=13, color=BEST, label="best")
