"""A trainer in a process of its own."""

import os
import shutil
import sys

import pytest

from beamfeed.contract.errors import JobFailed
from beamfeed.transforms.groups.trainer import Trainer


def test_one_that_cannot_be_started_is_told_each_time(monkeypatch):
    trainer = Trainer()
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    for _ in range(2):
        with pytest.raises(JobFailed, match="a trainer cannot be started: the trainer ended with exit code 1"):
            trainer.get_ready()
        assert not os.path.exists(trainer.folder)
