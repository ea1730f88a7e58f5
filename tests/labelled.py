"""A small dataset of windows with a class, a number and a weight each, and jobs on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import write_dataset

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest

LENGTH, STRIDE, FEATURES = 8, 4, 3
CLASSES = ["ok", "worn", "broken"]
FIELDS = [
    Field(name="asset", dtype="bytes", role="key", per="record"),
    Field(name="values", dtype="float32", shape=(FEATURES,), role="input", columns=["a", "b", "c"]),
    Field(name="fault", dtype="int64", role="target", per="window", classes=CLASSES),
    Field(name="hot", dtype="int64", role="target", per="window", classes=["no", "yes"]),
    Field(name="life", dtype="float32", role="target", per="window"),
    Field(name="importance", dtype="float32", role="weight", per="window"),
]
LABELS = [  # of the job
    {"name": "fault", "column": "f", "classes": CLASSES},
    {"name": "hot", "column": "h", "classes": ["no", "yes"]},
    {"name": "life", "column": "l"},
    {"name": "importance", "column": "i", "role": "weight"},
]


@dataclass
class Labelled:
    """A dataset on disk, and by split what a batch of all its windows must hold."""

    output: str
    manifest: Manifest
    fields: dict[str, dict[str, np.ndarray]]


def write_labelled(output: str, windows: dict[str, int] | None = None, seed: int = 3) -> Labelled:
    """Series whose level says the class and the number, with noise: so many windows, five in a record."""
    rng = np.random.default_rng(seed)
    splits: dict[str, Any] = {}
    expected: dict[str, dict[str, np.ndarray]] = {}
    for split, count in (windows or {"train": 61, "eval": 21, "test": 11}).items():
        records = []
        for first in range(0, count, 5):
            some = min(5, count - first)
            level = rng.uniform(-1, 1, some)
            values = np.repeat(level, STRIDE)[:, None] + 0.2 * rng.normal(size=(STRIDE * some, FEATURES))
            values = np.concatenate([values, values[-1:].repeat(LENGTH - STRIDE, 0)]).astype("f4")
            records.append(
                {
                    "asset": [b"x"],
                    "values": values,
                    "fault": np.digitize(level, [-0.2, 0.6]),
                    "hot": (level > 0.1).astype(int),
                    "life": (1000 + 50 * level).astype("f4"),
                    "importance": rng.uniform(0.5, 2, some).astype("f4"),
                }
            )
        splits[split] = [records[::2], records[1::2]]
        expected[split] = batch_of([record for shard in splits[split] for record in shard])
    manifest = write_dataset(output, FIELDS, splits, Windows(length=LENGTH, stride=STRIDE))
    return Labelled(output, manifest, expected)


def batch_of(records: Sequence[Any]) -> dict[str, np.ndarray]:
    """All windows of some records, by a plain loop."""
    found: dict[str, list[Any]] = {field.name: [] for field in FIELDS if field.role != "key"}
    for record in records:
        for number, start in enumerate(range(0, len(record["values"]) - LENGTH + 1, STRIDE)):
            found["values"].append(record["values"][start : start + LENGTH])
            for name in ("fault", "hot", "life", "importance"):
                found[name].append(record[name][number])
    return {name: np.array(values) for name, values in found.items()}


def labelled_job(output: str, **train: Any) -> TrainingJob:
    """A job with a model small enough to train in a second."""
    section = {
        "model": {"name": "recurrent", "cell": "gru", "units": [4]},
        "task": {"name": "classify", "target": "fault"},
        "feed": {"batch_size": 9, "shuffle": 32},
        "optimizer": {"name": "adam", "learning_rate": 0.02},
        "epochs": 2,
        "review": {"baselines": "none"},
        **train,
    }
    return TrainingJob.model_validate(
        {
            "name": "tiny",
            "source": {"kind": "timeseries", "files": "*.csv", "time": {"column": "t"}, "features": ["a"]},
            "windows": {"length": LENGTH, "stride": STRIDE},
            "label": LABELS,
            "output": {"path": output},
            "train": section,
        }
    )
