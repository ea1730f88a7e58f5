"""Writes what a training run leaves behind: the Keras model, a SavedModel, the report, and the result last."""

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.result import write_result
from beamfeed.trainer import models
from beamfeed.trainer.export.saved_model import save_serving
from beamfeed.trainer.loop.plots import sample_window, write_report
from beamfeed.trainer.loop.train import Outcome


def export_run(job: TrainingJob, manifest: Manifest, outcome: Outcome) -> None:
    """Writes the model with the best weights, the report, and then the result.

    The model is made anew, outside of every strategy: what is saved knows
    nothing of the machines that trained it.

    Args:
      job: the job.
      manifest: the dataset's manifest.
      outcome: of the training run.
    """
    names = RunLayout(job.train.workdir)
    model = models.build(job.train.model, manifest.windows.length, len(manifest.features), job.train.seed)
    model.set_weights(outcome.weights)
    model.save(names.model)
    transform = manifest.data_layout(job.output.path).transform_fn
    save_serving(model, manifest, transform, job.prepare.missing, names.saved_model)
    window = sample_window(job, manifest)
    reconstruction = model(window[None], training=False).numpy()[0]
    write_report(names.report, job.name, outcome.epochs, window, reconstruction, manifest)
    write_result(job.train.workdir, outcome.result)
