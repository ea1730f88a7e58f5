"""Figures as PNG bytes, drawn without a display."""

import io
import logging
from typing import Any


def figure(width: float) -> Any:
    """An empty matplotlib figure, `width` inches by 4."""
    # The first one on a machine looks at all its fonts, and tells of it when that takes long.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, 4), layout="constrained")
    FigureCanvasAgg(made)
    return made


def png(figure: Any) -> bytes:
    """The bytes of the figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
