"""Figures as PNG bytes, drawn without a display."""

import io
import logging
from typing import Any

DPI = 140  # sharp when shown twice as large


def figure(width: float, height: float) -> Any:
    """An empty matplotlib figure of so many inches."""
    # The first one on a machine looks at all its fonts, and tells of it when that takes long.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure_ = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure_)
    return figure_


def png(figure: Any) -> bytes:
    """The bytes of the figure as a PNG file; names with `$` in it are no formulas."""
    from matplotlib.text import Text

    powers = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in (axis.get_ticklabels(which="both") if axis.get_scale() == "log" else ())
    }
    for text in set(figure.findobj(Text)) - powers:
        text.set_parse_math(False)
    buffer = io.BytesIO()
    figure.canvas.print_png(buffer)  # savefig draws twice, for outlines that are cut to what is drawn
    return buffer.getvalue()
