"""The SavedModel of encoded images: each damage is told, and none gets a prediction."""

import io

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest
from beamfeed.trainer import models
from beamfeed.trainer.export.saved_model import save_serving
from beamfeed.trainer.tasks.objective import Objective


def test_an_image_that_is_empty_or_damaged_gets_no_prediction(tmp_path):
    fields = [
        Field(name="image", dtype="bytes", role="input", content="image"),
        Field(name="y", dtype="float32", role="target"),
    ]
    manifest = Manifest(
        name="tiny", kind="image", fingerprint="0f" * 32, data="data-0f", fields=fields,
        windows=Windows(length=1, stride=1), records="segments", compression="none",
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1), splits={},
    )  # fmt: skip
    job = TrainingJob.model_validate({
        "name": "tiny", "source": {"kind": "image", "files": "*.png"}, "label": {"name": "y", "column": "y"},
        "output": {"path": str(tmp_path / "data")},
        "train": {
            "model": {"name": "multi_input", "filters": [], "units": [4]}, "task": {"name": "regress", "target": "y"},
            "inputs": {"image": {"size": [3, 4]}}, "workdir": str(tmp_path / "run"),
        },
    })  # fmt: skip
    objective = Objective.of(job.train, manifest)
    model = models.build(job.train.model.bare, objective.signature, 0)
    save_serving(model, objective, manifest, str(tmp_path / "none"), job.prepare.missing, str(tmp_path / "out"))
    serve = tf.saved_model.load(str(tmp_path / "out")).signatures["serving_default"]
    rng = np.random.default_rng(0)
    for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP"):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (9, 8, 3), "u1")).save(file, kind)
        whole = file.getvalue()
        assert np.isfinite(serve(image=tf.constant([whole, whole]))["prediction"]).all()
        for damaged in (b"", whole[:3], whole[:20], whole[: len(whole) // 2], whole[1:], b" "):
            with pytest.raises(tf.errors.InvalidArgumentError):
                serve(image=tf.constant([whole, damaged]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="image: one holds no bytes"):
        serve(image=tf.constant([b""]))
