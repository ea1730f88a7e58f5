"""The job file that trains on an adopted dataset."""

import pytest
import yaml

from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, SplitInfo
from beamfeed.contract.errors import UserError
from beamfeed.transforms.adopt.job_text import job_text

NUMBER = Field(name="size", dtype="float32", shape=(2,), role="input")
KIND = Field(name="kind", dtype="int64", role="input", sizes=[4])
WORDS = Field(name="words", dtype="int64", shape=(None,), role="input", stored="list", sizes=[90])
IMAGE = Field(name="image", dtype="bytes", role="input", content="image")
PRICE = Field(name="Price", dtype="float32", role="target")
LABEL = Field(name="label", dtype="int64", role="target", classes=["a", "b"])


def text(*fields, windows=1000):
    info = SplitInfo(assets=1, windows=windows, records=windows, bytes=1, shards=[])
    manifest = Manifest(
        name="lake", kind="adopted", fingerprint="f" * 64, data="_beamfeed-f", adopted="", fields=list(fields),
        windows=Windows(length=1), records="windows", compression="none", splits={"train": info},
        counts=Counts(files=1, assets=1, rejected_assets=0, rejected_files=0, rows_read=windows),
    )  # fmt: skip
    return job_text(manifest, "a/lake: 1", "out/model", "job.yaml")


@pytest.mark.parametrize(
    ("fields", "model", "task"),
    [
        ([NUMBER, KIND, LABEL], {"name": "tabular"}, {"name": "classify", "target": "label"}),
        ([NUMBER, WORDS, PRICE], {"name": "text"}, {"name": "regress", "target": "Price"}),
        ([IMAGE, LABEL], {"class": "my_package.models:MyModel"}, {"name": "classify", "target": "label"}),
    ],
)
def test_what_is_written_fits_the_fields(fields, model, task):
    job = yaml.safe_load(text(*fields))
    assert (job["train"]["model"], job["train"]["task"]) == (model, task)
    assert job["output"]["path"] == "a/lake: 1"
    assert "source" not in job


def test_several_targets_are_several_outputs():
    task = yaml.safe_load(text(NUMBER, LABEL, PRICE))["train"]["task"]
    assert task == {
        "outputs": {
            "label": {"name": "classify", "target": "label"},
            "price": {"name": "regress", "target": "Price"},
        }
    }


@pytest.mark.parametrize(("windows", "batch"), [(1000, 256), (256, 256), (200, 128), (1, 1)])
def test_a_batch_is_no_larger_than_what_trains(windows, batch):
    assert yaml.safe_load(text(NUMBER, LABEL, windows=windows))["train"]["feed"] == {"batch_size": batch}


def test_without_a_target_or_an_input_there_is_none():
    with pytest.raises(UserError, match="give --target NAME"):
        text(NUMBER)
    with pytest.raises(UserError, match="give --input NAME"):
        text(LABEL)
