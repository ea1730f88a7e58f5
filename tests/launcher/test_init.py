"""`beamfeed init` as a user calls it."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml

from beamfeed.launcher import cli


@pytest.fixture
def beamfeed(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pumps").mkdir()
    for k in range(6):
        rows = "".join(f"{i},{(i * 7 + k) % 11}.5\n" for i in range(80))
        (tmp_path / "pumps" / f"pump-{k}.csv").write_text("t,flow\n" + rows)

    def call(*args):
        try:
            code = cli.main(["init", *args])
        except SystemExit as end:
            code = end.code
        told = capfd.readouterr()
        return SimpleNamespace(returncode=code, stdout=told.out, stderr=told.err)

    return call


def test_it_writes_a_job_file_once(beamfeed, tmp_path):
    done = beamfeed("pumps", "--out", "job.yaml")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "job.yaml: series: 6 files, 6 assets, 1 column to learn from\nnext: read it, then beamfeed run job.yaml\n"
    )
    text = (tmp_path / "job.yaml").read_text()
    assert yaml.safe_load(text)["source"]["features"] == ["flow"]
    (tmp_path / "job.yaml").write_text("mine")
    done = beamfeed("pumps", "--out", "job.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "beamfeed: --out job.yaml: is there already; --force replaces it\n"
    assert (tmp_path / "job.yaml").read_text() == "mine"
    assert beamfeed("pumps", "--out", "job.yaml", "--force").returncode == 0
    assert (tmp_path / "job.yaml").read_text() == text


def test_it_prints_a_job_file(beamfeed, tmp_path):
    done = beamfeed("pumps")
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["name"] == "pumps"
    assert [path.name for path in tmp_path.iterdir()] == ["pumps"]


def test_a_mistake_is_one_line(beamfeed):
    done = beamfeed("pumps", "--out", "pumps/pump-0.csv/job.yaml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("beamfeed: --out pumps/pump-0.csv/job.yaml: cannot be written: ")
    assert done.stderr.count("\n") == 1
    done = beamfeed("nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "beamfeed: nowhere: there is no such file or folder\n"


def test_the_program_gives_one_object(tmp_path, beamfeed):
    command = [sys.executable, "-m", "beamfeed.pipelines.suggest_job", "pumps", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    found = json.loads(done.stdout)
    assert set(found) == {"event", "time", "job", "out", "about", "command", "problems"}
    assert (found["command"], found["problems"]) == ("beamfeed run job.yaml", [])


def test_what_the_user_says_is_not_guessed(beamfeed):
    done = beamfeed("pumps", "--kind", "timeseries", "--time", "t", "--label", "none")
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["source"]["time"] == {"column": "t"}
    done = beamfeed("pumps", "--label", "flwo")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "beamfeed: --label flwo: is not a column of the files; did you mean 'flow'? (the files have: t, flow)\n"
    )


def test_a_job_that_cannot_run_is_not_praised(beamfeed, tmp_path):
    for k in range(6):
        (tmp_path / "pumps" / f"short-{k}.csv").write_text("t,flow\n1,2.5\n")
    done = beamfeed("pumps", "--out", "job.yaml")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == "next: mend it, then beamfeed check job.yaml"
    assert done.stderr.startswith("beamfeed: job.yaml does not run as it is: 50.0% of the assets were rejected")
    assert "# It does not run as it is:\n" in (tmp_path / "job.yaml").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere: there is no such file or folder"),
        (["pumps", "--ou", "x.yaml", "--frce"], "init: --frce: unknown option; did you mean '--force'? "),
    ],
)
def test_a_mistake_is_told_to_programs(beamfeed, arguments, message):
    done = beamfeed(*arguments, "--json")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    found = json.loads(done.stdout)
    assert (found["event"], found["code"]) == ("error", 2)
    assert found["message"].startswith(message)
    assert f"beamfeed: {found['message']}\n" == done.stderr
