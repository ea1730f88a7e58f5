"""Figures as SVG, drawn without a display, in one style; names in them are plain text."""

import io
import logging
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from beamfeed.transforms.reporting.page import Picture, harmless

WIDTH, HEIGHT = 3.6, 2.3  # inches, 72 dots each: a telephone's width
DPI = 180  # of points that are many
# Okabe and Ito: told apart by most who do not see all colours.
COLORS = {"train": "#0072B2", "eval": "#E69F00", "test": "#009E73"}
MARKED, QUIET = "#D55E00", "#6b7585"
MANY = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
LINES = {"train": "-", "eval": "--", "test": ":"}
LETTERS = 22  # of a name in a figure
STYLE = {
    "font.family": "sans-serif", "font.size": 8, "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": QUIET, "axes.linewidth": 0.8, "axes.labelcolor": "#3c4654", "xtick.color": "#3c4654",
    "ytick.color": "#3c4654", "axes.grid": True, "grid.color": "#e6e9ee", "axes.axisbelow": True,
    "legend.frameon": False, "legend.fontsize": 7.5, "lines.linewidth": 1.4, "svg.fonttype": "none",
    "svg.hashsalt": "beamfeed", "text.parse_math": False, "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 5), "path.simplify_threshold": 0.5,
}  # fmt: skip


def draw(how: Callable[[Any], None], caption: str = "", *, height: float = HEIGHT) -> Picture:
    """A picture of one set of axes.

    Args:
      how: draws on matplotlib's axes.
      caption: of the picture.
      height: in inches.
    """
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(cast(Any, STYLE)), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of glyphs, which the reader's fonts have, and of dates
        figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained")
        how(figure.subplots())
        buffer = io.BytesIO()
        # savefig draws twice, for outlines that are cut to what is drawn.
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return Picture(buffer.getvalue(), caption)


def above(axes: Any) -> None:
    """A legend in one line over the axes, where it hides nothing."""
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderpad=0.1, columnspacing=1)


def short(name: object, letters: int = LETTERS) -> str:
    """A name that fits into a figure."""
    plain = " ".join(harmless(str(name)).split())
    return plain if len(plain) <= letters else f"{plain[: letters - 1]}…"


def edges_of(parts: list[np.ndarray], bins: int = 40) -> np.ndarray:
    """Edges of a histogram that fits several sets of numbers: what is far out goes into the last bins."""
    numbers = np.concatenate([part[np.isfinite(part)] for part in parts]) if parts else np.zeros(0)
    if not len(numbers):
        return np.linspace(0, 1, bins + 1)
    low, high = np.quantile(numbers, [0.005, 0.995])
    if not high > low:
        low, high = numbers.min(), numbers.max()
    if not high > low:
        around = max(abs(float(low)) / 100, 0.5)
        low, high = low - around, high + around
    return np.linspace(low, high, bins + 1)


def histograms(axes: Any, by_split: Mapping[str, np.ndarray]) -> None:
    """How numbers are spread in each split, with a legend: train filled, the others as lines over it."""
    edges = edges_of(list(by_split.values()))
    for split, values in by_split.items():
        filled = split == "train"
        axes.stairs(shares(values, edges), edges, color=COLORS[split], linestyle=LINES[split], label=split,
                    linewidth=1.3, fill=filled, alpha=0.35 if filled else 1)  # fmt: skip
    above(axes)


def shares(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """The share of the numbers in each bin, what is outside in the first and last one."""
    known = values[np.isfinite(values)]
    counts, _ = np.histogram(np.clip(known, edges[0], edges[-1]), edges)
    return counts / max(1, len(known))
