"""The table after a run."""

import pytest

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.launcher.summary import size_text, summary

JOB = parse_job(
    """
name: small
source: {kind: timeseries, files: in, time: {column: t}, features: ["a"]}
windows: {length: 8}
output: {path: out/data}
train: {model: {name: recurrent_autoencoder}, workdir: out/model}
"""
)
SHARD = Shard(records=3, windows=1200, rows=10, bytes=4_400_000, crc32c="0" * 8)
EMPTY = SplitInfo(assets=0, windows=0, records=0, bytes=0, shards=[])
MANIFEST = Manifest(
    name="small",
    kind="timeseries",
    fingerprint="f",
    data="data-f",
    fields=[Field(name="values", dtype="float32", shape=(1,), role="input", columns=["a"])],
    windows=Windows(length=8),
    records="segments",
    compression="none",
    counts=Counts(files=4, assets=4, rejected_assets=1, rejected_files=0, rows_read=12_345),
    splits={
        "train": SplitInfo(assets=3, windows=1200, records=3, bytes=4_400_000, shards=[SHARD]),
        "eval": EMPTY,
        "test": EMPTY,
    },
)
RESULT = TrainResult(
    fingerprint="f",
    epochs=5,
    stale=3,
    stopped_early=True,
    first_loss=0.5,
    last_loss=0.25,
    best=0.125,
    best_loss=0.125,
    best_epoch=2,
    test_loss=None,
    seconds=12.5,
    workers=2,
)


def test_the_whole_table():
    lines = summary(JOB, MANIFEST, RESULT, {"preprocess": 3.21, "train": 14.0}).splitlines()
    assert lines == [
        "dataset       out/data",
        "assets        4 (1 rejected)",
        "rows          12,345",
        "shards        1, 4.4 MB",
        "preprocess    3.2 s",
        "",
        "split  assets  windows  records  shards    size",
        "train       3    1,200        3       1  4.4 MB",
        "eval        0        0        0       0     0 B",
        "test        0        0        0       0     0 B",
        "",
        "training run              out/model",
        "epochs                    5, stopped early",
        "workers                   2",
        "train loss                0.5 -> 0.25",
        "best eval loss (epoch 2)  0.125",
        "test loss                 -",
        "train                     14.0 s",
        "model                     out/model/model.keras",
        "saved model               out/model/saved_model",
        "report                    out/model/report.png",
    ]


def test_stages_that_did_not_run_now_say_so():
    text = summary(JOB, MANIFEST, RESULT, {})
    assert "preprocess    complete before this run" in text
    assert f"{'train':<24}  12.5 s, in an earlier run" in text


def test_what_the_task_measures_is_beside_the_losses():
    told = {
        "watched": "auc",
        "best": 0.97,
        "metrics": {"accuracy": 0.912345, "auc": 0.97},
        "test_loss": 0.5,
        "test_metrics": {"accuracy": 0.9, "auc": None},
    }
    lines = summary(JOB, None, RESULT.model_copy(update=told), {}).splitlines()
    assert lines[4:7] == [
        "best eval loss (epoch 2)  0.125, accuracy 0.91234, auc 0.97",
        f"{'test loss':<24}  0.5, accuracy 0.9, auc -",
        f"{'watched':<24}  auc 0.97",
    ]


def test_the_linear_floor_is_beside_the_model():
    floor = RESULT.model_copy(update={"best_loss": 0.25, "metrics": {"accuracy": 0.75}, "test_loss": 0.5})
    lines = summary(JOB, None, RESULT, {}, floor).splitlines()
    assert lines[6:8] == [f"{'floor: best':<24}  0.25, accuracy 0.75", f"{'floor: test':<24}  0.5"]


def test_a_part_that_was_not_asked_for_is_left_out():
    assert summary(JOB, None, RESULT, {}).startswith("training")
    assert "training" not in summary(JOB, MANIFEST, None, {})


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000_000, "2.5 GB"), (5e15, "5000.0 TB")]
)
def test_sizes_are_for_people(size, text):
    assert size_text(size) == text
