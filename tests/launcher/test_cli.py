"""The command line, as a user calls it."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile

import pytest
import yaml

from beamfeed.launcher import cli, commands, plan

JOB = """
name: small
source:
  kind: timeseries
  files: {root}/in/*.csv
  time: {{column: t}}
  features: ["a"]
windows: {{length: 8}}
output: {{path: {root}/data}}
train:
  model: {{name: recurrent_autoencoder}}
  workdir: {root}/model
"""


@pytest.fixture
def job_path(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "one.csv").write_text("t,a\n1,2\n")
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(root=tmp_path))
    return str(path)


def beamfeed(*args):
    return subprocess.run(
        [sys.executable, "-m", "beamfeed.launcher.cli", *args], capture_output=True, text=True, timeout=60
    )


def tree(folder):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("cli", ["tensorflow", "apache_beam", "pyarrow", "matplotlib", "numpy", "pydantic", "yaml"]),
        ("commands", ["tensorflow", "apache_beam", "pyarrow", "matplotlib", "numpy"]),
    ],
)
def test_importing_it_loads_nothing_heavy(module, heavy):
    code = f"import sys, beamfeed.launcher.{module}; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def test_version():
    assert beamfeed("--version").stdout == "beamfeed 0.1.0\n"


def test_dry_run_prints_the_commands_and_touches_nothing(job_path, tmp_path):
    before = tree(tmp_path)
    result = beamfeed("run", job_path, "--dry-run", "--set", "launch.train.workers=3", "--set", "windows.stride=2")
    assert result.returncode == 0, result.stderr
    assert tree(tmp_path) == before
    lines = result.stdout.splitlines()
    assert "preprocess: to do: no dataset in " in result.stdout
    assert "train: to do: no finished training run in " in result.stdout
    assert sum("-m beamfeed.pipelines.preprocess --job" in line and "windows.stride=2" in line for line in lines) == 1
    train = [line.strip() for line in lines if "-m beamfeed.trainer.main --job" in line]
    assert len(train) == 3
    for index, line in enumerate(train):
        shell = subprocess.run(
            ["sh", "-c", f"{line.split(sys.executable)[0]} sh -c 'printf %s \"$TF_CONFIG\"'"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(shell.stdout)["task"]["index"] == index


def test_a_dry_run_says_that_no_file_was_opened_and_what_opens_them(job_path):
    result = beamfeed("run", job_path, "--dry-run", "--set", "source.time.column=nothing")
    assert result.returncode == 0
    assert f"no file of the input was opened; 'beamfeed check {job_path}' looks into them" in result.stdout
    assert "was opened" not in beamfeed("train", job_path, "--dry-run").stdout


def test_max_assets_in_a_dry_run(job_path, tmp_path):
    result = beamfeed("run", job_path, "--dry-run", "--max-assets", "3")
    assert f"--set source.max_assets=3 --set output.path={tmp_path}/data-3-assets" in result.stdout


def test_beam_options_follow_two_dashes(job_path):
    result = beamfeed("preprocess", job_path, "--dry-run", "--", "--runner=Other", "--set", "x")
    assert result.stdout.rstrip().endswith("--runner=Other --set x")
    result = beamfeed("train", job_path, "--dry-run", "--", "--runner=Other")
    assert result.returncode == 2
    assert "options after --" in result.stderr


def test_a_wrong_option_of_beam_is_one_line_of_the_stage(job_path):
    result = beamfeed("preprocess", job_path, "--", "--direct_num_worker=2")
    assert result.returncode == 2
    assert result.stderr.splitlines()[1:] == [
        "--direct_num_worker: Beam has no such option; did you mean '--direct_num_workers'?"
    ]


def without_train(job_path):
    with open(job_path) as file:
        text = file.read()
    with open(job_path, "w") as file:
        file.write(text[: text.index("train:\n")])
    return job_path


def test_a_job_without_train_can_be_preprocessed_but_not_run(job_path):
    without_train(job_path)
    for command in ("run", "train"):
        result = beamfeed(command, job_path, "--dry-run")
        assert result.returncode == 2
        told = f"beamfeed: {job_path}: train: is missing; 'beamfeed preprocess {job_path}' needs none\n"
        assert result.stderr == told
    result = beamfeed("preprocess", job_path, "--dry-run", "--max-assets", "2")
    assert result.returncode == 0, result.stderr
    assert "preprocess: to do" in result.stdout
    assert "train: to do" not in result.stdout
    assert "train.workdir" not in result.stdout


def test_cancelling_what_does_not_run_in_a_cloud(job_path):
    result = beamfeed("cancel", job_path)
    assert (result.returncode, result.stdout) == (0, "")
    assert result.stderr == f"beamfeed: {job_path}: nothing of it is running\n"


def test_cancelling_a_job_without_a_source(job_path, tmp_path):
    with open(job_path) as file:
        values = yaml.safe_load(file)
    del values["source"], values["windows"]
    (tmp_path / "bare.yaml").write_text(yaml.safe_dump(values))
    result = beamfeed("cancel", str(tmp_path / "bare.yaml"))
    assert (result.returncode, result.stderr) == (0, f"beamfeed: {tmp_path}/bare.yaml: nothing of it is running\n")


def test_schema_is_json_and_allows_no_unknown_key():
    result = beamfeed("schema")
    schema = json.loads(result.stdout)
    sections = [schema, *(one for one in schema["$defs"].values() if one["type"] == "object")]
    assert all(section["additionalProperties"] is False for section in sections)
    assert {"name", "source", "output"} <= set(schema["anyOf"][1]["required"])  # an included file may give them
    assert "from" in schema["$defs"]["AssetFrom"]["properties"]


def stand_in(monkeypatch, **codes):
    """Puts small processes in the place of the stages' commands."""
    real = plan.make_plan

    def make_plan(*args, **options):
        made = real(*args, **options)
        stages = tuple(
            dataclasses.replace(stage, command=(sys.executable, "-c", codes[stage.name])) for stage in made.stages
        )
        return dataclasses.replace(made, stages=stages)

    monkeypatch.setattr(commands, "make_plan", make_plan)


def test_run_goes_through_the_stages_in_order(job_path, monkeypatch, capfd):
    stand_in(monkeypatch, preprocess="print('preparing')", train="print('training')")
    assert cli.main(["run", job_path]) == 0
    assert capfd.readouterr().out.split()[:2] == ["preparing", "training"]


def test_a_stage_that_fails_ends_the_run(job_path, monkeypatch, capfd):
    stand_in(monkeypatch, preprocess="import sys; print('beamfeed: no'); sys.exit(1)", train="print('training')")
    assert cli.main(["run", job_path]) == 1
    assert capfd.readouterr().out == "beamfeed: no\n"


def test_preprocess_runs_one_stage(job_path, monkeypatch, capfd):
    stand_in(monkeypatch, preprocess="print('preparing')", train="print('training')")
    assert cli.main(["preprocess", job_path]) == 0
    assert "training" not in capfd.readouterr().out


@pytest.mark.parametrize("more", [["--restart"], ["--from-step", "3"], ["--profile-steps", "1-2"]])
def test_what_does_not_go_with_looking_for_a_learning_rate(job_path, more, capsys):
    assert cli.main(["train", job_path, "--find-lr", *more]) == 2
    assert (
        capsys.readouterr().err
        == f"beamfeed: {more[0]}: does not go with --find-lr, which trains nothing that is kept\n"
    )


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.writers=[mlflow]", "train.writers: mlflow needs the address of a tracking server"),
        ("train.init={from: nowhere}", "train.init.from: nowhere is neither the train.workdir of a finished run nor"),
    ],
)
def test_what_training_needs_is_told_before_anything_runs(job_path, override, message, monkeypatch, capfd):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    stand_in(monkeypatch, preprocess="print('preparing')", train="print('training')")
    assert cli.main(["run", job_path, "--set", override]) == 2
    out, err = capfd.readouterr()
    assert (out, err.startswith(f"beamfeed: {message}"), err.count("\n")) == ("", True, 1)


def test_what_nobody_foresaw_is_one_line_and_a_log(job_path, monkeypatch, capfd, tmp_path):
    def fails(*_, **__):
        raise RuntimeError("a server said\nmany\nthings")

    monkeypatch.setattr(commands, "make_plan", fails)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert cli.main(["run", job_path]) == 1
    out, error = capfd.readouterr()
    (path,) = tmp_path.glob("beamfeed-failure-*.log")
    assert (out, error) == ("", f"beamfeed: job failed: RuntimeError: a server said; log: {path}\n")
    assert "Traceback (most recent call last):" in path.read_text()


def test_inspect_passes_its_arguments_on(monkeypatch):
    started = []
    monkeypatch.setattr(commands, "run_together", lambda name, processes: started.append(processes) or 0)
    assert cli.main(["inspect", "out/data", "--windows", "2", "--verify"]) == 0
    command = started[0][0].command
    assert command[1:] == ("-m", "beamfeed.trainer.tools.inspect_dataset", "out/data", "--windows", "2", "--verify")


@pytest.mark.parametrize("command", ["inspect", "profile"])
def test_a_job_file_stands_for_its_dataset(monkeypatch, job_path, command):
    started = []
    monkeypatch.setattr(commands, "run_together", lambda name, processes: started.extend(processes) or 0)
    assert cli.main([command, job_path, "--set", "output.path=elsewhere/data"]) == 0
    (process,) = started
    assert process.command[3] == "elsewhere/data"
    assert (job_path in process.command) == (command == "profile")


def test_an_override_needs_a_job_file(capsys):
    assert cli.main(["inspect", "out/data", "--set", "a=1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "beamfeed: --set a=1: replaces a key of a job file, and out/data is not a job file"


def test_profile_passes_its_arguments_on(monkeypatch):
    started = []
    monkeypatch.setattr(commands, "run_together", lambda name, processes: started.append(processes) or 0)
    assert cli.main(["profile", "out/data", "--job", "job.yaml", "--set", "a.b=1", "--shuffle", "0"]) == 0
    command = started[0][0].command
    assert command[1:] == (
        "-m", "beamfeed.trainer.tools.profile_dataset", "out/data",
        "--job", "job.yaml", "--set", "a.b=1", "--shuffle", "0",
    )  # fmt: skip
