"""Pictures: report.png with the losses and a window beside its reconstruction, and the latter for TensorBoard."""

import io
from typing import Any

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.split import SplitName
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.trainer.feed.dataset import load_dataset
from beamfeed.trainer.feed.sharding import windows_in
from beamfeed.trainer.loop.metrics import Epoch

SAMPLE = 256  # windows among which the one of the pictures is chosen
SHOWN = 3  # features: those that vary most


def write_report(
    path: str, title: str, epochs: list[Epoch], window: np.ndarray, reconstruction: np.ndarray, manifest: Manifest
) -> None:
    """Draws the report into a PNG file, local or gs://.

    Args:
      path: of the file.
      title: the job's name.
      epochs: the lines of metrics.jsonl.
      window: preprocessed values, `[time, features]`.
      reconstruction: the model's, of the same shape.
      manifest: names the features.
    """
    figure = _figure(11)
    curves, series = figure.subplots(1, 2)
    numbers = [line["epoch"] for line in epochs]
    curves.plot(numbers, [line["loss"] for line in epochs], marker=".", label="train")
    evaluated = [(line["epoch"], line["eval_loss"]) for line in epochs if line["eval_loss"] is not None]
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
    axes.set(title="a window and its reconstruction (dashed)", xlabel="row", ylabel="scaled value")
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


def sample_window(job: TrainingJob, manifest: Manifest) -> np.ndarray:
    """A window of the eval split, or of the train split where that is empty: `[time, features]`.

    Of the first few hundred it is the one that varies most: a flat one shows nothing.
    """
    split: SplitName = "eval" if windows_in(manifest, "eval") else "train"
    skip_corrupt = job.train.feed.skip_corrupt
    batches = load_dataset(
        job.output.path, split, batch_size=SAMPLE, remainder="pad", skip_corrupt=skip_corrupt, manifest=manifest
    )
    windows, _ = next(iter(batches))
    varies = tf.reduce_sum(tf.math.reduce_variance(windows, axis=1), axis=1)  # what was filled in is all zero
    return windows[tf.argmax(varies)].numpy()
