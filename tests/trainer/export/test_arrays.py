"""The SavedModel of arrays of which one is scaled in preprocessing, and another one decoded in training."""

import numpy as np
import tensorflow as tf

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest
from beamfeed.trainer import models
from beamfeed.trainer.export.saved_model import save_serving
from beamfeed.trainer.tasks.objective import Objective

OFFSET, DIVISOR = np.array([500.0, -3.0], "f4"), np.array([100.0, 0.5], "f4")


def write_transform(folder: str) -> None:
    """A graph as tensorflow-transform saves it: of the rows' numbers and of one scaled input."""
    module = tf.Module()
    specs = {"row": tf.TensorSpec([None], tf.int64, "row"), "sums": tf.TensorSpec([None, 2], tf.float32, "sums")}
    scale = tf.function(lambda given: {"row": given["row"], "sums": (given["sums"] - OFFSET) / DIVISOR})
    module.transform_fn = scale.get_concrete_function(specs)
    tf.saved_model.save(module, folder)


def test_raw_values_are_scaled_and_then_decoded(tmp_path):
    fields = [
        Field(name="row", dtype="int64", role="key"),
        Field(name="image", dtype="uint8", shape=(6, 8, 3), role="input"),
        Field(name="sums", dtype="float32", shape=(2,), role="input"),
        Field(name="y", dtype="float32", role="target"),
    ]
    manifest = Manifest(
        name="tiny", kind="array", fingerprint="0f" * 32, data="data-0f", fields=fields,
        windows=Windows(length=1, stride=1), records="segments", compression="none",
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=1), splits={},
    )  # fmt: skip
    job = TrainingJob.model_validate({
        "name": "tiny",
        "source": {"kind": "array", "inputs": {"image": "i.npy", "sums": "s.npy"}, "outputs": {"y": "y.npy"}},
        "output": {"path": str(tmp_path / "data")},
        "train": {
            "model": {"name": "multi_input", "filters": [], "units": [4]},
            "task": {"name": "regress", "target": "y"},
            "inputs": {"image": {"size": [3, 4], "augment": {"brightness": 0.5}}},
            "workdir": str(tmp_path / "run"),
        },
    })  # fmt: skip
    write_transform(str(tmp_path / "transform"))
    objective = Objective.of(job.train, manifest)
    model = models.build(job.train.model.bare, objective.signature, 0)
    save_serving(model, objective, manifest, str(tmp_path / "transform"), job.prepare.missing, str(tmp_path / "out"))
    found = tf.saved_model.load(str(tmp_path / "out"))

    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (5, 3, 4, 3), "u1").repeat(2, 1).repeat(2, 2)  # each pixel of a smaller one four times
    sums = rng.normal(OFFSET, DIVISOR, (5, 2)).astype("f4")
    served = found.signatures["serving_default"](image=tf.constant(image), sums=tf.constant(sums))["prediction"]
    small = tf.constant(image[:, ::2, ::2].astype("f4") / 255)
    scaled = tf.constant((sums - OFFSET) / DIVISOR)
    expected = model({"image": small, "sums": scaled}, training=False)
    np.testing.assert_allclose(served, np.reshape(expected, [-1]), rtol=1e-5)
    again = found.signatures["preprocessed"](image=small, sums=scaled)["prediction"]
    np.testing.assert_allclose(again, served, rtol=1e-5)
    assert found.signatures["inputs"]()["inputs"].numpy().tolist() == [b"image", b"sums"]
