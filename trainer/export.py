"""What a training leaves behind: the Keras model, a SavedModel, the report, and the result, written last."""

import keras
import numpy as np
import tensorflow as tf

from contract.job import Job, SplitName
from contract.layout import RunLayout
from contract.manifest import Manifest
from contract.result import TrainResult, write_result
from trainer import models, report
from trainer.dataset import load
from trainer.history import Epoch
from trainer.shares import windows_in

SAMPLE = 256  # windows among which the report's is chosen


class Serving(tf.Module):
    """The exported module: `serve`, of prepared windows."""

    def __init__(self, model: keras.Model):
        super().__init__()
        self.model = model
        length, features = model.decoder.output_shape[1:]
        self.serve = tf.function(
            self._serve, input_signature=[tf.TensorSpec([None, length, features], tf.float32, name="windows")]
        )

    def _serve(self, windows: tf.Tensor) -> dict[str, tf.Tensor]:
        latent = self.model.encoder(windows, training=False)
        return {"latent": latent, "reconstruction": self.model.decoder(latent, training=False)}


def export_run(
    job: Job, manifest: Manifest, weights: list[np.ndarray], history: list[Epoch], result: TrainResult
) -> None:
    """Writes the model with these weights, the report, and then `result`.

    The model is made anew, outside of every strategy: what is saved knows
    nothing of the machines that trained it.

    Args:
      job: the job.
      manifest: the data set's manifest.
      weights: as `model.get_weights()` returns them.
      history: the lines of metrics.jsonl.
      result: of the training.
    """
    names = RunLayout(job.train.workdir)
    model = models.build(job.train.model, manifest.windows.length, len(manifest.features), job.train.seed)
    model.set_weights(weights)
    model.save(names.model)
    save_serving(model, names.saved_model)
    window = sample_window(job, manifest)
    reconstruction = model(window[None], training=False).numpy()[0]
    report.write_report(names.report, job.name, history, window, reconstruction, manifest)
    write_result(job.train.workdir, result)


def save_serving(model: keras.Model, folder: str) -> None:
    """Writes a SavedModel with the signature `serve` (also the default one).

    It takes float32 `windows` `[batch, time, features]`, prepared, and returns
    `latent` `[batch, latent]` and `reconstruction` `[batch, time, features]`.
    """
    module = Serving(model)
    signature = module.serve.get_concrete_function()
    tf.saved_model.save(module, folder, signatures={"serve": signature, "serving_default": signature})


def sample_window(job: Job, manifest: Manifest) -> np.ndarray:
    """A window of the eval split, or of the train split where that is empty: `[time, features]`.

    Of the first few hundred it is the one that varies most: a flat one shows nothing.
    """
    split: SplitName = "eval" if windows_in(manifest, "eval") else "train"
    skip_corrupt = job.train.feed.skip_corrupt
    batches = load(manifest, job.output.path, split, batch=SAMPLE, remainder="pad", skip_corrupt=skip_corrupt)
    windows, _ = next(iter(batches))
    varies = tf.reduce_sum(tf.math.reduce_variance(windows, axis=1), axis=1)  # what was filled in is all zero
    return windows[tf.argmax(varies)].numpy()
