"""report.png: how the loss went, and one window beside its reconstruction."""

import io

import numpy as np
import tensorflow as tf

from contract.manifest import Manifest
from trainer.history import Epoch

SHOWN = 3  # features: those that vary most


def write_report(
    path: str, title: str, history: list[Epoch], window: np.ndarray, reconstruction: np.ndarray, manifest: Manifest
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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    FigureCanvasAgg(figure)
    curves, series = figure.subplots(1, 2)
    epochs = [line["epoch"] for line in history]
    curves.plot(epochs, [line["loss"] for line in history], marker=".", label="train")
    evaluated = [(line["epoch"], line["eval_loss"]) for line in history if line["eval_loss"] is not None]
    if evaluated:
        curves.plot(*zip(*evaluated, strict=True), marker=".", label="eval")
    curves.set(title=title, xlabel="epoch", ylabel="mean squared error")
    curves.xaxis.get_major_locator().set_params(integer=True)
    curves.legend()
    liveliest = np.argsort(-window.var(axis=0), kind="stable")[:SHOWN]
    for color, i in enumerate(liveliest):
        series.plot(window[:, i], color=f"C{color}", label=manifest.features[i])
        series.plot(reconstruction[:, i], color=f"C{color}", linestyle="--")
    series.set(title="a window and its reconstruction (dashed)", xlabel="row", ylabel="prepared value")
    series.legend()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    with tf.io.gfile.GFile(path, "wb") as file:
        file.write(buffer.getvalue())
