"""Exports of training runs in tests are asked in the same process."""

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
