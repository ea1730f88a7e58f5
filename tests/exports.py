"""Exports of training runs in tests are asked in the same process, or leave out what is not looked at."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class SameProcess:
    """Stands in for the process of its own that an export is asked in: there, TensorFlow is imported anew."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def ask(self, folder, calls):
        self.calls = calls

    def answers(self, folder):
        import tensorflow as tf

        signatures = tf.saved_model.load(folder).signatures
        return [signatures[call.signature](**call.inputs) for call in self.calls]


@contextmanager
def in_same_process() -> Iterator[None]:
    """Of the many training runs of tests; tests/trainer/export/test_fresh.py asks in a process of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("beamfeed.trainer.export.run.FreshProcess", SameProcess)
        yield


def save_alone(job, manifest, trained, *_):
    """Stands in for `export_run`: the Keras model and the result, without SavedModel and review."""
    from beamfeed.contract.dataset.layout import RunLayout
    from beamfeed.contract.dataset.result import write_result
    from beamfeed.trainer import models
    from beamfeed.trainer.tasks.objective import Objective

    objective = Objective.of(job.train, manifest)
    model = models.build(job.train.model.bare, objective.signature, job.train.seed)
    model.set_weights(trained.weights)
    model.save(RunLayout(job.train.workdir).model)
    write_result(job.train.workdir, trained.result)
