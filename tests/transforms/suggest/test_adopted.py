"""The job file that trains on an adopted dataset."""

import pytest
import tensorflow as tf
import yaml

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import parse_as
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.inputs import check_inputs
from beamfeed.contract.dataset.manifest import Counts, Manifest, SplitInfo, Target
from beamfeed.contract.errors import UserError
from beamfeed.trainer import models
from beamfeed.trainer.tasks.objective import Objective
from beamfeed.transforms.suggest.adopted import job_text

NUMBER = Field(name="size", dtype="float32", shape=(2,), role="input")
KIND = Field(name="kind", dtype="int64", role="input", sizes=[4])
WORDS = Field(name="words", dtype="int64", shape=(9,), role="input", sizes=[90])
TAGS = Field(name="tags", dtype="int64", shape=(None,), role="input", stored="list", sizes=[90])
IMAGE = Field(name="image", dtype="bytes", role="input", content="image")
RAW = Field(name="scan", dtype="uint8", shape=(28, 28, 1), role="input")
LINE = Field(name="line", dtype="uint8", shape=(28,), role="input")
LARGE = Field(name="large", dtype="int64", role="input")
PRICE = Field(name="Price", dtype="float32", role="target")
LABEL = Field(name="label", dtype="int64", role="target", classes=["a", "b"])
OWN = {"class": "my_package.models:MyModel"}


def manifest_of(*fields, windows=1000):
    told = {"label": Target(counts=[500, 500]), "Price": Target(mean=1.0, std=2.0, min=0.0, max=3.0)}
    info = SplitInfo(assets=1, windows=windows, records=windows, bytes=1, shards=[], targets=told)
    return Manifest(
        name="lake", kind="adopted", fingerprint="f" * 64, data="_beamfeed-f", adopted="", fields=list(fields),
        windows=Windows(length=1), records="windows", compression="none", splits={"train": info},
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=windows),
    )  # fmt: skip


def text(*fields, windows=1000, **more):
    return job_text(manifest_of(*fields, windows=windows), "a/lake: 1", "out/model", "job.yaml", **more)


@pytest.mark.parametrize(
    ("fields", "model", "inputs"),
    [
        ([NUMBER, KIND, LABEL], {"name": "tabular"}, None),
        ([NUMBER, WORDS, PRICE], {"name": "text"}, None),
        ([NUMBER, TAGS, PRICE], OWN, None),
        ([IMAGE, LABEL], {"name": "residual", "stem": 2}, {"image": {"size": [64, 64]}}),
        ([RAW, LABEL], {"name": "residual"}, {"scan": {}}),
        ([IMAGE, RAW, NUMBER, KIND, LABEL], {"name": "residual"}, {"image": {"size": [64, 64]}, "scan": {}}),
        ([LINE, NUMBER, LABEL], {"name": "multi_input"}, None),
        ([IMAGE, LINE, LARGE, PRICE, LABEL], {"name": "multi_input"}, {"image": {"size": [64, 64]}}),
        ([IMAGE, WORDS, LABEL], OWN, {"image": {"size": [64, 64]}}),
    ],
)
def test_what_is_written_trains(fields, model, inputs):
    manifest, written = manifest_of(*fields), text(*fields)
    job = yaml.safe_load(written)
    assert (job["train"]["model"], job["train"].get("inputs")) == (model, inputs)
    assert job["output"]["path"] == "a/lake: 1"
    assert "source" not in job
    train = parse_as(TrainingJob, written, name="job.yaml").train
    check_inputs(train.inputs, manifest)
    signature = Objective.of(train, manifest).signature
    if model is not OWN:
        outputs = models.build(train.model, signature, seed=1)(signature.zeros(2))
        assert all(len(one) == 2 for one in tf.nest.flatten(outputs))


@pytest.mark.parametrize(
    ("sizes", "side", "stem"), [([(4, 5), (30, 20), (40, 50)], 20, 1), ([(300, 400)], 128, 4), ([(1, 1)], 4, 1)]
)
def test_images_have_a_size_that_fits_them(sizes, side, stem):
    train = yaml.safe_load(text(IMAGE, LABEL, sizes={"image": sizes}))["train"]
    assert (train["inputs"]["image"]["size"], train["model"].get("stem", 1)) == ([side, side], stem)


def test_several_targets_are_several_outputs():
    task = yaml.safe_load(text(NUMBER, LABEL, PRICE))["train"]["task"]
    assert task == {
        "outputs": {
            "label": {"name": "classify", "target": "label"},
            "price": {"name": "regress", "target": "Price"},
        }
    }


@pytest.mark.parametrize(("windows", "batch"), [(100_000, 256), (1000, 32), (200, 32), (1, 1)])
def test_a_batch_leaves_many_steps_to_an_epoch(windows, batch):
    assert yaml.safe_load(text(NUMBER, LABEL, windows=windows))["train"]["feed"] == {"batch_size": batch}


def test_without_a_target_or_an_input_there_is_none():
    with pytest.raises(UserError, match="give --target NAME"):
        text(NUMBER)
    with pytest.raises(UserError, match="give --input NAME"):
        text(LABEL)
