"""Writes what a training run leaves behind: the Keras model, a SavedModel, the review, and the result last."""

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras
import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.columns import resolve_ranges
from beamfeed.contract.config.features import key_columns
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.model import Linear
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.fingerprint import run_fingerprint
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.manifest import Manifest
from beamfeed.contract.dataset.raw_rows import read_raw_rows
from beamfeed.contract.dataset.raw_values import read_raw_values
from beamfeed.contract.dataset.result import TrainResult, read_result, write_result
from beamfeed.contract.errors import first_line
from beamfeed.trainer import models
from beamfeed.trainer.export.fresh import FreshProcess, check_answers
from beamfeed.trainer.export.sample import sample_calls
from beamfeed.trainer.export.saved_model import WindowServing, save_serving
from beamfeed.trainer.export.serving import Serving
from beamfeed.trainer.loop.metrics import WRITERS
from beamfeed.trainer.loop.train import TrainedModel
from beamfeed.trainer.review.look_back import latent_size, look_back, most_windows
from beamfeed.trainer.review.reading import training_windows
from beamfeed.trainer.tasks.base import Guess
from beamfeed.trainer.tasks.objective import Objective
from beamfeed.trainer.tasks.regress import Regress

Saved = tuple[Objective, keras.Model, Serving]  # what was learned, the model, and the module of the SavedModel


def export_run(
    job: TrainingJob, manifest: Manifest, trained: TrainedModel, phase: Callable[[str], None] = lambda _: None
) -> None:
    """Writes the model with the best weights, a review of it, and then the result.

    The model is made anew, outside of every strategy: what is saved knows
    nothing of the machines that trained it. So the SavedModel is compared with the
    model that was trained, in a fresh process. `phase` is called with what goes on.

    Raises:
      JobFailed: if the SavedModel gives something else than the model.
    """
    phase("exporting")
    with exported(job, manifest, trained) as (objective, model, module):
        phase("comparing with simple models")  # which are fitted, for a minute where there are many classes
        try:
            review(job, manifest, objective, model, trained, last_value(job, manifest, objective, module))
        except Exception as error:  # the model is exported: a week's training is worth more than its review
            problem = f"the model is exported, but its review could not be written: {type(error).__name__}"
            print(f"train: {problem}: {first_line(error)}", file=sys.stderr)  # also where little is told
    write_result(job.train.workdir, trained.result)


def export_model(job: TrainingJob, manifest: Manifest, trained: TrainedModel, *, check: bool) -> None:
    """Writes the model with the best weights alone, as `export_run` does.

    To compare it takes seconds, and of many models of one job the graph is the same: `check` says whether it is done.

    Raises:
      JobFailed: if the SavedModel gives something else than the model.
    """
    if not check:
        save(job, manifest, trained)
        return
    with exported(job, manifest, trained):
        pass


@contextmanager
def exported(job: TrainingJob, manifest: Manifest, trained: TrainedModel) -> Iterator[Saved]:
    """Writes a model, and compares it when the block ends: so long another process loads it."""
    folder, layout = RunLayout(job.train.workdir).saved_model, manifest.data_layout(job.output.path)
    with FreshProcess() as stranger:
        objective, model, module = save(job, manifest, trained)
        # With fewer bits, the model that was trained gives other numbers than the same weights in float32.
        exact = model if trained.model is None or job.train.devices.precision != "float32" else trained.model
        calls = sample_calls(job, manifest, objective, exact, module, read_raw_rows(layout.raw_rows))
        stranger.ask(folder, calls)
        yield objective, model, module
        check_answers(folder, calls, stranger.answers(folder), objective.constants())


def save(job: TrainingJob, manifest: Manifest, trained: TrainedModel) -> Saved:
    """Writes the Keras model and the SavedModel."""
    names, layout = RunLayout(job.train.workdir), manifest.data_layout(job.output.path)
    objective = Objective.of(job.train, manifest)
    objective.settle(trained.result.metrics)
    model = models.build(job.train.model.bare, objective.signature, job.train.seed)
    model.set_weights(trained.weights)
    model.save(names.model)
    most = most_windows(job, objective, trained.result)
    objective.fit(lambda: training_windows(job, manifest, objective, most), latent_size(model, objective))
    ranges = resolve_ranges(job.prepare.range, manifest.features)
    unused, raw = key_columns(job.features), read_raw_values(layout.raw_values)
    with replacing(names.saved_model) as folder:
        module = save_serving(
            model, objective, manifest, layout.transform_fn, job.prepare.missing, folder, ranges, unused, raw
        )
    return objective, model, module


@contextmanager
def replacing(folder: str) -> Iterator[str]:
    """A folder to write, which takes the place of this one once it is whole: nobody reads a mixture of two models.

    In a bucket, where folders cannot be renamed, it is this one, and what was there goes first: half of a SavedModel is
    none, as saved_model.pb is written after its variables.
    """
    if storage.is_remote(folder):
        storage.remove_tree(folder)
        yield folder
        return
    new = f"{folder}.new"
    storage.remove_tree(new)  # of an export that was cut off
    yield new
    storage.remove_tree(folder)
    os.rename(new, folder)


def review(
    job: TrainingJob, manifest: Manifest, objective: Objective, model: keras.Model, trained: TrainedModel,
    last: Guess | None,
) -> None:  # fmt: skip
    """Writes how good the model is, and shows its report where the metrics went."""
    floor = find_floor(job.train, manifest)
    png = look_back(job, manifest, objective, model, trained.result, trained.epochs, floor, last)
    for name in job.train.writers:
        writer = WRITERS[name](RunLayout(job.train.workdir), job, trained.result.steps)
        writer.pictures(trained.result.steps, {"report": png})
        writer.close(finished=True)


def last_value(job: TrainingJob, manifest: Manifest, objective: Objective, module: Serving) -> Guess | None:
    """The guess of a later value that costs nothing: what the target's own column holds in the last row of a window.

    None where none is wanted, the column is no feature, or each asset has a scale of its own.
    """
    if not all(isinstance(task, Regress) for task in objective.tasks.values()):
        return None
    targets = {task.goal.target for task in objective.tasks.values() if isinstance(task, Regress)}
    label = next((section for section in job.label if {section.name} == targets and section.at == "horizon"), None)
    if label is None or label.column not in manifest.features:
        return None
    if not isinstance(module, WindowServing) or module.transform is None or module.per_asset:
        return None
    place, most = manifest.features.index(label.column), label.cap or math.inf
    return lambda windows, _: tf.minimum(module.restore(windows, None)[:, -1, place, None], most)


def find_floor(train: Train, manifest: Manifest) -> TrainResult | None:
    """What a linear model reached on the same, if `beamfeed` trained it before: see `train.floor`."""
    result = read_result(RunLayout(train.workdir).floor) if train.floor else None
    same = train.model_copy(update={"model": Linear(name="linear"), "floor": False})
    return result if result is not None and result.fingerprint == run_fingerprint(same, manifest.fingerprint) else None
