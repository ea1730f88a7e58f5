"""The command: what it refuses, and when there is nothing to do."""

import json
import os
import subprocess
import sys
import tempfile

import pytest
import yaml
from exports import save_alone

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.cluster.watchdog import LOST
from beamfeed.trainer.feed.cache import PREFIX
from beamfeed.trainer.main import main


@pytest.fixture
def job_file(job, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job().model_dump(mode="json", by_alias=True)))
    return str(path)


def test_importing_it_loads_neither_beam_nor_tensorflow():
    code = "import beamfeed.trainer.main, sys; assert not {'apache_beam', 'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.slow
def test_the_whole_trainer_does_without_beam():
    code = (
        "import sys\n"
        "from beamfeed.contract.imports import heavy_imports\n"
        "with heavy_imports(): import beamfeed.trainer.loop.train, beamfeed.trainer.tools.inspect_dataset\n"
        "assert 'apache_beam' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.slow
def test_its_iterators_outlive_it_and_its_copies_of_shards_do_not(job_file, tmp_path, monkeypatch, without_export):
    """Taking iterators apart can take minutes, and a process that is ended cannot remove anything any more."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    kept = []
    assert main(["--job", job_file, "--set", "train.epochs=1", "--set", "train.feed.cache=file"], kept) == 0
    assert len(kept) == 3  # of train, eval and test
    assert next(kept[0]) is not None
    assert [name for name in os.listdir(tmp_path / "temporary") if name.startswith(PREFIX)] == []


def check_progress(folder, names):
    """What the chief reports of a run of one epoch."""
    (path,) = folder.iterdir()
    events = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [(event["done"], event["total"]) for event in events if "stage" in event]
    (total,) = {total for _, total in steps}
    assert [done for done, _ in steps] == sorted({done for done, _ in steps})
    assert (steps[0][0], steps[-1][0]) == (0, total)
    assert [event["phase"] for event in events if "phase" in event] == [
        "evaluating",  # the first weights
        "compiling",
        "evaluating",
        "evaluating",
        "exporting",
        "comparing with simple models",
    ]
    with open(names.metrics) as file:
        assert [event["evaluation"] for event in events if "evaluation" in event] == [json.loads(line) for line in file]


@pytest.mark.slow
def test_it_trains_once_then_more_then_anew(job_file, job, capsys, tmp_path, monkeypatch):
    names = RunLayout(job().train.workdir)
    (tmp_path / "progress").mkdir()
    assert main(["--job", job_file, "--set", "train.epochs=1", "--progress-dir", str(tmp_path / "progress")]) == 0
    check_progress(tmp_path / "progress", names)
    assert capsys.readouterr().out == ""  # the launcher, which follows the progress, sums it up
    assert main(["--job", job_file, "--set", "train.epochs=1"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(["--job", job_file, "--set", "train.epochs=1", "--set", "train.optimizer.learning_rate=0.5"]) == 0
    rate = "train.optimizer.learning_rate: was 0.01, is now 0.5; not applied, as the training run is over"
    assert rate in capsys.readouterr().err
    assert main(["--job", job_file]) == 0  # goes on to the second
    assert "2 epochs, best eval loss" in capsys.readouterr().out
    with open(names.metrics) as file:
        assert len(file.readlines()) == 2

    other = ["--job", job_file, "--set", "train.seed=8", "--set", "train.feed.cache=memory"]  # the cache may change
    other += ["--set", "train.optimizer.clip_norm=1.0", "--set", "train.task.metrics=[mae]"]
    assert main(other) == 2
    message = capsys.readouterr().err
    assert "holds another training run (train.seed: was 7, is now 8); choose another train.workdir" in message
    assert "--restart" in message
    monkeypatch.setattr("beamfeed.trainer.export.run.export_run", save_alone)
    assert main([*other, "--restart"]) == 0
    with open(names.run) as file:
        assert json.load(file)["train"]["seed"] == 8
    assert len(os.listdir(names.tensorboard)) == 1  # of the training: those before are gone


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("output.path=/nowhere", "there is no dataset"),
        ("train.feed.batch_size=1000", "fewer than one batch of 1000"),
        ("train.epoch=3", "did you mean 'epochs'?"),
        (
            "train.task={name: classify}",
            "train.task.target: there is no such label: 'label' (no label has role target)",
        ),
        (
            "train.task={name: reconstruct, loss: huberr}",
            "train.task.loss: 'huberr' is not a Keras loss; did you mean 'huber'?",
        ),
        ("train.watch.metric=los", "train.watch.metric: 'los' is not measured; did you mean 'loss'? (there is: loss)"),
        ("train.model={name: recurrent}", "train.model.name: 'recurrent' does not reconstruct windows"),
    ],
)
def test_mistakes_are_told_in_one_line(job_file, capsys, override, message):
    assert main(["--job", job_file, "--set", override]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_malformed_tf_config_is_told(job_file, capsys, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", "{")
    assert main(["--job", job_file]) == 2
    assert capsys.readouterr().err.startswith("TF_CONFIG: is '{', which is not JSON")


@pytest.mark.slow
def test_a_damaged_shard_stops_with_its_name_and_the_advice_works_without_a_restart(
    job_file, written, capsys, without_export
):
    assert main(["--job", job_file, "--set", "train.epochs=1"]) == 0
    path = written.shards()[1]
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    assert main(["--job", job_file]) == 2
    assert f"{path}: damaged" in capsys.readouterr().err
    capsys.readouterr()
    assert main(["--job", job_file, "--set", "train.feed.skip_corrupt=true"]) == 0
    told = capsys.readouterr().err
    assert "train.feed.skip_corrupt: was false, is now true\n" in told
    assert "epoch 2/2" in told
    assert "epoch 1/2" not in told  # it went on


FREE = [
    "train.optimizer.learning_rate=0.005",
    "train.optimizer.schedule={name: linear, decay_steps: 100}",
    "train.optimizer.weight_decay=0.01",
    "train.optimizer.clip_norm=1",
    "train.feed.cache=memory",
    "train.early_stopping={patience: 5}",
    "train.checkpoint.keep=2",
    "train.task.metrics=[mean_absolute_error]",
]


@pytest.mark.slow
def test_what_does_not_change_what_is_learned_may_change_and_is_told(job_file, job, capsys, without_export):
    assert main(["--job", job_file, "--set", "train.epochs=1"]) == 0
    capsys.readouterr()
    arguments = ["--job", job_file, *(part for one in FREE for part in ("--set", one)), "--set", "train.epochs=3"]
    assert main(arguments) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("train.")]
    assert lines == [
        "train.task.metrics: was not set, is now [mean_absolute_error]",
        "train.feed.cache: was none, is now memory",
        "train.epochs: was 1, is now 3",
        "train.optimizer.learning_rate: was 0.01, is now 0.005",
        "train.optimizer.schedule: was not set, is now {name: linear, warmup_steps: 0, decay_steps: 100, "
        "final_fraction: 0.01}",
        "train.optimizer.weight_decay: was not set, is now 0.01",
        "train.optimizer.clip_norm: was not set, is now 1.0",
        "train.early_stopping: was not set, is now {patience: 5, min_delta: 0.0}",
        "train.checkpoint.keep: was 3, is now 2",
    ]
    with open(RunLayout(job().train.workdir).metrics) as file:
        epochs = [json.loads(line) for line in file]
    assert [line["learning_rate"] for line in epochs] == pytest.approx([0.01, 0.005 * 0.8416, 0.005 * 0.7624], rel=1e-4)
    assert ["mean_absolute_error" in line for line in epochs] == [False, True, True]
    # And back from a schedule to a constant rate.
    assert main(["--job", job_file, "--set", "train.epochs=4", "--set", "train.optimizer.learning_rate=0.002"]) == 0
    told = capsys.readouterr().err
    assert "train.optimizer.schedule: was {name: linear," in told
    assert "}, is now not set\n" in told
    with open(RunLayout(job().train.workdir).metrics) as file:
        assert json.loads(file.readlines()[3])["learning_rate"] == pytest.approx(0.002)


@pytest.mark.long
def test_nothing_is_told_where_nothing_changed(job_file, capsys):
    assert main(["--job", job_file, "--set", "train.epochs=1"]) == 0
    assert main(["--job", job_file, "--set", "train.epochs=1", "--restart"]) == 0
    assert "train." not in capsys.readouterr().err


def test_workers_that_do_not_come_are_named_and_may_come_another_time(job_file, capsys, monkeypatch, free_ports):
    for name, value in {
        "WORLD_SIZE": 3,
        "RANK": 0,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_ports(1)[0],
    }.items():
        monkeypatch.setenv(name, str(value))
    assert main(["--job", job_file, "--set", "train.join_timeout=1s"]) == LOST
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("workers 1, 2 of 3 did not come to 127.0.0.1:")
    assert line.endswith(" within 1 seconds; started again, they may come")


FAILS = """
import keras
import tensorflow as tf

@keras.saving.register_keras_serializable("test")
class Fails(keras.layers.Layer):
    def call(self, x):
        tf.debugging.assert_less(tf.shape(x)[0], 3, message="the sum is\\nnot low")
        return x

def make(length, features):
    windows = keras.Input((length, features))
    return keras.Model(windows, Fails()(keras.layers.Dense(features)(windows)))
"""


def test_what_nobody_foresaw_is_one_line_and_a_log(job_file, job, capsys, tmp_path, monkeypatch):
    (tmp_path / "model_that_fails.py").write_text(FAILS)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["--job", job_file, "--set", "train.model={class: 'model_that_fails:make'}"]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("train: ")]
    assert len(lines) == 1
    told, _, path = lines[0].rpartition("; log: ")
    assert told.startswith("job failed: InvalidArgumentError: ")
    assert not told.endswith(":")
    assert os.path.dirname(path) == RunLayout(job().train.workdir).logs
    with open(path) as file:
        text = file.read()
    assert "Traceback (most recent call last):" in text
    assert "the sum is" in text


def test_a_loss_that_is_not_finite_exits_with_1(job_file, capsys):
    overrides = ["--set", "train.optimizer.name=sgd", "--set", "train.optimizer.learning_rate=1e30"]
    assert main(["--job", job_file, *overrides]) == 1
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("job failed: the loss")
