"""`beamfeed adopt` as a user calls it, and jobs without a source."""

import json
import os
import subprocess
import sys

import foreign
import pytest
import yaml
from foreign import example
from unprivileged import drop_privileges

from beamfeed.contract.config.job import TrainingJob
from beamfeed.contract.config.load import load_as
from beamfeed.contract.errors import UserError
from beamfeed.launcher.commands import find_dataset
from beamfeed.launcher.job import load_job
from beamfeed.launcher.plan import make_plan
from beamfeed.launcher.stage import TRAIN
from beamfeed.pipelines import adopt
from beamfeed.trainer.tools import measurements
from beamfeed.trainer.tools.inspect_dataset import main as inspect
from beamfeed.trainer.tools.profile_dataset import main as profile

JOB = """\
name: small
output: {path: lake}
train: {model: {name: tabular}, task: {name: classify, target: label}, workdir: m}
"""


@pytest.fixture
def lake(tmp_path, monkeypatch):
    """A folder of two splits, and its parent as the current folder."""
    for split, seed in (("train", 1), ("validation", 2)):
        records = [example({name: row[name] for name in ("measure/size", "measure/kind", "label")})
                   for row in foreign.rows(80, seed)]  # fmt: skip
        foreign.write(tmp_path / "lake" / f"lake-{split}.tfrecord-00000-of-00001", records)
    (tmp_path / "job.yaml").write_text(JOB)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "lake"


def beamfeed(*args, **options):
    command = [sys.executable, "-m", "beamfeed.launcher.cli", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


@pytest.mark.slow
def test_from_a_folder_to_a_model(lake, tmp_path, capsys, monkeypatch):
    done = beamfeed("adopt", "lake", "--target", "label", "--classes", "label=auto", "--job", "new.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "measure/size" in done.stdout
    assert done.stdout.endswith("next: beamfeed train new.yaml\n")
    job = yaml.safe_load((tmp_path / "new.yaml").read_text())
    assert job["train"]["task"] == {"name": "classify", "target": "label"}
    again = beamfeed("adopt", "lake", "--target", "label", "--job", "new.yaml")
    assert (again.returncode, again.stderr) == (2, "beamfeed: --job new.yaml: is there already; --force replaces it\n")
    keys = (
        "train.epochs=40",
        "train.evaluate_every=100",
        "train.optimizer.learning_rate=0.01",
        "train.review.baselines=none",
    )
    trained = beamfeed("train", "new.yaml", *(part for key in keys for part in ("--set", key)))
    assert trained.returncode == 0, trained.stderr
    result = json.loads((tmp_path / "lake-model" / "complete.json").read_text())
    assert result["metrics"]["accuracy"] > 0.9
    assert (tmp_path / "lake-model" / "saved_model").is_dir()
    assert (tmp_path / "lake-model" / "report.png").is_file()
    assert find_dataset("new.yaml", ()) == ("lake", "new.yaml")
    assert inspect(["lake", "--verify"]) == 0
    assert "OK: 2 shards" in capsys.readouterr().out
    for rounds in ("ROUNDS", "MOST_ROUNDS"):
        monkeypatch.setattr(measurements, rounds, 1)
    assert profile(["lake", "--seconds", "0.01", "--batch", "16"]) == 0


@pytest.mark.slow
def test_a_folder_that_is_read_only(lake, tmp_path, capsys):
    os.chmod(lake, 0o555)
    done = beamfeed("adopt", "lake", preexec_fn=drop_privileges)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "beamfeed: --out: lake cannot be written: Permission denied\n"
    done = beamfeed("adopt", "lake", "--out", "described", "--quiet", preexec_fn=drop_privileges)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    os.rename(tmp_path / "described", tmp_path / "moved")
    assert inspect(["moved", "--verify"]) == 0
    assert "OK: 2 shards" in capsys.readouterr().out


@pytest.mark.slow
def test_programs_are_told_in_one_object(lake, capsys):
    done = beamfeed("adopt", "lake", "--target", "label", "--json", "--", "--direct_num_workers=1")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert (found["event"], found["dataset"], found["rejects"]) == ("adopt", "lake", [])
    assert found["manifest"]["splits"]["train"]["windows"] == 80
    assert adopt.main(["lake", "--target", "lable", "--json"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_job_without_a_source_trains(lake):
    assert adopt.main(["lake", "--target", "label", "--classes", "label=auto", "--quiet"]) == 0
    (stage,) = make_plan("job.yaml", names=(TRAIN,)).stages
    assert (stage.name, stage.complete) == ("train", False)
    assert load_as(TrainingJob, "job.yaml").source.patterns == ()


def test_it_does_nothing_else(lake):
    with pytest.raises(UserError, match="source: is missing, it must be a mapping"):
        make_plan("job.yaml")
    with pytest.raises(UserError, match="source: is missing"):
        load_job("job.yaml")
    with pytest.raises(UserError, match=r"--max-assets 3: of a source, and job\.yaml has none"):
        make_plan("job.yaml", names=(TRAIN,), max_assets=3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("windows: {length: 3}", "windows: does not go with a job without a source"),
        ("source: {kind: none}", "kind 'none' is not allowed"),
        ("source: {}", "source: needs kind: "),
        ("split: {by: key}", "split.by: key does not go with a job without a source"),
    ],
)
def test_what_needs_a_source_is_refused(lake, more, message):
    (lake.parent / "job.yaml").write_text(JOB + more + "\n")
    with pytest.raises(UserError, match=message):
        make_plan("job.yaml", names=(TRAIN,))


def test_where_there_is_no_dataset(lake):
    with pytest.raises(
        UserError, match=r"no dataset in lake, and job\.yaml has no source to preprocess; 'beamfeed adopt'"
    ):
        make_plan("job.yaml", names=(TRAIN,))
    assert adopt.main(["lake", "--target", "label", "--classes", "label=auto", "--quiet"]) == 0
    changed = lake / "lake-validation.tfrecord-00000-of-00001"
    changed.write_bytes(changed.read_bytes()[:-1])
    with pytest.raises(
        UserError, match=f"lake/{changed.name} changed, or is gone, since the folder was adopted; adopt"
    ):
        make_plan("job.yaml", names=(TRAIN,))
