"""The command: what it refuses, and when there is nothing to do."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from beamfeed.contract.dataset.layout import RunLayout
from beamfeed.trainer.main import main


@pytest.fixture
def job_file(job, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job().model_dump(mode="json", by_alias=True)))
    return str(path)


def test_importing_it_loads_neither_beam_nor_tensorflow():
    code = "import beamfeed.trainer.main, sys; assert not {'apache_beam', 'tensorflow', 'keras'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_whole_trainer_does_without_beam():
    code = "import sys, beamfeed.trainer.loop.train, beamfeed.trainer.tools.inspect_dataset\n"
    code += "assert 'apache_beam' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_it_trains_once_then_more_then_anew(job_file, job, capsys):
    names = RunLayout(job().train.workdir)
    assert main(["--job", job_file, "--set", "train.epochs=1"]) == 0
    assert "1 epochs, best loss" in capsys.readouterr().out
    assert main(["--job", job_file, "--set", "train.epochs=1"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(["--job", job_file]) == 0  # goes on to the second
    with open(names.metrics) as file:
        assert len(file.readlines()) == 2

    other = ["--job", job_file, "--set", "train.seed=8"]
    assert main(other) == 2
    message = capsys.readouterr().err
    assert "holds another training run" in message
    assert "--restart" in message
    assert main([*other, "--restart"]) == 0
    with open(names.run) as file:
        assert json.load(file)["train"]["seed"] == 8
    assert len(os.listdir(names.tensorboard)) == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("output.path=/nowhere", "there is no dataset"),
        ("train.feed.batch_size=1000", "fewer than one batch of 1000"),
        ("train.epoch=3", "did you mean 'epochs'?"),
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


def test_a_damaged_shard_stops_with_its_name_or_is_passed_over(job_file, written, capsys):
    path = written.shards()[1]
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    assert main(["--job", job_file]) == 2
    assert f"{path}: damaged" in capsys.readouterr().err
    assert main(["--job", job_file, "--restart", "--set", "train.feed.skip_corrupt=true"]) == 0


def test_a_loss_that_is_not_finite_exits_with_1(job_file, capsys):
    overrides = ["--set", "train.optimizer.name=sgd", "--set", "train.optimizer.learning_rate=1e30"]
    assert main(["--job", job_file, *overrides]) == 1
    assert capsys.readouterr().err.strip().splitlines()[-1].startswith("job failed: the loss")
