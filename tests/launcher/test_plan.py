"""The plan: what is complete and why, the commands, and --max-assets."""

import json
import os
import sys

import pytest

from beamfeed.contract import storage
from beamfeed.contract.config.load import load_job
from beamfeed.contract.config.prepare import Windows
from beamfeed.contract.dataset import manifest as manifests
from beamfeed.contract.dataset.fields import Field
from beamfeed.contract.dataset.fingerprint import data_fingerprint, run_fingerprint
from beamfeed.contract.dataset.layout import DataLayout, RunLayout
from beamfeed.contract.dataset.result import TrainResult, write_result
from beamfeed.contract.errors import UserError
from beamfeed.launcher.plan import make_plan, smoke_test_overrides, steps_left
from beamfeed.launcher.stage import FLOOR, PREPROCESS, TRAIN

JOB = """
name: small
source:
  kind: timeseries
  files: {root}/in/*.parquet
  time: {{column: t}}
  features: ["a", "b"]
windows: {{length: 8, stride: 4}}
output: {{path: {root}/data}}
train:
  model: {{name: recurrent_autoencoder}}
  epochs: 4
  workdir: {root}/model
"""

IMAGE_JOB = """
name: small
source:
  kind: image
  files: {root}/photos
  list: {{file: {root}/list.csv, path: path}}
label: {{column: kind, classes: auto}}
output: {{path: {root}/data}}
train:
  model: {{name: residual}}
  task: {{name: classify}}
  inputs: {{image: {{size: [8, 8]}}}}
  workdir: {root}/model
"""


@pytest.fixture
def job_path(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("one", "two"):
        (tmp_path / "in" / f"{name}.parquet").write_bytes(name.encode())
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(root=tmp_path))
    return str(path)


def fingerprint_of(job_path, *overrides):
    job = load_job(job_path, overrides)
    return data_fingerprint(job, storage.match(job.source.files, job.source.suffixes))


def publish(job_path, fingerprint, shard_bytes=b"shard", source=()):
    """Writes a dataset of one shard, as preprocessing would."""
    job = load_job(job_path)
    layout = DataLayout.of(job.output.path, fingerprint)
    os.makedirs(layout.split("train"), exist_ok=True)
    with open(layout.shard("train", 0, 1), "wb") as file:
        file.write(shard_bytes)
    storage.write_bytes(layout.blocks("train"), b"")  # the plan only asks whether it is there
    shard = manifests.Shard(records=1, windows=1200, rows=10, bytes=5, crc32c="0" * 8)
    empty = manifests.SplitInfo(assets=0, windows=0, records=0, bytes=0, shards=[])
    manifests.write_manifest(
        job.output.path,
        manifests.Manifest(
            name=job.name,
            kind="timeseries",
            source=list(source),
            fingerprint=fingerprint,
            data=layout.folder,
            fields=[Field(name="values", dtype="float32", shape=(2,), role="input", columns=["a", "b"])],
            windows=Windows(length=8, stride=4),
            records="segments",
            compression="none",
            counts=manifests.Counts(files=2, assets=2, rejected_assets=0, rejected_files=0, rows_read=10),
            splits={
                "train": manifests.SplitInfo(assets=2, windows=1200, records=1, bytes=5, shards=[shard]),
                "eval": empty,
                "test": empty,
            },
        ),
    )


def finish_training(job_path, data, **result):
    job = load_job(job_path)
    told = {"epochs": 4, "stale": 0, "stopped_early": False, "first_loss": 1.0, "last_loss": 0.5, "best_loss": 0.5}
    told |= {"test_loss": None, "seconds": 1.0, "workers": 1, "fingerprint": run_fingerprint(job.train, data), **result}
    write_result(job.train.workdir, TrainResult(**told))


def states(job_path, **options):
    return {stage.name: stage.complete for stage in make_plan(job_path, **options).stages}


def reasons(job_path, **options):
    return {stage.name: stage.reason for stage in make_plan(job_path, **options).stages}


def test_nothing_is_complete_at_first(job_path):
    plan = make_plan(job_path)
    assert [stage.name for stage in plan.stages] == [PREPROCESS, TRAIN]
    assert states(job_path) == {PREPROCESS: False, TRAIN: False}
    assert "no dataset" in reasons(job_path)[PREPROCESS]
    assert "no finished training run" in reasons(job_path)[TRAIN]


@pytest.mark.parametrize(
    ("overrides", "begun", "result", "options", "left"),
    [
        ((), None, None, {}, 16),  # 1,200 windows, batches of 256
        (("train.max_steps=10",), None, None, {}, 10),
        ((), {"epoch": 0, "step": 3, "done": 3}, None, {}, 13),
        ((), {"epoch": 0, "step": 3, "done": 3}, None, {"restart": True}, 16),
        (("train.epochs=5",), None, {"steps": 16}, {}, 4),
        (("train.epochs=5",), None, {"steps": 16, "fingerprint": "another"}, {}, 20),
        (("train.epochs=5",), None, {"steps": 20, "epochs": 5}, {}, 0),
    ],
)
def test_the_steps_that_are_left(job_path, overrides, begun, result, options, left):
    data = fingerprint_of(job_path)
    job = load_job(job_path, overrides)
    publish(job_path, data)
    if begun:
        names = RunLayout(job.train.workdir)
        storage.write_text(names.run, json.dumps({"fingerprint": run_fingerprint(job.train, data)}))
        storage.write_text(os.path.join(names.checkpoints, f"step-{begun['step']:09d}.json"), json.dumps(begun))
    if result:
        finish_training(job_path, data, **result)
    plan = make_plan(job_path, overrides, **options)
    assert steps_left(plan, plan.stages[-1]) == left


@pytest.mark.parametrize(
    ("state", "same", "message"),
    [
        ({"epoch": 0, "step": 177, "done": 177}, True, "continuing {workdir} at step 177 (epoch 1 of 4)"),
        ({"epoch": 2, "step": 177, "done": 0}, True, "continuing {workdir} at step 177 (epoch 2 of 4)"),
        ({"epoch": 2, "step": 177, "done": 0}, False, "no finished training run in {workdir}"),
        (None, True, "no finished training run in {workdir}"),
    ],
)
def test_a_run_that_was_begun_is_continued_in_words(job_path, state, same, message):
    data = fingerprint_of(job_path)
    publish(job_path, data)
    train = load_job(job_path).train
    names = RunLayout(train.workdir)
    storage.write_text(names.run, json.dumps({"fingerprint": run_fingerprint(train, data) if same else "x"}))
    if state is not None:
        storage.write_text(f"{names.checkpoints}/step-000000177.json", json.dumps(state))
    assert reasons(job_path)[TRAIN] == message.format(workdir=train.workdir)


def test_commands_carry_the_job_and_its_overrides(job_path):
    plan = make_plan(job_path, ["windows.stride=2", "launch.train.workers=3"], beam_options=["--runner=Other"])
    preprocess, train = plan.stages
    sets = ("--set", "windows.stride=2", "--set", "launch.train.workers=3")
    assert preprocess.command == (
        sys.executable,
        "-m",
        "beamfeed.pipelines.preprocess",
        "--job",
        job_path,
        *sets,
        "--runner=Other",
    )
    assert train.command == (sys.executable, "-m", "beamfeed.trainer.main", "--job", job_path, *sets)
    assert (preprocess.workers, train.workers) == (1, 3)


def test_a_published_dataset_is_complete(job_path):
    publish(job_path, fingerprint_of(job_path))
    assert states(job_path) == {PREPROCESS: True, TRAIN: False}
    assert "1,200 windows" in reasons(job_path)[PREPROCESS]


def test_a_changed_job_or_input_is_preprocessed_again(job_path, tmp_path):
    publish(job_path, fingerprint_of(job_path))
    assert not states(job_path, overrides=["windows.stride=2"])[PREPROCESS]
    assert states(job_path, overrides=["train.epochs=9"])[PREPROCESS]
    (tmp_path / "in" / "three.parquet").write_bytes(b"three")
    assert "changed" in reasons(job_path)[PREPROCESS]


@pytest.mark.parametrize("changed", [["name=other"], ["source.files={root}/more/*.parquet"]])
def test_the_dataset_of_another_job_is_replaced_only_where_that_is_said(job_path, tmp_path, changed):
    overrides = [one.replace("{root}", str(tmp_path)) for one in changed]
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "three.parquet").write_bytes(b"three")
    publish(job_path, fingerprint_of(job_path), source=[f"{tmp_path}/in/*.parquet"])
    anew = [*overrides, "windows.stride=2"]
    line = rf"output\.path: .*/data holds the dataset of another job: small, of {tmp_path}/in/\*\.parquet, written 20"
    with pytest.raises(UserError, match=rf"{line}.* with --replace$"):
        make_plan(job_path, anew)
    preprocess, _ = make_plan(job_path, anew, replace=True).stages
    assert preprocess.command[-1] == "--replace"
    assert states(job_path, overrides=["windows.stride=2"])[PREPROCESS] is False  # its own job changes it freely
    assert states(job_path, overrides=["name=other"])[PREPROCESS]  # nothing is replaced


def test_a_dataset_that_does_not_tell_its_files_is_known_by_its_name(job_path, tmp_path):
    publish(job_path, "another", source=[])
    assert states(job_path) == {PREPROCESS: False, TRAIN: False}
    with pytest.raises(UserError, match="another job: small, written"):
        make_plan(job_path, ["name=other"])


def test_a_damaged_shard_is_preprocessed_again(job_path):
    publish(job_path, fingerprint_of(job_path), shard_bytes=b"cut")
    assert "missing or damaged" in reasons(job_path)[PREPROCESS]


def test_a_missing_index_is_preprocessed_again(job_path):
    fingerprint = fingerprint_of(job_path)
    publish(job_path, fingerprint)
    os.remove(DataLayout.of(load_job(job_path).output.path, fingerprint).blocks("train"))
    assert "missing or damaged" in reasons(job_path)[PREPROCESS]


def test_a_dataset_of_an_earlier_version_is_preprocessed_again(job_path, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "manifest.json").write_text('{"format": 2, "data": "data-0123"}')
    assert reasons(job_path)[PREPROCESS] == f"the dataset in {tmp_path}/data is of an earlier version"
    with pytest.raises(UserError, match="is of an earlier version; run 'beamfeed preprocess"):
        make_plan(job_path, names=(TRAIN,))


@pytest.mark.parametrize(
    ("result", "complete"),
    [
        ({}, True),
        ({"epochs": 9}, True),
        ({"epochs": 3}, False),
        ({"epochs": 3, "stopped_early": True, "stale": 2}, True),
        ({"epochs": 3, "stale": 1}, False),
        ({"fingerprint": "other"}, False),
    ],
)
def test_training_is_complete_when_its_result_says_so(job_path, result, complete):
    fingerprint = fingerprint_of(job_path)
    publish(job_path, fingerprint)
    finish_training(job_path, fingerprint, **result)
    assert states(job_path, overrides=["train.early_stopping.patience=2"])[TRAIN] is complete


def test_more_epochs_train_on_and_another_model_trains_anew(job_path):
    fingerprint = fingerprint_of(job_path)
    publish(job_path, fingerprint)
    finish_training(job_path, fingerprint)
    assert "4 of 9 epochs" in reasons(job_path, overrides=["train.epochs=9"])[TRAIN]
    assert "changed" in reasons(job_path, overrides=["train.model.latent=3"])[TRAIN]


def test_more_patience_trains_on(job_path):
    fingerprint = fingerprint_of(job_path)
    publish(job_path, fingerprint)
    finish_training(job_path, fingerprint, epochs=3, stopped_early=True, stale=2)
    assert "stopped early" in reasons(job_path, overrides=["train.early_stopping.patience=2"])[TRAIN]
    assert not states(job_path, overrides=["train.early_stopping.patience=5"])[TRAIN]
    assert not states(job_path)[TRAIN]


def test_a_result_that_is_no_json_counts_as_none(job_path, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "complete.json").write_text("{")
    assert not states(job_path)[TRAIN]


def test_restart_trains_even_what_is_complete(job_path):
    fingerprint = fingerprint_of(job_path)
    publish(job_path, fingerprint)
    finish_training(job_path, fingerprint)
    preprocess, train = make_plan(job_path, restart=True).stages
    assert preprocess.complete
    assert not train.complete
    assert train.command[-1] == "--restart"
    assert "--restart" not in preprocess.command


CLASSIFY = ["label={column: a, classes: auto}", "train.model={name: recurrent}", "train.task={name: classify}"]


def test_the_linear_floor_is_trained_before_the_model(job_path):
    stages = make_plan(job_path, [*CLASSIFY, "train.floor=true"], restart=True).stages
    assert [stage.name for stage in stages] == [PREPROCESS, FLOOR, TRAIN]
    floor = load_job(job_path, [part for part in stages[1].command if "=" in part])
    assert floor.train.model.name == "linear"
    assert floor.train.workdir == load_job(job_path).train.workdir + "/floor"
    assert not floor.train.floor
    assert [stage.command[-1] for stage in stages[1:]] == ["--restart", "--restart"]
    assert [stage.name for stage in make_plan(job_path, CLASSIFY).stages] == [PREPROCESS, TRAIN]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ([], "train: floor is for tasks that classify or regress"),
        (
            ["train.model={name: linear}", "train.task={name: classify}"],
            "train: floor is the model linear, which this one is",
        ),
    ],
)
def test_what_has_no_linear_floor_is_refused(job_path, changes, line):
    with pytest.raises(UserError, match=line):
        make_plan(job_path, [*changes, "train.floor=true"])


def test_no_input_is_the_users_mistake(job_path, tmp_path):
    with pytest.raises(UserError, match=r"no file matches .*nothing"):
        make_plan(job_path, [f"source.files={tmp_path}/nothing/*.parquet"])


def test_training_alone_needs_the_dataset_but_not_its_input(job_path, tmp_path):
    with pytest.raises(UserError, match="beamfeed preprocess"):
        make_plan(job_path, names=(TRAIN,))
    publish(job_path, fingerprint_of(job_path))
    for name in ("one", "two"):
        (tmp_path / "in" / f"{name}.parquet").unlink()
    assert states(job_path, names=(TRAIN,)) == {TRAIN: False}


def test_training_alone_needs_no_list_of_images(tmp_path):
    image = tmp_path / "photos" / "a.jpg"
    image.parent.mkdir()
    image.write_bytes(b"image")
    listed = tmp_path / "list.csv"
    listed.write_text("path,kind\na.jpg,x\n")
    job = tmp_path / "job.yaml"
    job.write_text(IMAGE_JOB.format(root=tmp_path))
    data = data_fingerprint(load_job(str(job)), [storage.stat(str(image))])
    publish(str(job), data)
    listed.unlink()
    assert make_plan(str(job), names=[TRAIN]).stages[0].name == TRAIN
    with pytest.raises(UserError, match=r"source.list.file: .*list.csv: there is no such file"):
        make_plan(str(job))


def test_training_alone_refuses_the_dataset_of_another_job(job_path):
    publish(job_path, fingerprint_of(job_path))
    with pytest.raises(UserError, match="changed since"):
        make_plan(job_path, ["windows.stride=2"], names=(TRAIN,))


def test_max_assets_goes_into_folders_of_its_own(job_path, tmp_path):
    plan = make_plan(job_path, ["train.epochs=1"], max_assets=3)
    assert plan.job.source.max_assets == 3
    assert plan.job.output.path == f"{tmp_path}/data-3-assets"
    assert plan.job.train.workdir == f"{tmp_path}/model-3-assets"
    assert plan.job.train.epochs == 1
    for stage in plan.stages:
        assert f"output.path={tmp_path}/data-3-assets" in stage.command


@pytest.mark.parametrize("path", ["out/data/", "gs://bucket/data", "12", "a: b", "with 'quotes' # and more"])
def test_max_assets_keeps_any_path_as_it_is(job_path, path):
    job = load_job(job_path, [f"output.path={json.dumps(path)}"])
    pruned = load_job(job_path, smoke_test_overrides(job, 2))
    assert pruned.output.path == path.rstrip("/") + "-2-assets"


def test_the_input_is_listed_once(job_path, monkeypatch):
    calls = []
    match = storage.match_inputs
    monkeypatch.setattr(storage, "match_inputs", lambda *args: calls.append(args) or match(*args))
    make_plan(job_path)
    assert len(calls) == 1


def test_a_place_that_cannot_be_listed_is_told_in_one_line(job_path, monkeypatch):
    def refuse(*_):
        raise OSError("no access\nand a long story")

    monkeypatch.setattr(storage, "match_inputs", refuse)
    with pytest.raises(UserError, match=r"cannot be listed: no access$"):
        make_plan(job_path)


def test_training_on_a_named_dataset_does_not_look_at_the_input(job_path, tmp_path):
    data = fingerprint_of(job_path)
    publish(job_path, data)
    (tmp_path / "in" / "three.parquet").write_bytes(b"three")
    with pytest.raises(UserError, match="the job or its input changed since"):
        make_plan(job_path, names=(TRAIN,))
    (stage,) = make_plan(job_path, names=(TRAIN,), data=data).stages
    assert stage.fingerprint == run_fingerprint(load_job(job_path).train, data)
    with pytest.raises(UserError, match=r"^output.path: .*/data does not hold the dataset 0000"):
        make_plan(job_path, names=(TRAIN,), data="0" * 64)
