"""The table after a run."""

import argparse
import json

import pytest

from beamfeed.contract.config.load import parse_job
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset import facts
from beamfeed.contract.dataset.facts import read_facts
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.findings import drifts, findings
from beamfeed.contract.dataset.manifest import Counts, Manifest, Shard, SplitInfo, Target
from beamfeed.contract.dataset.result import TrainResult
from beamfeed.contract.dataset.review import AssetError, Review, SplitReview
from beamfeed.contract.storage import write_text
from beamfeed.launcher.commands import named_again
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
        "",
        "look at it    beamfeed inspect out/data",
        "curves        tensorboard --logdir out/model/tensorboard",
    ]


@pytest.mark.parametrize(("kind", "heading"), [("table", "rows"), ("image", "images"), ("timeseries", "windows")])
def test_what_a_split_holds_is_called_as_people_call_it(kind, heading):
    manifest = MANIFEST.model_copy(update={"kind": kind})
    (line,) = [line for line in summary(JOB, manifest, None, {}).splitlines() if line.startswith("split")]
    assert line.split() == ["split", "assets", heading, "records", "shards", "size"]
    assert f"on eval, 40 {heading}" in summary(JOB, manifest, RESULT, {}, review=review_of(eval={}))


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
        "best eval auc (epoch 2)  0.97",
        f"{'eval loss':<23}  0.125, accuracy 0.91234, auc 0.97",
        f"{'test loss':<23}  0.5, accuracy 0.9, auc -",
    ]


def test_without_a_command_to_name_the_summary_ends_before():
    job = JOB.model_copy(update={"train": JOB.train.model_copy(update={"writers": []})})
    text = summary(job, None, RESULT, {}, review=review_of(eval={}))
    assert "look at it" not in text
    assert text.splitlines()[-1].startswith("  worst of 4 assets")


def test_the_linear_floor_is_beside_the_model():
    floor = RESULT.model_copy(update={"best_loss": 0.25, "metrics": {"accuracy": 0.75}, "test_loss": 0.5})
    lines = summary(JOB, None, RESULT, {}, floor).splitlines()
    assert lines[6:8] == [f"{'floor: best':<24}  0.25, accuracy 0.75", f"{'floor: test':<24}  0.5"]


def review_of(**splits):
    """By split, what differs from a model that does well on four assets."""
    alike = [AssetError(asset=f"pump-{i}", windows=10, loss=0.125, worst=0.5) for i in range(4)]
    usual = {
        "windows": 40,
        "of": 40,
        "model": {"loss": 0.125},
        "guesses": {"the mean": {"loss": 1.0}},
        "assets": 4,
        "worst": alike,
    }
    found = {split: SplitReview(**{**usual, **changes}) for split, changes in splits.items()}
    return Review(fingerprint="f", splits=found)


def test_what_costs_nothing_is_beside_the_loss():
    guesses = {"the mean": {"loss": 1.0, "accuracy": 0.5}, "PCA, 8 numbers": {"loss": 0.0625, "accuracy": None}}
    model = {"loss": 0.125, "accuracy": 0.875}
    review = review_of(eval={"guesses": guesses, "model": model, "of": 4000, "skipped": ["PCA: not tried"]})
    lines = summary(JOB, None, RESULT, {}, review=review).splitlines()
    at = lines.index("on eval, 40 of 4,000 windows    loss  accuracy")
    assert lines[at + 1 : at + 6] == [
        "  the model                    0.125     0.875",
        "  PCA, 8 numbers              0.0625         -",
        "  the mean                         1       0.5",
        "  PCA: not tried",
        "  worst of 4 assets: pump-0 0.125, pump-1 0.125, pump-2 0.125, pump-3 0.125; all: out/model/assets.csv",
    ]
    assert lines[at + 7] == (
        "note: on eval, a simple model is as good or better: the model's loss is 0.125, that of "
        "'PCA, 8 numbers' is 0.0625; it was best in epoch 2 of 5: try a smaller model, more dropout, or further inputs"
    )


def test_a_good_run_has_no_notes():
    assert findings(RESULT, review_of(eval={}, test={}), "JOB") == []
    sure = {"model": {"loss": 0.02}, "guesses": {"boosting": {"loss": 0.001}}, "least": 0.025}
    assert findings(RESULT, review_of(eval=sure, test=sure), "JOB") == []
    assert findings(RESULT, review_of(eval={**sure, "least": 0.01}), "JOB") != []
    certain = {"model": {"loss": 0.0}, "guesses": {}, "least": 0.025}
    (note,) = findings(RESULT, review_of(eval=certain, test={"model": {"loss": 0.1}, "guesses": {}}), "JOB")
    assert note.startswith("the loss on test is 4.0 times that on eval")
    likelihood = {"model": {"loss": -0.5}, "guesses": {"the mean": {"loss": -2.0}}}
    assert "simple model is as good" in findings(RESULT, review_of(eval=likelihood), "JOB")[-1]
    wrong = {"model": {"loss": 0.049}, "guesses": {}}  # more than twice the loss of eval, not twice what that can tell
    assert findings(RESULT, review_of(eval=sure, test=wrong), "JOB") == []
    assert "note" not in summary(JOB, MANIFEST, RESULT, {}, review=review_of(eval={}, test={}))


@pytest.mark.parametrize(
    ("result", "splits", "message"),
    [
        ({"last_loss": 0.499}, {}, "the train loss does not fall (0.5 -> 0.499)"),
        ({"last_loss": 0.75}, {}, "beamfeed train my.yaml --find-lr"),
        ({}, {"eval": {"most_of_error": (["pump-0"], 0.8)}}, "on eval, one asset (pump-0) makes 80% of the error"),
        (
            {},
            {"test": {"most_of_error": (["a"] * 10, 0.5), "assets": 100}},
            "on test, 10 of the 100 assets make 50% of the error",
        ),
        ({}, {"test": {"drift": {"a": -1.25}}}, "on test, the mean of a is 1.2 deviations away from train's"),
        (
            {},
            {"eval": {"drift": {"a": 9.0, "b": 0.6, "c": 0.1}}},
            "the mean of a is 9.0 deviations away from train's, b 0.6",
        ),
        ({}, {"eval": {}, "test": {"model": {"loss": 0.5}}}, "the loss on test is 4.0 times that on eval (its worst"),
        ({}, {"eval": {"model": {"loss": 1.002}}}, "on eval, a simple model is as good or better"),
        (
            {"best_epoch": 3, "stopped_early": False},
            {"eval": {"model": {"loss": 2}}},
            "is 1; try more epochs, or a larger model",
        ),
        ({"best_epoch": 3, "stopped_early": True}, {"eval": {"model": {"loss": 2}}}, "in epoch 3 of 5: try a smaller"),
        ({"best_epoch": None}, {"eval": {"model": {"loss": 2}}}, "is 1; try more epochs"),
        (
            {"best_epoch": 0},
            {"eval": {"model": {"loss": 2}}},
            "is 1; it was best before the first of 5 epochs: try a smaller model",
        ),
        ({"best_split": "train"}, {"train": {"model": {"loss": 2}}}, "is 1; try more epochs"),
    ],
)
def test_what_is_wrong_is_said_in_words(result, splits, message):
    (line,) = findings(RESULT.model_copy(update=result), review_of(**splits), "my.yaml")
    assert message in line


@pytest.mark.parametrize(
    ("result", "splits"),
    [
        ({"first_loss": 0.5, "last_loss": 0.5}, {}),  # one evaluation
        ({"last_loss": 0.499}, {"eval": {}}),  # it began near its end, and no guess is better
        ({"first_loss": -0.5, "last_loss": -0.75}, {}),  # of a loss of the user's own
        ({}, {"eval": {"assets": 0, "worst": []}}),
        ({}, {"eval": {"guesses": {}}}),
        ({}, {"eval": {"model": {"loss": 1.0005}}}),  # as good as the guess
        ({}, {"eval": {"most_of_error": (["pump-0"], 0.6)}}),  # four assets, one of them with more than its part
    ],
)
def test_what_may_be_well_has_no_note(result, splits):
    assert findings(RESULT.model_copy(update=result), review_of(**splits), "JOB") == []


def test_what_was_set_aside_and_why(tmp_path):
    manifest = MANIFEST.model_copy(update={"counts": MANIFEST.counts.model_copy(update={"rejected_rows": 2})})
    names = manifest.data_layout(str(tmp_path))
    reasons = ["is missing", "has 3 rows", "has 17 rows", "column 'a' is text", "is empty", "is empty"]
    lines = [json.dumps({"asset": None, "file": "f", "place": "file", "reason": reason}) for reason in reasons]
    write_text(names.rejects, "\n".join(lines) + "\n")
    features = {"a": {"count": 90, "missing": 10}, "b": {"count": 60, "missing": 40}}
    write_text(names.stats, json.dumps({"rows": 100, "features": features}))
    lines = summary(JOB, manifest, None, {}, facts=read_facts(str(tmp_path), manifest)).splitlines()
    assert lines[4:10] == [
        f"set aside     1 asset, 2 rows; why: {names.rejects}",
        "              2 x has 3 rows",
        "              2 x is empty",
        "              1 x is missing",
        "              1 x other reasons",
        "missing       50 of 200 cells of training rows (25 %), b 40; prepare.missing.fill: forward",
    ]


def test_of_very_many_rejects_the_first_are_counted(tmp_path, monkeypatch):
    manifest = MANIFEST.model_copy(update={"counts": MANIFEST.counts.model_copy(update={"rejected_rows": 300_000})})
    names = manifest.data_layout(str(tmp_path))
    monkeypatch.setattr(facts, "MOST_BYTES", 1000)
    line = json.dumps(
        {"asset": None, "file": "f", "place": "row 17", "reason": "is not UTF-8: 'ü'"}, ensure_ascii=False
    )
    write_text(names.rejects, f"{line}\n" * 300)
    size = len(line.encode()) + 1
    found = read_facts(str(tmp_path), manifest)
    assert (found.reasons, found.counted) == ([("is not UTF-8: 'ü'", 1000 // size)], 1000 // size * size)
    lines = summary(JOB, manifest, None, {}, facts=found).splitlines()
    assert lines[4:7] == [
        f"set aside     1 asset, 300,000 rows; why: {names.rejects}",
        f"              {1000 // size} x is not UTF-8: 'ü'",
        f"              counted in its first {found.counted} B",
    ]


def test_what_was_left_out_is_told():
    notes = [f"rows left out, as site is {site!r}, in no list of split: 9 in 1 asset (m)" for site in "abcdefg"]
    lines = summary(JOB, MANIFEST.model_copy(update={"notes": notes}), None, {}).splitlines()
    assert [line for line in lines if line.startswith("note: ")] == [
        *(f"note: {note}" for note in notes[:5]),
        "note: and 2 more in the manifest's notes",
    ]


def test_labels_that_differ_between_splits_are_told_of():
    fields = [
        Field(name="fault", dtype="int64", role="target", per="window", classes=["no", "yes"]),
        Field(name="life", dtype="float32", role="target", per="window"),
    ]
    told = {"train": ([90, 10], 5.0), "eval": ([85, 15], 5.5), "test": ([60, 40], 9.0)}
    splits = {
        name: EMPTY.model_copy(update={"targets": {"fault": Target(counts=counts), "life": Target(mean=mean, std=2.0)}})
        for name, (counts, mean) in told.items()
    }
    assert drifts(MANIFEST.model_copy(update={"fields": fields, "splits": splits})) == [
        "fault differs between train and test: 'no' are 90% and 60% of the windows",
        "life differs between train and test: the means are 5 and 9, 2.0 deviations apart",
    ]


def test_what_comes_next_keeps_the_overrides():
    args = argparse.Namespace(job="my jobs/a.yaml", set=["train.epochs=2", "windows.stride=4"], max_assets=3)
    told = summary(
        JOB, None, RESULT.model_copy(update={"stale": 0, "stopped_early": False}), {}, named=named_again(args)
    )
    expected = "beamfeed train 'my jobs/a.yaml' --set windows.stride=4 --max-assets 3 --set train.epochs=10"
    assert told.splitlines()[-1] == f"go on         {expected}"


def test_a_part_that_was_not_asked_for_is_left_out():
    assert summary(JOB, None, RESULT, {}).startswith("training")
    assert "training" not in summary(JOB, MANIFEST, None, {})


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_500_000_000, "2.5 GB"), (5e15, "5000.0 TB")]
)
def test_sizes_are_for_people(size, text):
    assert size_text(size) == text
