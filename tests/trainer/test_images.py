"""Images from a dataset to a served model: trained, resumed, shared out, exported, reviewed."""

import io
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import yaml
from PIL import Image
from stripes import CLASSES, HEIGHT, WIDTH, image_job, png, write_images
from trained import lines, pictures, without_times

from beamfeed.contract.cluster.worker_info import WorkerInfo
from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.contract.dataset.review import read_review
from beamfeed.trainer import models
from beamfeed.trainer.cluster.strategy import connect
from beamfeed.trainer.decode import preparation_of
from beamfeed.trainer.export.run import export_run
from beamfeed.trainer.loop.train import train_and_evaluate
from beamfeed.trainer.review.inputs_seen import training_inputs
from beamfeed.trainer.review.pictures import Pictures
from beamfeed.trainer.tasks.objective import Objective
from beamfeed.trainer.tools import inspect_dataset, measurements
from beamfeed.trainer.tools.measurements import Feeding, measure_stages

pytestmark = pytest.mark.slow

AUGMENT = {"flip": "both", "crop": 0.8, "rotate": 10, "brightness": 0.1, "contrast": 0.1, "cutout": 0.2, "mixup": 0.2}
INPUTS = {"image": {"size": [HEIGHT, WIDTH], "augment": AUGMENT}}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_images(str(tmp_path_factory.mktemp("data")), (80, 12, 8))


def train(data, workdir, **section):
    """In this process."""
    job = image_job(data.output, str(workdir), **{"inputs": INPUTS, **section})
    outcome = train_and_evaluate(job, data.manifest, connect(WorkerInfo()))
    export_run(job, data.manifest, outcome)
    return job, outcome.result


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    return train(data, tmp_path_factory.mktemp("run"), epochs=4)


def weights(job):
    return keras.saving.load_model(RunLayout(job.train.workdir).model).get_weights()


@pytest.mark.long
def test_a_run_that_goes_on_ends_with_the_same_bits(data, trained, tmp_path):
    job, _ = trained
    train(data, tmp_path, epochs=1)
    train(data, tmp_path, epochs=4, max_steps=17)  # in the middle of an epoch
    again, _ = train(data, tmp_path, epochs=4)
    for one, other in zip(weights(job), weights(again), strict=True):
        np.testing.assert_array_equal(one, other)
    assert without_times(lines(again))[-1] == without_times(lines(job))[-1]


def test_the_saved_model_takes_files_and_decodes_as_training_did(data, trained):
    job, result = trained
    served = tf.saved_model.load(RunLayout(job.train.workdir).saved_model)
    model = keras.saving.load_model(RunLayout(job.train.workdir).model)
    paths = sorted(data.pixels)[:6]
    files = [png(data.pixels[path]) for path in paths]
    buffer = io.BytesIO()
    large = Image.fromarray(data.pixels[paths[0]]).resize((8 * WIDTH, 8 * HEIGHT), Image.Resampling.NEAREST)
    large.save(buffer, "JPEG", quality=98)
    found = served.signatures["serving_default"](image=tf.constant([*files, buffer.getvalue()]))
    pixels = np.stack([data.pixels[path] for path in paths]).astype("f4") / 255
    expected = tf.nn.softmax(model(pixels)).numpy()
    np.testing.assert_allclose(found["probabilities"][:6], expected, atol=1e-5)
    np.testing.assert_allclose(found["probabilities"][6], expected[0], atol=0.1)
    assert [name.decode() for name in found["class"].numpy()[:6]] == [CLASSES[place] for place in expected.argmax(1)]
    again = served.signatures["preprocessed"](image=tf.constant(pixels))
    np.testing.assert_allclose(again["probabilities"], expected, atol=1e-5)
    told = served.signatures["inputs"]()
    assert told["inputs"].numpy().tolist() == [b"image"]
    assert told["classes"].numpy().tolist() == [name.encode() for name in CLASSES]
    signature = served.signatures["serving_default"].structured_input_signature[1]
    assert signature == {"image": tf.TensorSpec([None], tf.string, "image")}
    # What it scored on the test split is what it says of the files.
    test = {path: data.pixels[path] for path in data.pixels if 92 <= int(path[-8:-4]) < 100}
    said = served.signatures["serving_default"](image=tf.constant([png(one) for one in test.values()]))["class"]
    right = np.mean([path.split("/")[0] == name.decode() for path, name in zip(test, said.numpy(), strict=True)])
    assert right == pytest.approx(result.test_metrics["accuracy"])


def test_images_are_in_the_report_and_in_tensorboard(data, trained):
    job, _ = trained
    names = RunLayout(job.train.workdir)
    shown = pictures(job)
    assert {"training_images", "confusion_matrix", "report"} <= set(shown)
    assert min(tf.image.decode_png(shown["training_images"]).shape[:2]) > 500
    with open(names.report, "rb") as file:
        report = tf.image.decode_png(file.read())
    assert report.shape[1] > 1500
    review = read_review(job.train.workdir, trained[1].fingerprint)
    assert {"eval", "test"} == set(review.splits)


def test_a_dataset_of_images_is_drawn(data, tmp_path, capsys):
    assert inspect_dataset.main([data.output, "--picture", str(tmp_path / "a.png"), "--windows", "2"]) == 0
    told = capsys.readouterr().out
    assert "bytes" in told
    picture = tf.image.decode_png((tmp_path / "a.png").read_bytes(), 3).numpy()
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 1000  # of the images, not only of the frame


def run(command, **environ):
    done = subprocess.run(
        [sys.executable, "-m", *command], env={**os.environ, **environ}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def job_file(data, tmp_path):
    def write(name, **section):
        job = image_job(data.output, str(tmp_path / name), **{"inputs": INPUTS, **section})
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(job.model_dump(mode="json", by_alias=True, exclude_unset=True)))
        return str(path)

    return write


@pytest.mark.long
def test_two_workers_train_as_one(job_file, data, tmp_path):
    for name, workers in (("one", 1), ("two", 2)):
        # Without batch normalization, whose means are of each worker's own windows.
        (tmp_path / "plain.py").write_text(PLAIN)
        path = job_file(name, model={"class": "plain:make"}, epochs=2)
        command = ["beamfeed.launcher.cli", "train", path, "--set", f"launch.train.workers={workers}"]
        run(command, PYTHONPATH=f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    results = [json.loads((tmp_path / name / "complete.json").read_text()) for name in ("one", "two")]
    assert results[1]["workers"] == 2
    for key in ("first_loss", "last_loss", "best_loss", "test_loss"):
        assert results[0][key] == pytest.approx(results[1][key], rel=1e-4), key


PLAIN = """
import keras
from keras import layers

def make(inputs, outputs):
    image = keras.Input(inputs["image"], name="image")
    state = layers.Conv2D(4, 5, activation="relu")(image)
    return keras.Model(image, layers.Dense(outputs)(layers.GlobalAveragePooling2D()(layers.Conv2D(8, 3)(state))))
"""


def test_the_profile_has_decoding_and_augmentation_among_its_stages(data, tmp_path, monkeypatch):
    for rounds in ("ROUNDS", "MOST_ROUNDS"):
        monkeypatch.setattr(measurements, rounds, 1)
    job = image_job(data.output, str(tmp_path), inputs=INPUTS)
    preparation = preparation_of(job.train, data.manifest)
    stages = measure_stages(Feeding(data.manifest, data.output, 8, 16, 0.01, preparation), lambda _: None)
    names = [stage.name for stage in stages]
    assert names == ["read", "CRC", "parse", "frame", "shuffle", "batch", "decode", "augment", "prefetch"]
    assert all(stage.windows_per_second > 0 for stage in stages)


def test_a_look_at_cached_images_decodes_no_split(data, tmp_path, monkeypatch):
    cached = {"image": {**INPUTS["image"], "cache": "decoded"}}
    job = image_job(data.output, str(tmp_path), inputs=cached)
    objective = Objective.of(job.train, data.manifest)
    assert objective.preparation.keeps
    monkeypatch.setattr("beamfeed.trainer.feed.dataset.Memory", None)
    assert len(training_inputs(job, data.manifest, objective).images["image"])
    model = models.build(job.train.model, objective.signature, 1)
    assert Pictures(job, data.manifest, objective).draw(model)
