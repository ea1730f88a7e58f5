"""What a training run leaves behind, and what asks it to stop."""

import glob
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.cluster.watchdog import Watchdog

TIMES = ("seconds", "windows_per_second", "waiting")  # of a line, which are others each time
Line = dict[str, Any]


def lines(job: TrainingJob) -> list[Line]:
    """Those of metrics.jsonl."""
    with open(RunLayout(job.train.workdir).metrics) as file:
        return [json.loads(line) for line in file]


def without_times(found: Iterable[Line]) -> list[Line]:
    return [{name: value for name, value in line.items() if name not in TIMES} for line in found]


def exported(job: TrainingJob) -> keras.Model:
    return keras.saving.load_model(RunLayout(job.train.workdir).model)


def summaries(job: TrainingJob) -> Iterator[tuple[int, Any]]:
    """What TensorBoard shows: the step of each value, and the value as the event has it."""
    for path in sorted(glob.glob(os.path.join(RunLayout(job.train.workdir).tensorboard, "events*"))):
        for serialized in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(serialized.numpy())
            for value in event.summary.value:
                yield event.step, value


def pictures(job: TrainingJob) -> dict[str, bytes]:
    """The last PNG of each name in TensorBoard."""
    return {
        value.tag: tf.make_ndarray(value.tensor)[2]
        for _, value in summaries(job)
        if value.metadata.plugin_data.plugin_name == "images"
    }


class Stopping(Watchdog):
    """Asks to stop after some calls, as SIGTERM would."""

    def __init__(self, calls: int):
        super().__init__()
        self._calls = calls

    def alive(self, what: str, takes: float = 0.0) -> None:
        self._calls -= what == "training"
        self.stop_asked = self._calls <= 0
