"""Pictures: report.png with the losses and a window beside its reconstruction, and the latter for TensorBoard."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.dataset.manifest import Manifest

if TYPE_CHECKING:
    from beamfeed.trainer.loop.metrics import Epoch

SHOWN = 3  # features: those that vary most


def write_report(
    path: str, title: str, history: "list[Epoch]", window: np.ndarray, reconstruction: np.ndarray, manifest: Manifest
) -> None:
    """Draws the report into a PNG file, local or gs://

    Args:
      path: of the file.
      title: the job's name.
      history: the lines of metrics.jsonl.
      window: prepared values, `[time, features]`.
      reconstruction: the model's, of the same shape.
      manifest: names the features.
    """
    figure = _figure(11)
    curves, series = figure.subplots(1, 2)
    epochs = [line["epoch"] for line in history]
    curves.plot(epochs, [line["loss"] for line in history], marker=".", label="train")
    evaluated = [(line["epoch"], line["eval_loss"]) for line in history if line["eval_loss"] is not None]
    if evaluated:
        curves.plot(*zip(*evaluated, strict=True), marker=".", label="eval")
    curves.set(title=title, xlabel="epoch", ylabel="mean squared error")
    curves.xaxis.get_major_locator().set_params(integer=True)
    curves.legend()
    _draw_window(series, window, reconstruction, manifest.features)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(_png(figure))


def draw_window(window: np.ndarray, reconstruction: np.ndarray, manifest: Manifest) -> bytes:
    """A window and its reconstruction, both `[time, features]`, as a PNG."""
    figure = _figure(6)
    _draw_window(figure.subplots(), window, reconstruction, manifest.features)
    return _png(figure)


def _draw_window(axes: Any, window: np.ndarray, reconstruction: np.ndarray, features: list[str]) -> None:
    liveliest = np.argsort(-window.var(axis=0), kind="stable")[:SHOWN]
    for color, i in enumerate(liveliest):
        axes.plot(window[:, i], color=f"C{color}", label=features[i])
        axes.plot(reconstruction[:, i], color=f"C{color}", linestyle="--")
    axes.set(title="a window and its reconstruction (dashed)", xlabel="row", ylabel="prepared value")
    axes.legend()


def _figure(width: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, 4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
