"""Where the metrics of a training run are written beside metrics.jsonl. All of them are told the same, on the chief."""

import csv
import io
import json
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from beamfeed.contract import storage
from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.train import Train
from beamfeed.contract.dataset.fingerprint import leaves
from beamfeed.contract.dataset.layout import RunLayout


class Writer:
    """Is told of a training run; does nothing of itself."""

    def steps(self, step: int, values: Mapping[str, float]) -> None:
        """Means over the steps of a call, by name, after so many steps."""

    def evaluation(self, lines: list[dict[str, Any]]) -> None:
        """All lines of metrics.jsonl; the last one is new."""

    def pictures(self, step: int, pngs: Mapping[str, bytes]) -> None:
        """What the model makes of a sample, by name."""

    def close(self, finished: bool) -> None:
        """Nothing comes any more; whether the run came to its end."""


class TensorBoard(Writer):
    """The folder `tensorboard`: scalars of calls under `steps/`, of evaluations by their names, and pictures.

    The tab HParams has the keys that the job sets in its section `train`, so that runs can be compared by them.
    """

    def __init__(self, names: RunLayout, job: TrainingJob, step: int):
        from tensorboard.plugins.hparams import api

        self._writer = tf.summary.create_file_writer(names.tensorboard)
        with self._writer.as_default(step=step):
            api.hparams(hparams(job.train), trial_id=names.workdir)

    def steps(self, step: int, values: Mapping[str, float]) -> None:
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.scalar(f"steps/{name}", value)

    def evaluation(self, lines: list[dict[str, Any]]) -> None:
        with self._writer.as_default(step=lines[-1]["step"]):
            for name, value in lines[-1].items():
                if name not in ("epoch", "step") and value is not None:
                    tf.summary.scalar(name, value)
        self._writer.flush()

    def pictures(self, step: int, pngs: Mapping[str, bytes]) -> None:
        with self._writer.as_default(step=step):
            for name, png in pngs.items():
                tf.summary.image(name, tf.image.decode_png(png, channels=3)[None])
        self._writer.flush()

    def close(self, finished: bool) -> None:
        self._writer.close()


def hparams(train: Train) -> dict[str, bool | int | float | str]:
    """The keys that a job sets in its section `train`, without its folder: numbers as they are, lists as JSON."""
    values = leaves(train.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"workdir"}))
    return {
        key: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for key, value in values
        if value is not None
    }


class Csv(Writer):
    """The file metrics.csv: a line for each evaluation, a column for each name; empty where there is no number."""

    def __init__(self, names: RunLayout, job: TrainingJob, step: int):
        self._path = names.metrics_csv

    def evaluation(self, lines: list[dict[str, Any]]) -> None:
        columns = list(dict.fromkeys(name for line in lines for name in line))  # metrics may be added to a job
        text = io.StringIO()
        table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
        storage.write_text(self._path, text.getvalue())
