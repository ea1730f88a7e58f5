"""Small datasets of encoded images: stripes across or upright, which a small network learns in seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf
from datasets import write_dataset

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Manifest

CLASSES = ["across", "upright"]
HEIGHT, WIDTH = 20, 16
FIELDS = [
    Field(name="image", dtype="bytes", role="input", content="image"),
    Field(name="label", dtype="int64", role="target", classes=CLASSES),
    Field(name="path", dtype="bytes", role="key"),
]
RAW = Field(name="image", dtype="uint8", shape=(HEIGHT, WIDTH, 3), role="input")


@dataclass(frozen=True)
class Images:
    """A dataset on disk, and the pixels of its images: by the path, uint8 `[height, width, 3]`."""

    output: str
    manifest: Manifest
    pixels: dict[str, np.ndarray]


def stripes(number: int, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """One image, uint8 `[height, width, 3]`; of an odd number with upright stripes."""
    random = np.random.default_rng([3, number])
    length = width if number % 2 else height
    wave = 90 * np.sin(np.arange(length) * random.uniform(1.0, 2.0) + random.uniform(0, 6))
    image = (
        128 + (wave[None, :, None] if number % 2 else wave[:, None, None]) + random.normal(0, 12, (height, width, 3))
    )
    return np.clip(image, 0, 255).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    return tf.io.encode_png(pixels).numpy()


def write_images(
    output: str, counts: Sequence[int] = (40, 12, 8), *, raw: bool = False, shards: int = 2, per_record: int = 1
) -> Images:
    """Images of three splits, a row each; PNGs, as these are decoded to the very pixels."""
    pixels, splits, first = {}, {}, 0
    for split, count in zip(("train", "eval", "test"), counts, strict=True):
        rows = []
        for number in range(first, first + count):
            path = f"{CLASSES[number % 2]}/{number:04d}.png"
            pixels[path] = stripes(number)
            rows.append((pixels[path] if raw else png(pixels[path]), number % 2, path.encode()))
        first += count
        parts = [rows[shard::shards] for shard in range(shards)]
        splits[split] = [
            [
                dict(zip(("image", "label", "path"), zip(*part[at : at + per_record], strict=True), strict=True))
                for at in range(0, len(part), per_record)
            ]
            for part in parts
        ]
    fields = [RAW, *FIELDS[1:]] if raw else FIELDS
    return Images(output, write_dataset(output, fields, splits), pixels)


def image_job(output: str, workdir: str, **train: object) -> TrainingJob:
    """A job with a network that learns stripes in some seconds."""
    section = {
        "model": {"name": "residual", "filters": [4, 8], "blocks": 1},
        "task": {"name": "classify"},
        "inputs": {"image": {"size": [HEIGHT, WIDTH]}},
        "feed": {"batch_size": 8, "shuffle": 64},
        "optimizer": {"learning_rate": 0.01},
        "epochs": 2,
        "review": {"baselines": "none"},
        "workdir": workdir,
        **train,
    }
    return TrainingJob.model_validate(
        {
            "name": "stripes",
            "source": {"kind": "table", "files": "*.csv"},
            "features": {"x": "pass"},
            "label": {"column": "label", "classes": CLASSES},
            "output": {"path": output},
            "train": section,
        }
    )
